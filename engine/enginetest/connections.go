package enginetest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/wire"
)

// directly dials as the product does.
func directly(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// complete answers a request wholly and keeps the connection.
func (w *Wire) complete(s *Session) {
	_ = s.Say(StreamHeader, Chunk(w.Token(7, 1)), Chunk(w.Finish), Chunk(w.Trailer), LastChunk)
}

func (w *Wire) connections(t *testing.T) {
	t.Run("nobody listens: refused", func(t *testing.T) {
		e := w.At(t, ClosedPort(t))
		FailureIn(t, Generate(t, e, Request(1)).Err, engine.Refused)
		_, err := e.Probe(t.Context())
		failure := FailureIn(t, err, engine.Refused)
		require.Empty(t, failure.Message)
		require.False(t, failure.FromEngine)
	})
	t.Run("want of open files, ports or memory is ours", w.short)
	t.Run("a dial that hangs is refused in time", func(t *testing.T) {
		e := w.open(t, "http://127.0.0.1:1", func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, func(cfg *wire.Config) { cfg.DialTimeout = time.Millisecond })
		FailureIn(t, Generate(t, e, Request(1)).Err, engine.Refused)
		require.NoError(t, e.Close())
	})
	t.Run("connections are kept", func(t *testing.T) {
		var connections atomic.Int32
		e := w.Of(t, func(s *Session) {
			connections.Add(1)
			for w.complete(s); s.Next(); {
				w.complete(s)
			}
		})
		for range 5 {
			require.NoError(t, Generate(t, e, Request(1)).Err)
		}
		require.EqualValues(t, 1, connections.Load())
	})
	t.Run("the key is sent, nothing is compressed, the address's path is kept", func(t *testing.T) {
		var request atomic.Pointer[http.Request]
		url := Serve(t, func(s *Session) {
			request.Store(s.Request)
			w.complete(s)
		})
		e := w.At(t, url+"/llm", func(cfg *wire.Config) { cfg.APIKey = "sk-a" })
		require.NoError(t, Generate(t, e, Request(1)).Err)
		r := request.Load()
		require.Equal(t, "Bearer sk-a", r.Header.Get("Authorization"))
		require.Equal(t, "application/json", r.Header.Get("Content-Type"))
		require.Empty(t, r.Header.Get("Accept-Encoding"))
		require.Contains(t, r.URL.Path, "/llm/")
	})
	t.Run("a kept connection that the server closed", w.stale)
	t.Run("a fresh connection is tried once", func(t *testing.T) {
		var requests atomic.Int32
		e := w.Of(t, func(*Session) { requests.Add(1) })
		FailureIn(t, Generate(t, e, Request(1)).Err, engine.Broken)
		require.EqualValues(t, 1, requests.Load())
	})
	t.Run("a server that died is refused after the retry", w.dies)
	t.Run("a finished stream that does not end still returns", func(t *testing.T) {
		for _, trailer := range []string{"", w.Trailer} {
			closed := make(chan struct{})
			e := w.Of(t, func(s *Session) {
				_ = s.Say(StreamHeader, Chunk(w.Token(7, 1)), Chunk(w.Finish), Chunk(trailer))
				s.Gone()
				close(closed)
			}, func(cfg *wire.Config) { cfg.EndTimeout = time.Millisecond })
			require.NoError(t, Generate(t, e, Request(1)).Err)
			Awaited(t, closed, "the connection was kept")
		}
	})
}

func (w *Wire) dies(t *testing.T) {
	var refuse atomic.Bool
	url := Serve(t, func(s *Session) {
		w.complete(s)
		s.Next()
		refuse.Store(true)
	})
	e := w.open(t, url, func(ctx context.Context, network, address string) (net.Conn, error) {
		if refuse.Load() {
			return nil, errors.New("connection refused")
		}
		return directly(ctx, network, address)
	})
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	require.NoError(t, Generate(t, e, Request(1)).Err)
	FailureIn(t, Generate(t, e, Request(1)).Err, engine.Refused)
}

// again: a call's kept connection ends unanswered, and while the call waits for another one, another call gives back its own, which
// is as stale.
func (w *Wire) again(t *testing.T) {
	began, finish, kept := make(chan struct{}), make(chan struct{}), make(chan struct{})
	url := Serve(t, func(s *Session) {
		if s.Number == 0 { // the other call's
			close(began)
			<-finish
		}
		w.complete(s)
		s.Next() // nothing answers a second request
	})
	var dials atomic.Int32
	e := w.open(t, url, func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1) == 3 {
			close(finish)
			<-kept
		}
		return directly(ctx, network, address)
	})
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	other := make(chan error, 1)
	go func() {
		ctx := httptrace.WithClientTrace(deadline(t), &httptrace.ClientTrace{PutIdleConn: func(error) { close(kept) }})
		other <- e.Generate(ctx, Request(1), (&Heard{}).Take)
	}()
	Awaited(t, began, "the other call has not begun")
	require.NoError(t, Generate(t, e, Request(1)).Err, "its connection is kept")
	require.NoError(t, Generate(t, e, Request(1)).Err)
	require.EqualValues(t, 3, dials.Load())
	require.NoError(t, <-other)
}

func (w *Wire) short(t *testing.T) {
	for _, lack := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOMEM, syscall.ENOBUFS} {
		e := w.open(t, "http://127.0.0.1:1", func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", lack)}
		})
		FailureIn(t, Generate(t, e, Request(1)).Err, engine.Local)
		_, err := e.Probe(t.Context())
		FailureIn(t, err, engine.Local)
		require.NoError(t, e.Close())
	}
}

func (w *Wire) stale(t *testing.T) {
	t.Run("what is sent again has a new connection", w.again)
	const sentAgain = engine.NumFailKinds
	cases := map[string]struct {
		stale func(*Session) // what becomes of the second request on the first connection
		kind  engine.FailKind
	}{
		"closed unanswered: sent again":      {func(*Session) {}, sentAgain},
		"reset unanswered: sent again":       {(*Session).Reset, sentAgain},
		"closed inside the headers: broken":  {Says("HTTP/1.1 200"), engine.Broken},
		"closed inside the stream: broken":   {Says(StreamHeader, Chunk(w.Token(7, 1))), engine.Broken},
		"closed after the headers: not sent": {Says(StreamHeader), engine.Broken},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			e := w.Of(t, func(s *Session) {
				requests.Add(1)
				w.complete(s)
				if s.Number == 0 && s.Next() {
					requests.Add(1)
					c.stale(s)
				}
			})
			require.NoError(t, Generate(t, e, Request(1)).Err)
			h := Generate(t, e, Request(1))
			if c.kind != sentAgain {
				FailureIn(t, h.Err, c.kind)
				require.EqualValues(t, 2, requests.Load())
				return
			}
			require.NoError(t, h.Err)
			require.Equal(t, []uint32{7}, h.IDs(), "the answer comes once")
			require.EqualValues(t, 3, requests.Load())
		})
	}
}

// probes runs the faults that a probe meets, whatever it asks first.
func (w *Wire) probes(t *testing.T) {
	for name, c := range map[string]struct {
		script func(*Session)
		kind   engine.FailKind
	}{
		"an engine that sheds every question is not serving": {func(s *Session) { s.Answer(Answer{Status: 429}) }, engine.Shed},
		"a wrong key":                     {func(s *Session) { s.Answer(Answer{Status: 401, Body: `{"error":"Unauthorized"}`}) }, engine.Operator},
		"another server":                  {func(s *Session) { s.Answer(Answer{Status: 404}) }, engine.Operator},
		"an answer that breaks off":       {Says("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"), engine.Broken},
		"an engine that says nothing":     {(*Session).Gone, engine.Broken},
		"an answer that is no HTTP":       {Says("\x00\x01"), engine.Broken},
		"an answer longer than the limit": {func(s *Session) { s.Answer(Answer{Status: 200, Body: string(make([]byte, 5000))}) }, engine.Broken},
	} {
		t.Run(name, func(t *testing.T) {
			e := w.Of(t, c.script, func(cfg *wire.Config) {
				cfg.AnswerBytes = 4500
				if c.kind == engine.Broken {
					cfg.ProbeTimeout = 50 * time.Millisecond
				}
			})
			st, err := e.Probe(t.Context())
			FailureIn(t, err, c.kind)
			require.Zero(t, st)
		})
	}
	t.Run("a probe ends with its context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		e := w.Of(t, func(s *Session) {
			cancel()
			s.Gone()
		})
		_, err := e.Probe(ctx)
		require.ErrorIs(t, err, context.Canceled)
	})
}
