package sse_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/sse"
)

// event is an Event that outlives the next call of Next.
type event struct{ Name, Data, ID string }

// readAll returns every event of src, how many comments were passed over, and what ended the stream.
func readAll(src io.Reader, limits sse.Limits) ([]event, uint64, error) {
	r := sse.NewReader(src, limits)
	var out []event
	for {
		e, err := r.Next()
		if err != nil {
			return out, r.Comments(), err
		}
		out = append(out, event{e.Name, string(e.Data), e.ID})
	}
}

// oracle parses a whole stream by the letter of the standard, without an eye on cost.
func oracle(body string) ([]event, uint64) {
	body = strings.TrimPrefix(body, "\xef\xbb\xbf")
	body = strings.ReplaceAll(strings.ReplaceAll(body, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(body, "\n")
	var events []event
	var comments uint64
	var data *string
	var name, id string
	for _, line := range lines[:len(lines)-1] {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if data != nil {
				events = append(events, event{name, *data, id})
			}
			data, name = nil, ""
		case key == "":
			comments++
		case key == "data" && data == nil:
			data = &value
		case key == "data":
			*data += "\n" + value
		case key == "event":
			name = value
		case key == "id" && !strings.Contains(value, "\x00"):
			id = value
		}
	}
	return events, comments
}

func TestReaderFollowsTheStandard(t *testing.T) {
	cases := []struct {
		name, body string
		events     []event
		comments   uint64
	}{
		{"one event", "data: a\n\n", []event{{"", "a", ""}}, 0},
		{"only one space after the colon is cut", "data:a\n\ndata:  a\n\n", []event{{"", "a", ""}, {"", " a", ""}}, 0},
		{"crlf", "data: a\r\n\r\ndata: b\r\n\r\n", []event{{"", "a", ""}, {"", "b", ""}}, 0},
		{"cr", "data: a\r\rdata: b\r\r", []event{{"", "a", ""}, {"", "b", ""}}, 0},
		{"mixed line ends", "data: a\r\ndata: b\rdata: c\n\r\n", []event{{"", "a\nb\nc", ""}}, 0},
		{"data lines are joined", "data: a\ndata\ndata: b\n\n", []event{{"", "a\n\nb", ""}}, 0},
		{"empty data is an event", "data\n\n", []event{{"", "", ""}}, 0},
		{"no data is no event", "event: x\n\ndata: a\n\n", []event{{"", "a", ""}}, 0},
		{"names", "event: x\ndata: a\n\nevent: x\ndata: b\n\n", []event{{"x", "a", ""}, {"x", "b", ""}}, 0},
		{"id stays", "id: 7\ndata: a\n\ndata: b\n\n", []event{{"", "a", "7"}, {"", "b", "7"}}, 0},
		{"id with nul is ignored", "id: 7\nid: 8\x00\ndata: a\n\n", []event{{"", "a", "7"}}, 0},
		{"comments are counted", ":\n\n: ping\n\ndata: a\n: b\n\n", []event{{"", "a", ""}}, 3},
		{"byte order mark", "\xef\xbb\xbfdata: a\n\n", []event{{"", "a", ""}}, 0},
		{"only one byte order mark", "\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", []event{{"", "b", ""}}, 0},
		{"byte order mark inside is content", "data: a\n\n\xef\xbb\xbfdata: b\n\n", []event{{"", "a", ""}}, 0},
		{"unknown fields and retry", "retry: 10\nfoo: x\nDATA: y\ndata: a\n\n", []event{{"", "a", ""}}, 0},
		{"cut by the end", "data: a\n\ndata: b\n", []event{{"", "a", ""}}, 0},
		{"cut inside a line", "data: a\n\ndata: b", []event{{"", "a", ""}}, 0},
		{"nothing", "", nil, 0},
		{"terminator inside content", "data: {\"x\":\"data: [DONE]\\n\\n\"}\n\n", []event{{"", `{"x":"data: [DONE]\n\n"}`, ""}}, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			events, comments, err := readAll(strings.NewReader(c.body), sse.DefaultLimits())
			require.ErrorIs(t, err, io.EOF)
			require.Equal(t, c.events, events)
			require.Equal(t, c.comments, comments)
			fromOracle, commentsOfOracle := oracle(c.body)
			require.Equal(t, c.events, fromOracle, "the oracle differs")
			require.Equal(t, c.comments, commentsOfOracle)
		})
	}
}

// recorded returns the streams recorded from real servers: those that the adapters' tests hold, and of routes that no adapter asks.
func recorded(tb testing.TB) map[string][]byte {
	tb.Helper()
	out := map[string][]byte{}
	for _, pattern := range []string{
		filepath.Join("testdata", "recorded", "*.sse"),
		filepath.Join("..", "llamacpp", "testdata", "recorded", "*", "*.sse"),
	} {
		names, err := filepath.Glob(pattern)
		require.NoError(tb, err)
		require.NotEmpty(tb, names, "%s", pattern)
		for _, name := range names {
			body, err := os.ReadFile(name)
			require.NoError(tb, err)
			out[name] = body
		}
	}
	return out
}

func TestRecordedStreamsReadTheSameHoweverTheyAreCut(t *testing.T) {
	for name, body := range recorded(t) {
		t.Run(name, func(t *testing.T) {
			want, comments := oracle(string(body))
			require.NotEmpty(t, want)
			for _, style := range []string{"\n", "\r\n", "\r"} {
				text := strings.ReplaceAll(string(body), "\n", style)
				got, gotComments, err := readAll(iotest.OneByteReader(strings.NewReader(text)), sse.DefaultLimits())
				require.ErrorIs(t, err, io.EOF)
				require.Equal(t, want, got)
				require.Equal(t, comments, gotComments)
			}
			for cut := range len(body) + 1 {
				got, _, err := readAll(io.MultiReader(bytes.NewReader(body[:cut]), bytes.NewReader(body[cut:])), sse.DefaultLimits())
				require.ErrorIs(t, err, io.EOF)
				require.Equal(t, want, got, "cut at %d", cut)
			}
		})
	}
}

func TestReaderPassesTheSourcesErrorOn(t *testing.T) {
	broken := errors.New("reset by peer")
	for _, end := range []error{io.ErrUnexpectedEOF, broken} {
		src := io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(end))
		r := sse.NewReader(src, sse.DefaultLimits())
		e, err := r.Next()
		require.NoError(t, err)
		require.Equal(t, "a", string(e.Data))
		for range 2 {
			_, err = r.Next()
			require.ErrorIs(t, err, end, "errors are final")
		}
	}
}

func TestReaderDeliversWhatCameWithTheError(t *testing.T) {
	got, _, err := readAll(iotest.DataErrReader(strings.NewReader("data: a\n\n")), sse.DefaultLimits())
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, []event{{"", "a", ""}}, got)
}

func TestReaderHoldsNoMoreThanItsLimits(t *testing.T) {
	limits := sse.Limits{LineBytes: 20, EventBytes: 30}
	fits := "data: " + strings.Repeat("x", 14) + "\n\n"
	cases := []struct {
		name, body string
		what       string
	}{
		{"a line at the limit", fits, ""},
		{"a byte order mark does not count", "\xef\xbb\xbf" + fits, ""},
		{"a line over it", "data: " + strings.Repeat("x", 15) + "\n\n", "line"},
		{"a line without an end", strings.Repeat("x", 1<<16), "line"},
		{"a comment over it", ":" + strings.Repeat("x", 1<<16), "line"},
		{"an event over it", strings.Repeat("data: 12345678\n", 4) + "\n", "event"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			src := &countingReader{src: iotest.OneByteReader(strings.NewReader(c.body))}
			r := sse.NewReader(src, limits)
			_, err := r.Next()
			if c.what == "" {
				require.NoError(t, err)
				return
			}
			var limit *sse.LimitError
			require.ErrorAs(t, err, &limit)
			require.Equal(t, c.what, limit.What)
			require.LessOrEqual(t, src.bytes, limits.EventBytes+2*limits.LineBytes, "it read on")
			_, again := r.Next()
			require.Equal(t, err, again)
		})
	}
}

// countingReader counts the bytes read through it.
type countingReader struct {
	src   io.Reader
	bytes int
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	c.bytes += n
	return n, err
}

// silentReader never gives anything.
type silentReader struct{}

func (silentReader) Read([]byte) (int, error) { return 0, nil }

func TestReaderDoesNotSpinOnASilentSource(t *testing.T) {
	_, err := sse.NewReader(silentReader{}, sse.DefaultLimits()).Next()
	require.ErrorIs(t, err, io.ErrNoProgress)
}

func TestLongFramesPass(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	got, _, err := readAll(iotest.HalfReader(strings.NewReader("data: a\n\ndata: "+long+"\n\ndata: b\n\n")), sse.DefaultLimits())
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, []event{{"", "a", ""}, {"", long, ""}, {"", "b", ""}}, got)
}

func FuzzReader(f *testing.F) {
	for _, body := range recorded(f) {
		f.Add(body, uint8(1))
		f.Add(bytes.ReplaceAll(body, []byte("\n"), []byte("\r\n")), uint8(3))
	}
	f.Add([]byte("\xef\xbb\xbf:c\rdata\r\n\r\nid:1\x00\nevent: e\ndata: x\n\n"), uint8(2))
	f.Fuzz(func(t *testing.T, body []byte, step uint8) {
		want, comments := oracle(string(body))
		got, gotComments, err := readAll(&steppedReader{rest: body, step: int(step)%7 + 1}, sse.DefaultLimits())
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, want, got)
		require.Equal(t, comments, gotComments)
	})
}

// steppedReader gives step bytes a call.
type steppedReader struct {
	rest []byte
	step int
}

func (s *steppedReader) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.rest[:min(s.step, len(s.rest))])
	s.rest = s.rest[n:]
	return n, nil
}

func BenchmarkReader(b *testing.B) {
	frame := `data: {"index":0,"content":" the","tokens":[506],"stop":false,"id_slot":-1,"tokens_predicted":1,"tokens_evaluated":6}` + "\n\n"
	b.Run("frame=120B", func(b *testing.B) {
		r := sse.NewReader(&endless{frame: []byte(frame)}, sse.DefaultLimits())
		b.ReportAllocs()
		b.SetBytes(int64(len(frame)))
		for b.Loop() {
			if _, err := r.Next(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// endless repeats a frame for ever.
type endless struct {
	frame []byte
	at    int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.frame[e.at:])
	e.at = (e.at + n) % len(e.frame)
	return n, nil
}

func TestReadingAFrameAllocatesNothing(t *testing.T) {
	r := sse.NewReader(&endless{frame: []byte("event: delta\ndata: {\"a\":1}\n\n")}, sse.DefaultLimits())
	_, err := r.Next()
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}))
}
