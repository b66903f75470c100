package enginetest

import (
	"bufio"
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/wire"
)

// pipe returns a dial whose connections run a script on their other end, as [Serve] does, without a port: thousands of
// connections a test cost little.
func pipe(tb testing.TB, script func(*Session)) wire.Dial {
	tb.Helper()
	var running sync.WaitGroup
	tb.Cleanup(running.Wait)
	return func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		running.Go(func() {
			defer func() { _ = server.Close() }()
			s := &Session{Conn: server, input: bufio.NewReader(server)}
			if s.Next() {
				script(s)
			}
		})
		return client, nil
	}
}

// heardOf runs a call against a server that says the parts, each in a write of its own, and closes.
func (w *Wire) heardOf(tb testing.TB, req engine.Request, parts ...string) *Heard {
	tb.Helper()
	e := w.open(tb, "http://127.0.0.1:1", pipe(tb, Says(parts...)))
	h := Generate(tb, e, req)
	require.NoError(tb, e.Close())
	return h
}

// Hear runs a call against a server whose stream has this body.
func (w *Wire) Hear(tb testing.TB, req engine.Request, body string) *Heard {
	tb.Helper()
	return w.heardOf(tb, req, StreamHeader, Chunk(body), LastChunk)
}

// same compares what was heard; errors by their kind, because where a stream is cut shows in their text.
func same(t *testing.T, want, got *Heard, message string, args ...any) {
	t.Helper()
	require.Equal(t, want.Tokens, got.Tokens, append([]any{message}, args...)...)
	require.Equal(t, want.Deltas, got.Deltas)
	require.Equal(t, want.Cached, got.Cached)
	require.Equal(t, want.Finish, got.Finish)
	if want.Err != nil {
		FailureIn(t, got.Err, engine.KindOf(want.Err))
	}
}

// cuts runs one answer with all that an answer may hold: cut at every byte, headers and chunk borders included.
func (w *Wire) cuts(t *testing.T) {
	body := strings.Join(w.Quiet, "") + w.Token(7, 1) + w.Token(8, 2) + strings.Join(w.Quiet, "") + w.Finish + w.Trailer
	answer := StreamHeader + Chunk(body) + LastChunk
	whole := w.heardOf(t, Request(8), answer)
	require.NoError(t, whole.Err)
	require.Equal(t, []uint32{7, 8}, whole.IDs())
	t.Run("an answer reads the same wherever it is cut", func(t *testing.T) {
		for cut := range len(answer) + 1 {
			same(t, whole, w.heardOf(t, Request(8), answer[:cut], answer[cut:]), "cut at %d", cut)
		}
	})
	t.Run("an answer reads the same byte by byte", func(t *testing.T) {
		same(t, whole, w.heardOf(t, Request(8), strings.Split(answer, "")...), "byte by byte")
	})
	t.Run("an answer reads the same in chunks of a byte", func(t *testing.T) {
		parts := strings.Split(body, "")
		for i, b := range parts {
			parts[i] = Chunk(b)
		}
		same(t, whole, w.heardOf(t, Request(8), slices.Concat([]string{StreamHeader}, parts, []string{LastChunk})...), "in chunks")
	})
	t.Run("an answer that ends anywhere is a prefix, and complete only with its finish", func(t *testing.T) {
		finished := strings.Index(body, w.Finish) + len(w.Finish)
		for cut := range body {
			h := w.heardOf(t, Request(8), StreamHeader+Chunk(body[:cut]))
			require.Equal(t, whole.IDs()[:len(h.Tokens)], append([]uint32{}, h.IDs()...), "cut at %d", cut)
			require.Equal(t, cut >= finished, h.Err == nil, "cut at %d: %v", cut, h.Err)
		}
	})
}

// cutBytesMax bounds the recorded streams that are cut at every byte; longer ones show nothing more for a lot of time.
const cutBytesMax = 1000

func (w *Wire) recordedCuts(t *testing.T) {
	streams, small := 0, 0
	for _, rec := range Recordings(t, w.Recorded.Dir) {
		if !rec.Streams() {
			continue
		}
		streams++
		t.Run(rec.Name, func(t *testing.T) {
			heard := func(split func(string) []string) *Heard {
				return w.hear(t, rec, Says(rec.stream(split)...))
			}
			whole := heard(func(body string) []string { return []string{body} })
			same(t, whole, heard(func(body string) []string { return strings.Split(body, "") }), "byte by byte")
			if len(rec.Body) > cutBytesMax {
				return
			}
			small++
			for cut := range len(rec.Body) {
				same(t, whole, heard(func(body string) []string { return []string{body[:cut], body[cut:]} }), "cut at %d", cut)
			}
		})
	}
	require.Greater(t, streams, 15)
	require.Greater(t, small, 3)
}
