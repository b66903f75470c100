package ingress

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
	"plimsoll/testbench/pipes"
)

// inBubble runs a test against a served edge under a virtual clock.
func inBubble(t *testing.T, script func(*stream.Request, *stream.Response), test func(t *testing.T, e *edge, dial func() net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, testConfig(), newFront(script))
		p := pipes.New(0)
		served := make(chan error, 1)
		go func() { served <- e.Serve(p) }()
		test(t, e, p.Dial)
		require.NoError(t, e.Close())
		require.NoError(t, <-served)
	})
}

func post(t *testing.T, c net.Conn, body string) {
	t.Helper()
	_, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", pathChat, len(body), body)
	require.NoError(t, err)
}

// TestClientThatLeavesCancelsAtOnce: queued or midway, streaming or not, without any time passing.
func TestClientThatLeavesCancelsAtOnce(t *testing.T) {
	queued := func(*stream.Request, *stream.Response) {}
	midway := func(_ *stream.Request, resp *stream.Response) {
		resp.Append(0, []stream.Entry{{ID: 'x', Text: "x"}}, stream.Usage{})
	}
	for name, script := range map[string]func(*stream.Request, *stream.Response){"queued": queued, "midway": midway} {
		for _, streams := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/stream=%v", name, streams), func(t *testing.T) {
				inBubble(t, script, func(t *testing.T, e *edge, dial func() net.Conn) {
					t.Helper()
					start := time.Now()
					c := dial()
					go func() { _, _ = io.Copy(io.Discard, c) }()
					post(t, c, withMember(pathChat, fmt.Sprintf(`"stream":%v`, streams)))
					synctest.Wait()
					require.Len(t, e.front.submitted(), 1)
					require.Empty(t, e.front.cancelled)
					require.NoError(t, c.Close())
					synctest.Wait()
					require.Len(t, e.front.cancelled, 1)
					require.Zero(t, time.Since(start))
					lines := logged(t, e.log)
					require.Len(t, lines, 1)
					require.Equal(t, "cancelled", lines[0]["outcome"])
				})
			})
		}
	}
}

// leaves is the context of a client that leaves, of which whoever asked to be called then hears too late.
type leaves struct {
	context.Context //nolint:containedctx // it is one
	done            chan struct{}
}

func (l leaves) Done() <-chan struct{}             { return l.done }
func (leaves) AfterFunc(func()) (stop func() bool) { return func() bool { return true } }
func (l leaves) Err() error {
	select {
	case <-l.done:
		return context.Canceled
	default:
		return nil
	}
}

// TestWhoSeesTheClientLeaveCancels: the handler that ends because the client has left cancels the request by itself, whether or
// not another goroutine was about to.
func TestWhoSeesTheClientLeaveCancels(t *testing.T) {
	for _, streams := range []bool{true, false} {
		t.Run(fmt.Sprintf("stream=%v", streams), func(t *testing.T) {
			front := newFront(func(*stream.Request, *stream.Response) {})
			e := newEdge(t, testConfig(), front)
			ctx := leaves{t.Context(), make(chan struct{})}
			front.played = func(*stream.Request, *stream.Response) { close(ctx.done) }
			body := strings.NewReader(withMember(pathChat, fmt.Sprintf(`"stream":%v`, streams)))
			req := httptest.NewRequestWithContext(ctx, http.MethodPost, pathChat, body)
			req.Header.Set("Content-Type", "application/json")
			require.PanicsWithValue(t, http.ErrAbortHandler, func() { e.ServeHTTP(httptest.NewRecorder(), req) }, "nobody to answer")
			require.Len(t, front.cancelled, 1)
		})
	}
}

// TestClientThatTakesNothingIsCutOff: a client that does not read is cancelled after ClientStall, while the engine's side
// never waits for it.
func TestClientThatTakesNothingIsCutOff(t *testing.T) {
	script := func(_ *stream.Request, resp *stream.Response) {
		for range 1000 {
			resp.Append(0, []stream.Entry{{ID: 'x', Text: strings.Repeat("x", 100)}}, stream.Usage{})
		}
	}
	inBubble(t, script, func(t *testing.T, e *edge, dial func() net.Conn) {
		t.Helper()
		c := dial()
		post(t, c, withMember(pathChat, `"stream":true`))
		synctest.Wait()
		start := time.Now()
		<-e.front.cancelled
		require.Equal(t, e.cfg.ClientStall, time.Since(start))
		synctest.Wait()
		require.Equal(t, "cancelled", logged(t, e.log)[0]["outcome"])
		require.NoError(t, c.Close())
	})
}

// TestSlowClientIsServed: one byte a second for longer than ClientStall is slow, not stalled, as long as frames get away.
func TestSlowClientIsServed(t *testing.T) {
	inBubble(t, says(strings.Repeat("x", 40)), func(t *testing.T, e *edge, dial func() net.Conn) {
		t.Helper()
		c := dial()
		post(t, c, withMember(pathChat, `"stream":true`))
		r := bufio.NewReader(c)
		var got strings.Builder
		for !strings.Contains(got.String(), "[DONE]") {
			line, err := r.ReadString('\n')
			require.NoError(t, err)
			got.WriteString(line)
			time.Sleep(time.Second)
		}
		require.Empty(t, e.front.cancelled)
		require.NoError(t, c.Close())
	})
}

// TestEarlyHeaders: without a first token, status 200 goes out after EarlyHeaders, then comments; an error that comes later is an
// event, and no [DONE] follows it.
func TestEarlyHeaders(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration
		fault *fault.Fault
		check func(t *testing.T, resp *http.Response, body string)
	}{
		{"error before", 14 * time.Second, fault.New(fault.Contended, "busy"), func(t *testing.T, resp *http.Response, _ string) {
			t.Helper()
			require.Equal(t, 429, resp.StatusCode)
			require.Equal(t, "1", resp.Header.Get("Retry-After"))
		}},
		{"error after", 40 * time.Second, fault.New(fault.Contended, "busy"), func(t *testing.T, resp *http.Response, body string) {
			t.Helper()
			require.Equal(t, 200, resp.StatusCode)
			require.True(t, strings.HasPrefix(body, ": waiting\n\n: waiting\n\n: waiting\n\ndata: {\"error\""), "%s", body)
			s := hear(t, body)
			require.Equal(t, "busy", s.fault.Message)
			require.Zero(t, s.done)
		}},
		{"answer after", 40 * time.Second, nil, func(t *testing.T, resp *http.Response, body string) {
			t.Helper()
			require.Equal(t, 200, resp.StatusCode)
			require.Empty(t, resp.Header.Get("X-Plimsoll-Replica"), "nobody worked on it when the headers went out")
			s := hear(t, body)
			require.Equal(t, "x", s.text[0])
			require.Equal(t, 1, s.done)
		}},
		{"answer at once", 0, nil, func(t *testing.T, resp *http.Response, body string) {
			t.Helper()
			require.Equal(t, "a", resp.Header.Get("X-Plimsoll-Replica"))
			require.NotContains(t, body, "waiting")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			script := func(req *stream.Request, resp *stream.Response) {
				time.Sleep(c.after)
				if c.fault != nil {
					resp.End(c.fault)
				} else {
					says("x")(req, resp)
				}
			}
			inBubble(t, script, func(t *testing.T, _ *edge, dial func() net.Conn) {
				t.Helper()
				conn := dial()
				post(t, conn, withMember(pathChat, `"stream":true`))
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				c.check(t, resp, string(body))
				require.NoError(t, conn.Close())
			})
		})
	}
}

// TestSilenceMidwayIsFilledWithComments between tokens too, and a whole answer waits as long as it takes.
func TestSilenceMidwayIsFilledWithComments(t *testing.T) {
	script := func(_ *stream.Request, resp *stream.Response) {
		resp.Append(0, []stream.Entry{{ID: 'x', Text: "a"}}, stream.Usage{})
		time.Sleep(61 * time.Second)
		resp.Finish(0, stream.Finish{}, stream.Usage{})
		resp.End(nil)
	}
	for _, streams := range []bool{true, false} {
		inBubble(t, script, func(t *testing.T, _ *edge, dial func() net.Conn) {
			t.Helper()
			conn := dial()
			post(t, conn, withMember(pathChat, fmt.Sprintf(`"stream":%v`, streams)))
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, streams, strings.Count(string(body), ": waiting") >= 3)
			require.NoError(t, conn.Close())
		})
	}
}

// TestBrokenMidway: an error after the first token is an event; the body ends cleanly, without [DONE].
func TestBrokenMidway(t *testing.T) {
	sent := make(chan struct{})
	script := func(_ *stream.Request, resp *stream.Response) {
		resp.Append(0, []stream.Entry{{ID: 'x', Text: "x"}}, stream.Usage{})
		<-sent
		resp.End(fault.New(fault.EngineFailed, "the engine\nbroke"))
	}
	e := newEdge(t, testConfig(), newFront(script))
	ts := httptest.NewServer(e)
	defer ts.Close()
	resp, err := http.Post(ts.URL+pathChat, "application/json", strings.NewReader(withMember(pathChat, `"stream":true`))) //nolint:noctx // a test
	require.NoError(t, err)
	close(sent)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	s := hear(t, string(body))
	require.Equal(t, "x", s.text[0])
	require.Equal(t, "the engine\nbroke", s.fault.Message)
	require.Equal(t, "engine_failed", *s.fault.Code)
	require.Zero(t, s.done)
}

// TestKeepAliveAfterErrors: an error leaves the connection usable, unless the body was not taken.
func TestKeepAliveAfterErrors(t *testing.T) {
	cfg := testConfig()
	cfg.APIKeys = Keys{"me": {"secret-key"}}
	cfg.BodyBytes = 1000
	e := newEdge(t, cfg, newFront(says("x")))
	var mu sync.Mutex
	opened := 0
	ts := httptest.NewUnstartedServer(e)
	ts.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		if s == http.StateNew {
			opened++
		}
	}
	ts.Start()
	defer ts.Close()
	do := func(key, path, body string, want int) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, ts.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := ts.Client().Do(req)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, resp.StatusCode)
	}
	good := withMember(pathChat, "")
	for range 3 {
		do("wrong", pathChat, good, 401)
		do("secret-key", "/nowhere", good, 404)
		do("secret-key", "/v1/models", good, 405)
		do("secret-key", pathChat, `{"x"`, 400)
		do("secret-key", pathChat, withMember(pathChat, `"n":0`), 400)
		do("secret-key", pathChat, good, 200)
		do("secret-key", pathChat, withMember(pathChat, `"stream":true`), 200)
	}
	require.Equal(t, 1, opened)
	do("secret-key", pathChat, withMember(pathChat, `"user":"`+strings.Repeat("x", 2000)+`"`), 413)
	do("secret-key", pathChat, good, 200)
	require.Equal(t, 2, opened, "a body that is too large ends its connection, the next one works")
}

// TestOneSlashTooMany: what comes of joining a base URL and a route is served. Whether it needs a key is the clean path's matter.
func TestOneSlashTooMany(t *testing.T) {
	cfg := testConfig()
	cfg.APIKeys = Keys{"team": {"secret-key"}}
	e := newEdge(t, cfg, newFront(says("x")))
	for _, c := range []struct {
		method, path string
		open         bool
	}{
		{"POST", "//v1/chat/completions", false},
		{"POST", "/v1//chat/completions", false},
		{"POST", "/v1/chat/completions/", false},
		{"POST", "//v1///chat//completions//", false},
		{"GET", "//v1/models", false},
		{"GET", "/v1/models/", false},
		{"GET", "/v1/models//org//sim", false},
		{"GET", "/metrics/", false},
		{"GET", "//health", true},
		{"GET", "/health/", true},
		{"GET", "/ready//", true},
	} {
		body := ""
		if c.method == "POST" {
			body = withMember(pathChat, "")
		}
		rec := e.do(c.method, c.path, body, "Authorization", "Bearer secret-key")
		require.Equal(t, 200, rec.Code, "%s: %s", c.path, rec.Body)
		want := 401
		if c.open {
			want = 200
		}
		require.Equal(t, want, e.do(c.method, c.path, body).Code, c.path)
	}
	rec := e.do("GET", "/v1/models/a%2F%2Fb", "", "Authorization", "Bearer secret-key")
	require.Contains(t, rec.Body.String(), `a//b`, "an escaped slash is part of a name")
}

// TestPathsAreTakenAsTheyStand: what is no route gets a 404 in JSON, never a redirect.
func TestPathsAreTakenAsTheyStand(t *testing.T) {
	e := newEdge(t, testConfig(), newFront(nil))
	for _, c := range []struct{ method, path string }{
		{"GET", "/v1/../v1/models"},
		{"GET", "/v1/./models"},
		{"GET", "/v1/models/../models"},
		{"POST", "/v1/chat%2Fcompletions"},
		{"CONNECT", "/v1/models"},
		{"CONNECT", "//"},
	} {
		rec := e.do(c.method, c.path, "")
		require.Equal(t, 404, rec.Code, c.path)
		require.Equal(t, "application/json", rec.Header().Get("Content-Type"), c.path)
		require.Empty(t, rec.Header().Get("Location"))
		require.Contains(t, rec.Body.String(), `"there is no `+c.method+" "+c.path+`"`)
	}
}

// TestConnectionsAreLimited: the one too many waits until another closes.
func TestConnectionsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipes.New(3)
		l := newLimitedListener(p, 1)
		p.Dial()
		p.Dial()
		first, err := l.Accept()
		require.NoError(t, err)
		accepted := make(chan net.Conn, 1)
		go func() {
			c, err := l.Accept()
			if err == nil {
				accepted <- c
			}
		}()
		synctest.Wait()
		require.Empty(t, accepted)
		require.NoError(t, first.Close())
		require.NoError(t, first.Close(), "a second close gives no second seat")
		synctest.Wait()
		require.Len(t, accepted, 1)
		go func() { _, _ = l.Accept() }()
		synctest.Wait()
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
	})
}

// TestPanics: a panic before the first byte is a 500, one after it cuts the connection; both cancel and are logged, and the
// server lives on.
func TestPanics(t *testing.T) {
	front := newFront(func(_ *stream.Request, resp *stream.Response) {
		resp.Append(0, []stream.Entry{{ID: 'x', Text: "x"}}, stream.Usage{})
	})
	e := newEdge(t, testConfig(), front)
	e.deps.Front = panickyFront{front}
	rec := e.do("POST", pathChat, withMember(pathChat, ""))
	require.Equal(t, 500, rec.Code)
	require.JSONEq(t, `{"error":{"message":"internal error","type":"server_error","param":null,"code":"internal_error"}}`, rec.Body.String())
	lines := logged(t, e.log)
	require.Equal(t, "handler panicked", lines[0]["msg"])
	require.Contains(t, lines[0]["stack"], "panickyFront")
	require.Equal(t, "failed", lines[1]["outcome"])

	front.models[0].Tokenizer = panickyTokenizer{}
	e.deps.Front = front
	rec = e.do("POST", pathChat, withMember(pathChat, `"stream":true,"logprobs":true`))
	require.Zero(t, rec.Code, "cut: an answer that is not whole must not end like one")
	require.Len(t, front.cancelled, 1)

	front.models[0].Tokenizer = bytesTokenizer{}
	require.Equal(t, 200, e.do("GET", "/v1/models", "").Code)
	metrics := e.do("GET", "/metrics", "").Body.String()
	require.Contains(t, metrics, `plimsoll_actor_panics_total{actor="ingress"} 2`)
}

type panickyFront struct{ *fakeFront }

func (panickyFront) Submit(*stream.Request) *stream.Response { panic("planted") }

type panickyTokenizer struct{ bytesTokenizer }

func (panickyTokenizer) Token(uint32) (string, bool) { panic("planted") }

// TestShuttingDown: work is refused with Retry-After while what runs goes on; the probes say so.
func TestShuttingDown(t *testing.T) {
	front := newFront(nil)
	front.health = Health{ShuttingDown: true, Ready: true}
	e := newEdge(t, testConfig(), front)
	for _, r := range e.routes() {
		if !r.work {
			continue
		}
		rec := e.do(r.method, r.pattern, "{}")
		require.Equal(t, 503, rec.Code, r.pattern)
		require.NotEmpty(t, rec.Header().Get("Retry-After"))
		require.Contains(t, rec.Body.String(), `"code":"shutting_down"`)
	}
	require.Equal(t, 503, e.do("GET", "/ready", "").Code)
	require.Equal(t, 200, e.do("GET", "/health", "").Code)
	front.health = Health{Replicas: []Replica{{Name: "a", State: "down"}}}
	rec := e.do("GET", "/ready", "")
	require.Equal(t, 503, rec.Code)
	require.JSONEq(t, `{"status":"not_ready","states":{"down":1},"replicas":[{"name":"a","model":"","state":"down"}]}`, rec.Body.String())
}

// TestShutdownWaitsForAnswers and refuses nothing by itself.
func TestShutdownWaitsForAnswers(t *testing.T) {
	script := func(req *stream.Request, resp *stream.Response) {
		time.Sleep(20 * time.Second)
		says("x")(req, resp)
	}
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, testConfig(), newFront(script))
		p := pipes.New(0)
		served := make(chan error, 1)
		go func() { served <- e.Serve(p) }()
		c := p.Dial()
		post(t, c, withMember(pathChat, ""))
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, e.Shutdown(short), context.DeadlineExceeded)
		require.NoError(t, <-served)
		down := make(chan error, 1)
		go func() { down <- e.Shutdown(t.Context()) }()
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.NoError(t, <-down)
		require.NoError(t, c.Close())
	})
}

func TestHead(t *testing.T) {
	e := newEdge(t, testConfig(), newFront(nil))
	ts := httptest.NewServer(e)
	defer ts.Close()
	for path, want := range map[string]int{
		"/health": 200, "/ready": 200, "/v1/models": 200, "/v1/models/org/sim": 200, "/metrics": 200,
		"/v1/models/none": 404, pathChat: 405, "/none": 404,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, ts.URL+path, nil)
		require.NoError(t, err)
		resp, err := ts.Client().Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, resp.StatusCode, path)
	}
}

// TestDepsAreRequired and limits are checked.
func TestDepsAreRequired(t *testing.T) {
	_, err := New(DefaultConfig(), Deps{})
	require.Error(t, err)
	require.NoError(t, DefaultConfig().Validate())
	for _, spoil := range []func(*Config){
		func(c *Config) { c.BodyBytes = 0 },
		func(c *Config) { c.BodiesBytes = c.BodyBytes - 1 },
		func(c *Config) { c.LegsMax = 0 },
		func(c *Config) { c.ClientStall = 0 },
		func(c *Config) { c.EarlyHeaders = -1 },
		func(c *Config) { c.APIKeys = Keys{"x": {""}} },
	} {
		c := DefaultConfig()
		spoil(&c)
		require.Error(t, c.Validate())
	}
	require.Len(t, RandomID(), 32)
	require.NotEqual(t, RandomID(), RandomID())
}

// TestServerTiming: an answer's headers say where its time went. A stream's go out with the first token, a whole answer's
// at its end.
func TestServerTiming(t *testing.T) {
	for body, want := range map[string]string{
		`{"messages":[{"role":"user","content":"hi"}],"n":2}`:               `^tokenize;dur=1500.000, queue;dur=250.000, prefill;dur=500.000, ttft;dur=\d+\.\d{3}, total;dur=\d+\.\d{3}, replica;desc="a b", attempts;desc="3"$`,
		`{"messages":[{"role":"user","content":"hi"}],"n":2,"stream":true}`: `^tokenize;dur=1500.000, queue;dur=250.000, prefill;dur=500.000, total;dur=\d+\.\d{3}, replica;desc="a b", attempts;desc="3"$`,
	} {
		front := newFront(nil)
		front.played = func(req *stream.Request, resp *stream.Response) {
			at := func(ms int) time.Time { return req.Arrival.Add(time.Duration(ms) * time.Millisecond) }
			resp.Encoded(at(1500))
			resp.Placed(0, "a", at(1750))
			resp.Placed(0, "a", at(1800))
			resp.Placed(1, "b", at(1800))
			for leg := range 2 {
				resp.Append(leg, []stream.Entry{{ID: 'x', Text: "a", Stamp: at(2250 + leg)}}, stream.Usage{})
				resp.Finish(leg, stream.Finish{Reason: stream.StopEnd, CompletionTokens: 1}, stream.Usage{})
			}
			resp.End(nil)
		}
		w := newEdge(t, testConfig(), front).do(http.MethodPost, "/v1/chat/completions", body)
		require.Regexp(t, want, w.Header().Get("Server-Timing"))
	}
}
