package logbook

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"plimsoll/testbench/printed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reader is what a log is written to: it takes what it gets, stands still, or is gone.
type reader struct {
	mu    sync.Mutex
	text  strings.Builder
	gone  error
	short int           // of a write that fails, what it takes
	still chan struct{} // not nil: every write waits until it is closed
}

func (r *reader) Write(p []byte) (int, error) {
	r.mu.Lock()
	still := r.still
	r.mu.Unlock()
	if still != nil {
		<-still
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone != nil {
		n := min(r.short, len(p))
		r.text.Write(p[:n])
		return n, r.gone
	}
	return r.text.Write(p)
}

// set changes how it is.
func (r *reader) set(still chan struct{}, gone error, short int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.still, r.gone, r.short = still, gone, short
}

func (r *reader) read() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// dropped counts what a book has dropped.
type dropped struct {
	mu    sync.Mutex
	lines [NumCauses]int
}

func (d *dropped) count(cause Cause, lines int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines[cause] += lines
}

func (d *dropped) so(t *testing.T, full, failed, unended int) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	require.Equal(t, [NumCauses]int{Full: full, Failed: failed, Unended: unended}, d.lines)
}

func open(t *testing.T, size int, r io.Writer) (*Book, *dropped) {
	t.Helper()
	d := &dropped{}
	b, err := Open(Config{Bytes: size, Flush: time.Second}, Deps{
		To: r, Dropped: d.count,
		Missing: func(to io.Writer, lines int) { _, _ = fmt.Fprintf(to, "(%d missing)\n", lines) },
	})
	require.NoError(t, err)
	return b, d
}

// say writes lines of four bytes.
func say(t *testing.T, b *Book, first, lines int) {
	t.Helper()
	for i := range lines {
		n, err := fmt.Fprintf(b, "%03d\n", first+i)
		require.NoError(t, err)
		require.Equal(t, 4, n)
	}
}

func TestLinesComeInOrderAndTheEndWaitsForTheLast(t *testing.T) {
	var text printed.Text
	b, d := open(t, 1<<20, &text)
	var want strings.Builder
	for i := range 1000 {
		say(t, b, i, 1)
		fmt.Fprintf(&want, "%03d\n", i)
	}
	b.Close()
	require.Equal(t, want.String(), text.String())
	d.so(t, 0, 0, 0)
}

// Whoever logs goes on though nobody reads: no time passes. What had no room is counted, and said in its place.
func TestAReaderThatStandsStillHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, on := &reader{}, make(chan struct{})
		b, d := open(t, 12, r)
		start := time.Now()
		r.set(on, nil, 0)
		say(t, b, 0, 1)
		synctest.Wait() // it is at the reader
		say(t, b, 1, 10)
		require.Zero(t, time.Since(start))
		d.so(t, 7, 0, 0)
		r.set(nil, nil, 0)
		close(on)
		synctest.Wait()
		require.Equal(t, "000\n001\n002\n003\n(7 missing)\n", r.read())
		say(t, b, 11, 1)
		b.Close()
		require.Equal(t, "000\n001\n002\n003\n(7 missing)\n011\n", r.read())
		d.so(t, 7, 0, 0)
	})
}

func TestAReaderThatIsGoneHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		b, d := open(t, 100, r)
		r.set(nil, errors.New("broken pipe"), 0)
		for i := range 3 {
			say(t, b, i, 1)
			synctest.Wait()
		}
		d.so(t, 0, 3, 0)
		r.set(nil, nil, 0)
		say(t, b, 3, 1)
		b.Close()
		require.Equal(t, "(3 missing)\n003\n", r.read())
		d.so(t, 0, 3, 0)
	})
}

// What a full disk took counts as written.
func TestOfAWriteThatFailsOnlyTheRestIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, on := &reader{}, make(chan struct{})
		b, d := open(t, 100, r)
		r.set(on, nil, 0)
		say(t, b, 0, 1)
		synctest.Wait()
		say(t, b, 1, 4)
		r.set(nil, errors.New("no space left"), 8)
		close(on)
		b.Close()
		require.Equal(t, "000\n001\n002\n", r.read())
		d.so(t, 0, 2, 0)
	})
}

func TestALineLongerThanAllIsDropped(t *testing.T) {
	var text printed.Text
	b, d := open(t, 10, &text)
	_, err := b.Write([]byte("twelve bytes"))
	require.NoError(t, err)
	say(t, b, 1, 1)
	b.Close()
	require.Contains(t, text.String(), "001\n")
	require.Contains(t, text.String(), "(1 missing)\n")
	d.so(t, 1, 0, 0)
}

func TestTheEndIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, on := &reader{}, make(chan struct{})
		r.set(on, nil, 0)
		b, d := open(t, 100, r)
		say(t, b, 0, 1)
		synctest.Wait()
		say(t, b, 1, 5)
		start := time.Now()
		b.Close()
		require.Equal(t, time.Second, time.Since(start))
		say(t, b, 6, 2)
		d.so(t, 0, 0, 7)
		close(on) // the bubble's goroutines have to end
	})
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{{Bytes: 0, Flush: 1}, {Bytes: 1, Flush: 0}} {
		_, err := Open(c, Deps{})
		require.ErrorContains(t, err, "above 0")
	}
	_, err := Open(DefaultConfig(), Deps{})
	require.ErrorContains(t, err, "required")
	names := map[string]bool{}
	for c := range NumCauses {
		names[c.String()] = true
	}
	require.Len(t, names, int(NumCauses))
	require.Equal(t, "unknown", NumCauses.String())
}
