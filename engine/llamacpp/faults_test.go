package llamacpp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
)

// answers is a script that says the parts and closes.
func answers(parts ...string) func(*session) {
	return func(s *session) { s.say(parts...) }
}

func TestScriptedFaults(t *testing.T) {
	two := chunk(tokenFrame(7, 1)) + chunk(tokenFrame(8, 2))
	cases := []struct {
		name   string
		script func(*session)
		ids    []uint32
		kind   engine.FailKind
		words  string
	}{
		{"closed before the headers", answers(), nil, engine.Broken, "EOF"},
		{"closed inside the headers", answers("HTTP/1.1 200 OK\r\nContent-"), nil, engine.Broken, "header"},
		{"closed after the headers", answers(streamHeader), nil, engine.Broken, "EOF"},
		{"closed after a chunk", answers(streamHeader, two), []uint32{7, 8}, engine.Broken, "unexpected EOF"},
		{"closed inside a chunk", answers(streamHeader, two, "90\r\ndata: {"), []uint32{7, 8}, engine.Broken, "unexpected EOF"},
		{"closed inside a frame, cleanly", answers(streamHeader, two, chunk("data: {"), chunk("")), []uint32{7, 8}, engine.Broken, "without a finish"},
		{"ended cleanly without a finish", answers(streamHeader, two, chunk("")), []uint32{7, 8}, engine.Broken, "without a finish"},
		{"ended with [DONE] and no finish", answers(streamHeader, two, chunk("data: [DONE]\n\n"), chunk("")), []uint32{7, 8}, engine.Broken, "without a finish"},
		{"a chunk of a wrong size", answers(streamHeader, two, "zz\r\n"), []uint32{7, 8}, engine.Broken, "chunk length"},
		{"no HTTP", answers("SSH-2.0-OpenSSH_9.6\r\n"), nil, engine.Broken, "malformed"},
		{"JSON that ends early", answers(streamHeader, two, chunk("data: {\"content\n\n")), []uint32{7, 8}, engine.Broken, "frame"},
		{"an error frame", answers(streamHeader, two, chunk("data: {\"error\":{\"code\":500,\"message\":\"boom\"}}\n\n"), chunk("")), []uint32{7, 8}, engine.Broken, "boom"},
		{"a redirect", answers("HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"), nil, engine.Operator, "307"},
		{"another type", answers("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi"), nil, engine.Broken, "text/html"},
		{"no type", answers("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"), nil, engine.Broken, "content type"},
		{"an empty answer", answers("HTTP/1.1 204 No Content\r\n\r\n"), nil, engine.Broken, "204"},
		{"compressed", answers("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b"), nil, engine.Broken, "gzip"},
		{"a frame over the limit", answers(streamHeader, two, chunk("data: "+strings.Repeat("x", 5000)+"\n\n")), []uint32{7, 8}, engine.Broken, "longer than 4096"},
		{"a frame without an end", answers(streamHeader, two, chunk(strings.Repeat("x", 5000))), []uint32{7, 8}, engine.Broken, "longer than 4096"},
		{"an error body that breaks off", answers("HTTP/1.1 400 Bad Request\r\nContent-Length: 99\r\n\r\n{\"error\""), nil, engine.Client, "refused"},
		{"an error without a body", answers("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"), nil, engine.Broken, "502"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := engineAt(t, scripted(t, c.script), func(cfg *Config) { cfg.FrameBytes = 4096 })
			h := generate(t, e, requestOf(8))
			require.Equal(t, c.ids, h.ids())
			failure := failureIn(t, h.err, c.kind)
			require.Contains(t, failure.Error(), c.words)
			require.NotContains(t, failure.Message, "127.0.0.1")
		})
	}
}

func TestAResetIsBroken(t *testing.T) {
	heardAll := make(chan struct{})
	e := engineAt(t, scripted(t, func(s *session) {
		s.say(streamHeader, chunk(tokenFrame(7, 1)))
		<-heardAll // what is unread at a reset is lost
		s.reset()
	}))
	var h heard
	h.err = e.Generate(t.Context(), requestOf(8), func(ev engine.Event) error {
		close(heardAll)
		return h.take(ev)
	})
	h.check(t)
	failureIn(t, h.err, engine.Broken)
	require.Equal(t, []uint32{7}, h.ids())
}

func TestStatuses(t *testing.T) {
	for _, c := range []struct {
		status int
		kind   engine.FailKind
	}{
		{400, engine.Client},
		{413, engine.Client},
		{422, engine.Client},
		{415, engine.Client},
		{418, engine.Client},
		{401, engine.Operator},
		{403, engine.Operator},
		{404, engine.Operator},
		{405, engine.Operator},
		{501, engine.Operator},
		{301, engine.Operator},
		{308, engine.Operator},
		{429, engine.Shed},
		{503, engine.Shed},
		{408, engine.Broken},
		{500, engine.Broken},
		{502, engine.Broken},
		{504, engine.Broken},
		{599, engine.Broken},
		{201, engine.Broken},
	} {
		t.Run(strconv.Itoa(c.status), func(t *testing.T) {
			for _, body := range []string{`{"error":{"code":9,"message":"words of the engine"}}`, "<html>", "", `{"error":"words of the engine"}`} {
				e := engineOf(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Retry-After", "7")
					w.WriteHeader(c.status)
					_, _ = io.WriteString(w, body)
				})
				failure := failureIn(t, generate(t, e, requestOf(1)).err, c.kind)
				require.Equal(t, c.status, failure.Status)
				require.True(t, failure.FromEngine)
				require.Equal(t, strings.Contains(body, "words"), strings.Contains(failure.Error(), "words of the engine"))
				if c.kind == engine.Shed {
					require.Equal(t, 7*time.Second, failure.RetryAfter)
				} else {
					require.Zero(t, failure.RetryAfter)
				}
			}
		})
	}
}

func TestRetryAfterOfNonsenseIsNothing(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"": 0, "-1": 0, "x": 0, "1.5": 0, "0": 0, "3": 3 * time.Second, "999999999": retryAfterMax, "99999999999999999999": 0,
		"Wed, 21 Oct 2026 07:28:00 GMT": 0,
	} {
		require.Equal(t, want, retryAfter(http.Header{"Retry-After": {value}}), value)
	}
}

func TestMessagesAreBounded(t *testing.T) {
	e := engineOf(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"message":"`+strings.Repeat("é", 4000)+`"}}`)
	})
	failure := failureIn(t, generate(t, e, requestOf(1)).err, engine.Client)
	require.Len(t, failure.Message, messageBytesMax)
	require.Equal(t, strings.Repeat("é", messageBytesMax/2), failure.Message)
}

// closedPort returns the address of a port that nobody listens on.
func closedPort(tb testing.TB) string {
	tb.Helper()
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	require.NoError(tb, listener.Close())
	return "http://" + listener.Addr().String()
}

func TestNobodyListens(t *testing.T) {
	e := engineAt(t, closedPort(t))
	failureIn(t, generate(t, e, requestOf(1)).err, engine.Refused)
	_, err := e.Probe(t.Context())
	failure := failureIn(t, err, engine.Refused)
	require.Empty(t, failure.Message)
	require.False(t, failure.FromEngine)
}

func TestADialThatHangsIsRefusedInTime(t *testing.T) {
	cfg := DefaultConfig()
	cfg.URL, cfg.DialTimeout = "http://127.0.0.1:1", time.Millisecond
	e, err := New(cfg, Deps{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	require.NoError(t, err)
	failureIn(t, generate(t, e, requestOf(1)).err, engine.Refused)
	require.NoError(t, e.Close())
}

// phases are the moments of a call at which it may be aborted: still queued, during the prompt, while decoding.
var phases = map[string]string{
	"queued":  "",
	"prompt":  streamHeader + chunk(`data: {"content":"","tokens":[0],"stop":false,"tokens_predicted":0,"prompt_progress":{"total":3,"cache":0}}`+"\n\n"),
	"decode":  streamHeader + chunk(tokenFrame(7, 1)),
	"pinging": streamHeader + chunk(":\n\n") + chunk(":\n\n"),
}

func TestCancelClosesTheConnectionAtOnce(t *testing.T) {
	for phase, said := range phases {
		t.Run(phase, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			closed := make(chan struct{})
			e := engineAt(t, scripted(t, func(s *session) {
				s.say(said)
				cancel(errors.New("the client left"))
				s.gone()
				close(closed)
			}))
			err := e.Generate(ctx, requestOf(8), func(engine.Event) error { return nil })
			require.ErrorIs(t, err, context.Canceled)
			awaited(t, closed, "the server never saw the end")
		})
	}
}

// awaited waits for something that must come.
func awaited(tb testing.TB, done <-chan struct{}, otherwise string) {
	tb.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		tb.Fatal(otherwise)
	}
}

func TestADeadlineIsTheContextsError(t *testing.T) {
	e := engineAt(t, scripted(t, func(s *session) { s.gone() }))
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, e.Generate(ctx, requestOf(1), func(engine.Event) error { return nil }), context.DeadlineExceeded)
}

func TestAnErrorOfEmitAbortsAndPasses(t *testing.T) {
	closed := make(chan struct{})
	e := engineAt(t, scripted(t, func(s *session) {
		s.say(streamHeader, chunk(tokenFrame(7, 1)))
		s.gone()
		close(closed)
	}))
	mine := errors.New("the journal is full")
	calls := 0
	err := e.Generate(t.Context(), requestOf(8), func(engine.Event) error {
		calls++
		return mine
	})
	require.Equal(t, mine, err)
	require.Equal(t, 1, calls)
	awaited(t, closed, "the server never saw the abort")
}

func TestCloseFailsRunningCalls(t *testing.T) {
	for phase, said := range phases {
		t.Run(phase, func(t *testing.T) {
			var e *Engine
			closed := make(chan struct{})
			cfg := DefaultConfig()
			cfg.URL = scripted(t, func(s *session) {
				s.say(said)
				_ = e.Close()
				s.gone()
				close(closed)
			})
			e, err := New(cfg, Deps{Dial: (&net.Dialer{}).DialContext})
			require.NoError(t, err)
			for range 2 { // running, then after Close
				failure := failureIn(t, e.Generate(t.Context(), requestOf(8), func(engine.Event) error { return nil }), engine.Broken)
				require.ErrorIs(t, failure.Err, errClosed)
			}
			awaited(t, closed, "the server never saw the end")
			_, err = e.Probe(t.Context())
			require.ErrorIs(t, err, errClosed)
		})
	}
}

// complete answers a request wholly and keeps the connection.
func complete(s *session) { s.say(streamHeader, chunk(tokenFrame(7, 1)), chunk(lastFrame), chunk("")) }

func TestConnectionsAreKept(t *testing.T) {
	var connections atomic.Int32
	e := engineAt(t, scripted(t, func(s *session) {
		connections.Add(1)
		for complete(s); s.next(); {
			complete(s)
		}
	}))
	for range 5 {
		require.NoError(t, generate(t, e, requestOf(1)).err)
	}
	require.EqualValues(t, 1, connections.Load())
}

func TestAKeptConnectionThatTheServerClosed(t *testing.T) {
	cases := []struct {
		name  string
		stale func(*session) // what becomes of the second request on the first connection
		kind  *engine.FailKind
	}{
		{"closed unanswered: sent again", func(*session) {}, nil},
		{"reset unanswered: sent again", (*session).reset, nil},
		{"closed inside the headers: broken", answers("HTTP/1.1 200"), ptr(engine.Broken)},
		{"closed inside the stream: broken", answers(streamHeader, chunk(tokenFrame(7, 1))), ptr(engine.Broken)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var requests atomic.Int32
			e := engineAt(t, scripted(t, func(s *session) {
				requests.Add(1)
				complete(s)
				if s.number == 0 && s.next() {
					requests.Add(1)
					c.stale(s)
				}
			}))
			require.NoError(t, generate(t, e, requestOf(1)).err)
			h := generate(t, e, requestOf(1))
			if c.kind != nil {
				failureIn(t, h.err, *c.kind)
				require.EqualValues(t, 2, requests.Load())
				return
			}
			require.NoError(t, h.err)
			require.Equal(t, []uint32{7}, h.ids(), "the answer comes once")
			require.EqualValues(t, 3, requests.Load())
		})
	}
}

func TestAFreshConnectionIsTriedOnce(t *testing.T) {
	var requests atomic.Int32
	e := engineAt(t, scripted(t, func(*session) { requests.Add(1) }))
	failureIn(t, generate(t, e, requestOf(1)).err, engine.Broken)
	require.EqualValues(t, 1, requests.Load())
}

func TestAServerThatDiedIsRefusedAfterTheRetry(t *testing.T) {
	var refuse atomic.Bool
	cfg := DefaultConfig()
	cfg.URL = scripted(t, func(s *session) {
		complete(s)
		s.next()
		refuse.Store(true)
	})
	e, err := New(cfg, Deps{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if refuse.Load() {
			return nil, errors.New("connection refused")
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	require.NoError(t, generate(t, e, requestOf(1)).err)
	failureIn(t, generate(t, e, requestOf(1)).err, engine.Refused)
}

func TestAFinishedStreamThatDoesNotEndStillReturns(t *testing.T) {
	closed := make(chan struct{})
	e := engineAt(t, scripted(t, func(s *session) {
		s.say(streamHeader, chunk(lastFrame))
		s.gone()
		close(closed)
	}))
	require.NoError(t, generate(t, e, requestOf(1)).err)
	awaited(t, closed, "the connection was kept")
}

func TestCallsAreIndependent(t *testing.T) {
	e := engineOf(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var id uint32
		_, _ = fmt.Sscanf(string(body), `{"prompt":[%d]`, &id)
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range 20 {
			_, _ = io.WriteString(w, tokenFrame(id, n+1))
			w.(http.Flusher).Flush()
			if id%3 == 2 && n == 10 {
				panic(http.ErrAbortHandler)
			}
		}
		_, _ = io.WriteString(w, lastFrame)
	})
	var calls sync.WaitGroup
	for i := range uint32(60) {
		calls.Go(func() {
			req := requestOf(32)
			req.PromptTokens = []uint32{i}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var h heard
			h.err = e.Generate(ctx, req, func(ev engine.Event) error {
				if i%3 == 1 && len(h.tokens) == 5 {
					cancel()
				}
				return h.take(ev)
			})
			for _, id := range h.ids() {
				if id != i {
					t.Errorf("call %d heard token %d", i, id)
				}
			}
			switch {
			case i%3 == 0 && (h.err != nil || len(h.tokens) != 20):
				t.Errorf("call %d: %d tokens, %v", i, len(h.tokens), h.err)
			case i%3 == 1 && !errors.Is(h.err, context.Canceled) && h.finish == nil:
				t.Errorf("call %d: %v", i, h.err)
			case i%3 == 2 && engine.KindOf(h.err) != engine.Broken:
				t.Errorf("call %d: %v", i, h.err)
			}
		})
	}
	calls.Wait()
}
