package sse_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/sse"
)

func TestWriterFrames(t *testing.T) {
	var out bytes.Buffer
	w := sse.NewWriter(&out)
	require.NoError(t, w.Data([]byte(`{"a":1}`)))
	require.NoError(t, w.Event("message_stop", []byte(`{}`)))
	require.NoError(t, w.Comment("ping"))
	require.NoError(t, w.Data([]byte("[DONE]")))
	require.Equal(t, "data: {\"a\":1}\n\nevent: message_stop\ndata: {}\n\n: ping\n\ndata: [DONE]\n\n", out.String())
}

func TestContentCannotBreakAFrame(t *testing.T) {
	for _, s := range []string{"a\nb", "a\rb", "\n", "a\n\ndata: [DONE]"} {
		var out bytes.Buffer
		w := sse.NewWriter(&out)
		require.ErrorIs(t, w.Data([]byte(s)), sse.ErrLineBreak)
		require.ErrorIs(t, w.Event(s, []byte("x")), sse.ErrLineBreak)
		require.ErrorIs(t, w.Comment(s), sse.ErrLineBreak)
		require.Empty(t, out.String(), "nothing is written of a frame that is refused")
		require.NoError(t, w.Data([]byte("x")), "the writer goes on")
		require.Equal(t, "data: x\n\n", out.String())
	}
}

// failing refuses every write.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestWriterPassesTheErrorOn(t *testing.T) {
	gone := errors.New("client gone")
	require.ErrorIs(t, sse.NewWriter(failing{gone}).Data([]byte("x")), gone)
}

func TestEachEventIsOneWrite(t *testing.T) {
	var writes countingWriter
	w := sse.NewWriter(&writes)
	require.NoError(t, w.Event("x", []byte("y")))
	require.NoError(t, w.Comment(""))
	require.Equal(t, 2, writes.calls)
}

type countingWriter struct{ calls int }

func (c *countingWriter) Write(p []byte) (int, error) {
	c.calls++
	return len(p), nil
}

func FuzzRoundTrip(f *testing.F) {
	f.Add("", `{"content":"data: [DONE]\n\n"}`, "ping")
	f.Add("message_stop", "[DONE]", "")
	f.Add("delta", " two spaces", ": colon")
	f.Add("a", "x\ny", "")
	f.Fuzz(func(t *testing.T, name, payload, comment string) {
		var out bytes.Buffer
		w := sse.NewWriter(&out)
		breaks := func(s string) bool { return strings.ContainsAny(s, "\r\n") }
		var want []event
		var comments uint64
		if err := w.Comment(comment); breaks(comment) {
			require.ErrorIs(t, err, sse.ErrLineBreak)
		} else {
			require.NoError(t, err)
			comments++
		}
		for _, n := range []string{name, ""} {
			if err := w.Event(n, []byte(payload)); breaks(n) || breaks(payload) {
				require.ErrorIs(t, err, sse.ErrLineBreak)
			} else {
				require.NoError(t, err)
				want = append(want, event{Name: n, Data: payload})
			}
		}
		got, gotComments, err := readAll(&out, sse.DefaultLimits())
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, want, got)
		require.Equal(t, comments, gotComments)
	})
}

func BenchmarkWriter(b *testing.B) {
	payload := []byte(`{"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":" the"}}]}`)
	w := sse.NewWriter(io.Discard)
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Data(payload); err != nil {
			b.Fatal(err)
		}
	}
}
