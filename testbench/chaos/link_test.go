package chaos

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// bench is a link before an engine that streams a frame for each word it is given.
type bench struct {
	*link
	tracker *tracker
	url     string
	words   chan string      // of the last request that was begun
	hand    chan chan string // gives each request at the engine its own: one that has ended may not have noticed yet
	client  *http.Client
	now     atomic.Int64
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{hand: make(chan chan string), client: &http.Client{Transport: &http.Transport{}}}
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		var words chan string
		select {
		case words = <-b.hand:
		case <-r.Context().Done():
			return
		}
		for {
			select {
			case word, ok := <-words:
				if !ok {
					return
				}
				_, _ = io.WriteString(w, word)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	port, err := newPorts(os.Getpid()).take(t.Context(), 1) // nobody else is given it while it is closed
	require.NoError(t, err)
	b.url = "http://" + loopback(port)
	b.tracker = newTracker(1, func() time.Duration { return time.Duration(b.now.Add(1)) })
	b.tracker.reborn(0)
	b.link, err = newLink(0, b.tracker, listener(port), dialer(engine.Listener.Addr().String()))
	require.NoError(t, err)
	t.Cleanup(func() {
		b.client.CloseIdleConnections()
		b.shut()
		engine.CloseClientConnections()
		engine.Close()
	})
	return b
}

// ask sends a request to generate.
func (b *bench) ask(ctx context.Context, number int) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/v1/completions", strings.NewReader(prompted(number, 300)))
	if err != nil {
		return nil, err
	}
	return b.client.Do(req)
}

// begun sends a request and returns its answer when its first word has come.
func (b *bench) begun(t *testing.T, ctx context.Context, number int) io.Reader { //nolint:revive // the test comes first
	t.Helper()
	words := make(chan string)
	b.words = words
	go func() { b.hand <- words; words <- "one" }()
	resp, err := b.ask(ctx, number)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	one := make([]byte, 3)
	_, err = io.ReadFull(resp.Body, one)
	require.NoError(t, err)
	return resp.Body
}

func (b *bench) ended(t *testing.T, number int) Attempt {
	t.Helper()
	var last Attempt
	require.Eventually(t, func() bool {
		all := b.tracker.request(number)
		last = all[len(all)-1]
		return last.End != EndNone
	}, time.Minute, time.Millisecond)
	require.Empty(t, b.tracker.under(0))
	return last
}

func TestLinkCarriesAndTracks(t *testing.T) {
	b := newBench(t)
	for number := range 3 { // over one connection
		before, changed := b.tracker.watch(number)
		require.Empty(t, before)
		body := b.begun(t, t.Context(), number)
		<-changed
		under := b.tracker.under(0)
		require.Len(t, under, 1)
		require.Equal(t, number, under[0].Request)
		go func(words chan<- string) { words <- "two"; words <- ""; words <- "three" }(b.words)
		rest := make([]byte, 8)
		_, err := io.ReadFull(body, rest)
		require.NoError(t, err)
		require.Equal(t, "twothree", string(rest))
		close(b.words)
		_, err = io.ReadAll(body)
		require.NoError(t, err)
		a := b.ended(t, number)
		require.Equal(t, Attempt{
			Request: number, Life: 1, PromptTokens: 300, Began: a.Began, First: a.First, Ended: a.Ended, End: EndWhole, Status: 200,
		}, a)
		require.Less(t, a.Began, a.First)
		require.Less(t, a.First, a.Ended)
	}
	require.Len(t, b.tracker.all(), 3)
}

// Who leaves is seen, on both sides.
func TestLinkSeesWhoLeaves(t *testing.T) {
	b := newBench(t)
	ctx, leave := context.WithCancel(t.Context())
	b.begun(t, ctx, 1)
	leave()
	require.Equal(t, EndLeft, b.ended(t, 1).End)

	body := b.begun(t, t.Context(), 2)
	b.mu.Lock()
	for p := range b.conns {
		_ = p.engine.Close() // as if it died
	}
	b.mu.Unlock()
	_, err := io.ReadAll(body)
	require.Error(t, err)
	require.Equal(t, EndBroken, b.ended(t, 2).End)
}

// An engine that closes a connection on which it has answered before, as a request comes, has not failed it: the client sends it
// again, and nobody but the link sees that.
func TestLinkKnowsConnectionsThatWereIdle(t *testing.T) {
	b := newBench(t)
	body := b.begun(t, t.Context(), 1)
	close(b.words)
	_, err := io.ReadAll(body)
	require.NoError(t, err)
	require.Equal(t, EndWhole, b.ended(t, 1).End)

	asked := make(chan error, 1)
	go func() {
		_, err := b.ask(t.Context(), 2) //nolint:bodyclose // there is none
		asked <- err
	}()
	require.Eventually(t, func() bool { return len(b.tracker.under(0)) == 1 }, time.Minute, time.Millisecond)
	b.mu.Lock()
	for p := range b.conns {
		_ = p.engine.Close()
	}
	b.mu.Unlock()
	require.Eventually(t, func() bool { return b.tracker.request(2)[0].End == EndStale }, time.Minute, time.Millisecond)
	b.shut()
	require.Error(t, <-asked)
}

// A cut comes in the middle of what comes next, or after a while though nothing comes.
func TestLinkCutsInTheMiddle(t *testing.T) {
	b := newBench(t)
	cut := func(patience time.Duration) {
		b.mu.Lock()
		b.patience = patience
		b.mu.Unlock()
		b.tracker.cut(0, false)
	}
	body := b.begun(t, t.Context(), 1)
	cut(time.Hour)
	go func(words chan<- string) { words <- "0123456789" }(b.words)
	rest, err := io.ReadAll(body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Less(t, len(rest), 10)
	require.NotEmpty(t, rest)
	require.Equal(t, EndBroken, b.ended(t, 1).End)

	body = b.begun(t, t.Context(), 2)
	cut(time.Millisecond)
	_, err = io.ReadAll(body)
	require.Error(t, err)
	require.Equal(t, EndBroken, b.ended(t, 2).End)
}

func TestLinkRefusesAndAcceptsAgain(t *testing.T) {
	b := newBench(t)
	b.refuse()
	_, err := b.ask(t.Context(), 1) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.NoError(t, b.accept())
	require.NoError(t, b.accept(), "it does")
	b.begun(t, t.Context(), 2)
}

// Nothing comes through a partition, neither bytes nor ends nor connections; all of it does when it heals.
func TestLinkPartition(t *testing.T) {
	b := newBench(t)
	body := b.begun(t, t.Context(), 1)
	b.part()
	b.part()
	sent := make(chan struct{})
	go func(words chan<- string) { words <- "two"; close(sent) }(b.words)
	<-sent // the engine has it off its hands
	read := make(chan string, 1)
	go func() {
		two := make([]byte, 3)
		_, _ = io.ReadFull(body, two)
		read <- string(two)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := b.ask(ctx, 2) //nolint:bodyclose // there is none
	require.True(t, errors.Is(err, context.DeadlineExceeded))
	require.Empty(t, read)
	b.heal()
	require.Equal(t, "two", <-read)
}

func TestLinkDelays(t *testing.T) {
	b := newBench(t)
	body := b.begun(t, t.Context(), 1)
	b.delay(80*time.Millisecond, 20*time.Millisecond)
	began := time.Now()
	go func(words chan<- string) { words <- "two" }(b.words)
	_, err := io.ReadFull(body, make([]byte, 3))
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), 80*time.Millisecond)
	b.delay(0, 0)
}

// What is shut ends at once, in a partition too.
func TestLinkShuts(t *testing.T) {
	b := newBench(t)
	b.begun(t, t.Context(), 1)
	b.part()
	b.shut()
	require.Equal(t, EndLeft, b.ended(t, 1).End)
}
