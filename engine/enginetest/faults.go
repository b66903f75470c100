package enginetest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/wire"
)

// twoTokens is the start of an answer, 7 and 8.
func (w *Wire) twoTokens() string { return Chunk(w.Token(7, 1)) + Chunk(w.Token(8, 2)) }

// sixMore is six tokens 9, of which the first is the n-th of the answer.
func (w *Wire) sixMore(n int) string {
	var frames strings.Builder
	for i := range 6 {
		frames.WriteString(Chunk(w.Token(9, n+i)))
	}
	return frames.String()
}

// frameBytesMax is small in these tests, so that an endless frame is short.
const frameBytesMax = 4096

type faultCase struct {
	name   string
	script func(*Session)
	ids    []uint32
	kind   engine.FailKind
	words  string
}

// said is a fault after which a call has heard the first two tokens.
func (w *Wire) said(name, then, words string) faultCase {
	return faultCase{name, Says(StreamHeader, w.twoTokens(), then), []uint32{7, 8}, engine.Broken, words}
}

func (w *Wire) faultCases() []faultCase {
	status := func(line, header, body string) func(*Session) {
		return Says(fmt.Sprintf("HTTP/1.1 %s\r\nContent-Length: %d\r\n%s\r\n%s", line, len(body), header, body))
	}
	return []faultCase{
		w.said("closed after a chunk", "", "unexpected EOF"),
		w.said("closed inside a chunk", "90\r\ndata: {", "unexpected EOF"),
		w.said("closed inside a frame, cleanly", Chunk("data: {")+LastChunk, "without a finish"),
		w.said("a clean end without a finish", LastChunk, "without a finish"),
		w.said("[DONE] without a finish", Chunk(Frame("[DONE]"))+LastChunk, "without a finish"),
		w.said("a chunk of a wrong size", "zz\r\n", "chunk length"),
		w.said("JSON that ends early", Chunk("data: {\"content\n\n"), "frame"),
		w.said("an error frame", Chunk(Frame(w.Error(500, "boom")))+Chunk(Frame("[DONE]"))+LastChunk, "boom"),
		w.said("a shed after the first token", Chunk(Frame(w.Error(503, "busy")))+LastChunk, "busy"),
		w.said("a frame over the limit", Chunk("data: "+strings.Repeat("x", frameBytesMax+900)+"\n\n"), "longer than 4096"),
		w.said("a frame without an end", Chunk(strings.Repeat("x", frameBytesMax+900)), "longer than 4096"),
		{"more tokens than were asked for", Says(StreamHeader, w.twoTokens(), w.sixMore(3), w.sixMore(9)), []uint32{7, 8, 9, 9, 9, 9, 9, 9}, engine.Broken, "at most 8"},
		{"closed before the headers", Says(), nil, engine.Broken, "EOF"},
		{"closed inside the headers", Says("HTTP/1.1 200 OK\r\nContent-"), nil, engine.Broken, "header"},
		{"closed after the headers", Says(StreamHeader), nil, engine.Broken, "EOF"},
		{"no HTTP", Says("SSH-2.0-OpenSSH_9.6\r\n"), nil, engine.Broken, "malformed"},
		{"a client's error under status 200", Says(StreamHeader, Chunk(Frame(w.Error(400, "no such token"))), LastChunk), nil, engine.Client, "no such token"},
		{"a shed under status 200", Says(StreamHeader, Chunk(Frame(w.Error(503, "busy"))), LastChunk), nil, engine.Shed, "busy"},
		{"a redirect", status("307 Temporary Redirect", "Location: http://127.0.0.1:1/\r\n", ""), nil, engine.Operator, "307"},
		{"another type", status("200 OK", "Content-Type: text/html\r\n", "hi"), nil, engine.Broken, "text/html"},
		{"no type", status("200 OK", "", "hi"), nil, engine.Broken, "content type"},
		{"an empty answer", Says("HTTP/1.1 204 No Content\r\n\r\n"), nil, engine.Broken, "204"},
		{"compressed", status("200 OK", "Content-Type: text/event-stream\r\nContent-Encoding: gzip\r\n", "\x1f\x8b"), nil, engine.Broken, "gzip"},
		{"an error body that breaks off", Says("HTTP/1.1 400 Bad Request\r\nContent-Length: 99\r\n\r\n{\"error\""), nil, engine.Client, "refused"},
		{"an error without a body", status("502 Bad Gateway", "", ""), nil, engine.Broken, "502"},
	}
}

func (w *Wire) faults(t *testing.T) {
	for _, c := range w.faultCases() {
		t.Run(c.name, func(t *testing.T) {
			e := w.Of(t, c.script, func(cfg *wire.Config) { cfg.FrameBytes = frameBytesMax })
			h := Generate(t, e, Request(8))
			require.Equal(t, c.ids, h.IDs())
			failure := FailureIn(t, h.Err, c.kind)
			require.Contains(t, failure.Error(), c.words)
			require.NotContains(t, failure.Error(), "127.0.0.1:1")
			require.NotContains(t, failure.Message, "127.0.0.1")
		})
	}
	t.Run("a reset", w.reset)
	t.Run("quiet frames are neither token nor sign of life", func(t *testing.T) {
		for _, frame := range w.Quiet {
			script := Says(StreamHeader, Chunk(frame), Chunk(w.Token(7, 1)), Chunk(frame), Chunk(w.Finish), Chunk(w.Trailer), LastChunk)
			h := Generate(t, w.Of(t, script), Request(8)) // an empty event fails the call
			require.NoError(t, h.Err, "%q", frame)
			require.Equal(t, []uint32{7}, h.IDs())
		}
	})
	t.Run("another protocol's stream is broken", func(t *testing.T) {
		for _, body := range w.Foreign {
			h := Generate(t, w.Of(t, Says(StreamHeader, Chunk(body), LastChunk)), Request(8))
			FailureIn(t, h.Err, engine.Broken)
			require.Empty(t, h.Tokens, "%q", body)
		}
	})
}

func (w *Wire) reset(t *testing.T) {
	heard := make(chan struct{})
	e := w.Of(t, func(s *Session) {
		_ = s.Say(StreamHeader, Chunk(w.Token(7, 1)))
		<-heard // what is unread at a reset is lost
		s.Reset()
	})
	h := &Heard{}
	h.Err = e.Generate(deadline(t), Request(8), func(ev engine.Event) error {
		close(heard)
		return h.Take(ev)
	})
	h.Check(t)
	FailureIn(t, h.Err, engine.Broken)
	require.Equal(t, []uint32{7}, h.IDs())
}

// kindOf is the table of semantics: what each status says about the engine, the operator and the client.
func kindOf() map[int]engine.FailKind {
	return map[int]engine.FailKind{
		400: engine.Client, 413: engine.Client, 415: engine.Client, 418: engine.Client, 422: engine.Client,
		401: engine.Operator, 403: engine.Operator, 404: engine.Operator, 405: engine.Operator, 501: engine.Operator,
		301: engine.Operator, 308: engine.Operator,
		429: engine.Shed, 503: engine.Shed,
		201: engine.Broken, 408: engine.Broken, 500: engine.Broken, 502: engine.Broken, 504: engine.Broken, 599: engine.Broken,
	}
}

func (w *Wire) statuses(t *testing.T) {
	for status, kind := range kindOf() {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			for _, body := range []string{
				w.Error(status, "words of the engine"), `{"error":"words of the engine"}`, `{"detail":"words of the engine"}`, "<html>", "", "[]", "{}", `{"error":7}`,
			} {
				e := w.Of(t, func(s *Session) { s.Answer(Answer{status, [][2]string{{"Retry-After", "7"}}, body}) })
				failure := FailureIn(t, Generate(t, e, Request(1)).Err, kind)
				require.Equal(t, status, failure.Status)
				require.True(t, failure.FromEngine)
				require.Equal(t, strings.Contains(body, "words"), strings.Contains(failure.Error(), "words of the engine"), body)
				if kind == engine.Shed {
					require.Equal(t, 7*time.Second, failure.RetryAfter)
				} else {
					require.Zero(t, failure.RetryAfter)
				}
			}
		})
	}
	t.Run("a Retry-After of nonsense is nothing, and none is longer than an hour", func(t *testing.T) {
		for value, want := range map[string]time.Duration{
			"": 0, "-1": 0, "x": 0, "1.5": 0, "0": 0, "3": 3 * time.Second, "999999999": time.Hour, "99999999999999999999": 0,
			"Wed, 21 Oct 2026 07:28:00 GMT": 0,
		} {
			e := w.Of(t, func(s *Session) {
				s.Answer(Answer{http.StatusServiceUnavailable, [][2]string{{"Retry-After", value}}, ""})
			})
			require.Equal(t, want, FailureIn(t, Generate(t, e, Request(1)).Err, engine.Shed).RetryAfter, value)
		}
	})
	t.Run("messages are bounded, and cut between characters", func(t *testing.T) {
		body := w.Error(http.StatusBadRequest, strings.Repeat("é", 4000))
		e := w.Of(t, func(s *Session) { s.Answer(Answer{Status: http.StatusBadRequest, Body: body}) })
		failure := FailureIn(t, Generate(t, e, Request(1)).Err, engine.Client)
		require.Equal(t, strings.Repeat("é", wire.MessageBytesMax/2), failure.Message)
	})
}

// phases are the moments of a call at which it may be aborted.
func (w *Wire) phases() map[string]string {
	phases := map[string]string{
		"before the headers":    "",
		"before the first byte": StreamHeader,
		"after a token":         StreamHeader + Chunk(w.Token(7, 1)),
	}
	for i, frame := range w.Quiet {
		phases[fmt.Sprintf("after quiet frame %d", i)] = StreamHeader + Chunk(frame)
	}
	return phases
}

func (w *Wire) aborts(t *testing.T) {
	for phase, said := range w.phases() {
		t.Run("cancel closes the connection at once, "+phase, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(deadline(t))
			closed := make(chan struct{})
			e := w.Of(t, func(s *Session) {
				_ = s.Say(said)
				cancel(errors.New("the client left"))
				s.Gone()
				close(closed)
			})
			require.ErrorIs(t, e.Generate(ctx, Request(8), func(engine.Event) error { return nil }), context.Canceled)
			Awaited(t, closed, "the server never saw the end")
		})
		t.Run("Close fails a call with Broken, "+phase, func(t *testing.T) {
			var e engine.Engine
			closed := make(chan struct{})
			e = w.open(t, Serve(t, func(s *Session) {
				_ = s.Say(said)
				_ = e.Close()
				s.Gone()
				close(closed)
			}), directly)
			for range 2 { // running, then after Close
				failure := FailureIn(t, e.Generate(t.Context(), Request(8), func(engine.Event) error { return nil }), engine.Broken)
				require.ErrorIs(t, failure.Err, wire.ErrClosed)
			}
			Awaited(t, closed, "the server never saw the end")
			_, err := e.Probe(t.Context())
			require.ErrorIs(t, err, wire.ErrClosed)
		})
	}
	t.Run("a deadline is the context's error: there is no other time-out", func(t *testing.T) {
		e := w.Of(t, (*Session).Gone)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, e.Generate(ctx, Request(1), func(engine.Event) error { return nil }), context.DeadlineExceeded)
	})
	t.Run("an error of emit closes the connection", func(t *testing.T) {
		closed := make(chan struct{})
		e := w.Of(t, func(s *Session) {
			_ = s.Say(StreamHeader, Chunk(w.Token(7, 1)))
			s.Gone()
			close(closed)
		})
		mine := errors.New("the journal is full")
		require.Equal(t, mine, e.Generate(deadline(t), Request(8), func(engine.Event) error { return mine }))
		Awaited(t, closed, "the server never saw the abort")
	})
}
