package llamacpp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"plimsoll/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience ends a test that hangs; no assertion depends on it.
const patience = 20 * time.Second

// engineAt returns an engine for a server at url, closed with the test.
func engineAt(tb testing.TB, url string, change ...func(*Config)) *Engine {
	tb.Helper()
	cfg := DefaultConfig()
	cfg.URL = url
	for _, f := range change {
		f(&cfg)
	}
	e, err := New(cfg, Deps{Dial: (&net.Dialer{}).DialContext})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, e.Close()) })
	return e
}

// engineOf returns an engine for a server that answers with handler.
func engineOf(tb testing.TB, handler http.HandlerFunc, change ...func(*Config)) *Engine {
	tb.Helper()
	server := httptest.NewServer(handler)
	tb.Cleanup(server.Close)
	return engineAt(tb, server.URL, change...)
}

// session is one connection of a scripted server, with the request read from it.
type session struct {
	net.Conn
	number  int // connections before this one
	request *http.Request
	body    string
	input   *bufio.Reader
}

// next reads one more request; false at the end of the connection.
func (s *session) next() bool {
	req, err := http.ReadRequest(s.input)
	if err != nil {
		return false
	}
	body, err := io.ReadAll(req.Body)
	s.request, s.body = req, string(body)
	return err == nil
}

// gone blocks until the client has closed the connection.
func (s *session) gone() { _, _ = io.Copy(io.Discard, s.input) }

// reset ends the connection with RST.
func (s *session) reset() {
	_ = s.Conn.(*net.TCPConn).SetLinger(0)
	_ = s.Close()
}

// say writes raw bytes.
func (s *session) say(text ...string) {
	for _, part := range text {
		_, _ = io.WriteString(s.Conn, part)
	}
}

// scripted is a server that runs a script on each connection after its first request, then closes it.
func scripted(tb testing.TB, script func(s *session)) (url string) {
	tb.Helper()
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	var running sync.WaitGroup
	running.Go(func() {
		for number := 0; ; number++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer func() { _ = conn.Close() }()
				s := &session{Conn: conn, number: number, input: bufio.NewReader(conn)}
				if s.next() {
					script(s)
				}
			})
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	return "http://" + listener.Addr().String()
}

const streamHeader = "HTTP/1.1 200 OK\r\nServer: llama.cpp\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// chunk is one chunk of a chunked body; chunk("") ends it.
func chunk(text string) string {
	const digits = "0123456789abcdef"
	n, size := len(text), ""
	for ; n > 0 || size == ""; n /= 16 {
		size = string(digits[n%16]) + size
	}
	return size + "\r\n" + text + "\r\n"
}

// tokenFrame is the frame of the n-th token.
func tokenFrame(id uint32, n int) string {
	text, err := json.Marshal(map[string]any{
		"index": 0, "content": " x", "tokens": []uint32{id}, "stop": false, "id_slot": -1, "tokens_predicted": n, "tokens_evaluated": 3,
	})
	if err != nil {
		panic(err)
	}
	return "data: " + string(text) + "\n\n"
}

const lastFrame = `data: {"index":0,"content":"","tokens":[],"stop":true,"stop_type":"limit","timings":{"cache_n":2}}` + "\n\n"

// requestOf asks for up to n tokens.
func requestOf(n int) engine.Request {
	return engine.Request{ID: "r1", PromptTokens: []uint32{2, 818, 5279}, MaxTokens: n}
}

// heard is what one call of Generate told.
type heard struct {
	tokens []engine.Token
	cached []int
	finish *engine.Finish
	err    error
}

func (h heard) ids() []uint32 {
	if h.tokens == nil {
		return nil
	}
	out := make([]uint32, len(h.tokens))
	for i, token := range h.tokens {
		out[i] = token.ID
	}
	return out
}

// take notes an event and checks what all events promise.
func (h *heard) take(ev engine.Event) error {
	if h.finish != nil {
		return errors.New("an event after the finish")
	}
	if len(ev.Tokens) == 0 && ev.Finish == nil {
		return errors.New("an event that is no sign of progress")
	}
	h.tokens = append(h.tokens, ev.Tokens...)
	if ev.CachedTokens != nil {
		h.cached = append(h.cached, *ev.CachedTokens)
	}
	h.finish = ev.Finish
	return nil
}

// generate runs one call to its end and checks that it ends as the contract says.
func generate(tb testing.TB, e *Engine, req engine.Request) heard {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	var h heard
	h.err = e.Generate(ctx, req, h.take)
	h.check(tb)
	return h
}

// check asserts that a call ended in a finish or in a failure, never in both or neither.
func (h *heard) check(tb testing.TB) {
	tb.Helper()
	if h.err == nil {
		require.NotNil(tb, h.finish, "nil without a finish")
		return
	}
	require.Nil(tb, h.finish, "a finish and an error: %v", h.err)
	var failure *engine.Failure
	require.ErrorAs(tb, h.err, &failure)
	require.Equal(tb, failure.Kind == engine.Client, failure.Message != "", "words for the client belong to Client alone: %v", h.err)
}

// failureIn asserts a failure of a kind and returns it.
func failureIn(tb testing.TB, err error, kind engine.FailKind) engine.Failure {
	tb.Helper()
	var failure *engine.Failure
	require.ErrorAs(tb, err, &failure)
	require.Equal(tb, kind.String(), failure.Kind.String(), "%v", err)
	return *failure
}

// recording is a recorded exchange with a real server.
type recording struct {
	name    string // folder/file
	Note    string `json:"note"`
	Request struct {
		Path string          `json:"path"`
		Body json.RawMessage `json:"body"`
	} `json:"request"`
	Response struct {
		Status   int             `json:"status"`
		Headers  [][2]string     `json:"headers"`
		Body     json.RawMessage `json:"body"`
		BodyText string          `json:"body_text"`
		BodyFile string          `json:"body_file"`
	} `json:"response"`
	ConnectionEnd string `json:"connection_end"`
	body          []byte
}

// readRecordings reads every exchange below dir.
func readRecordings(tb testing.TB, dir string) []recording {
	tb.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*", "*.json"))
	require.NoError(tb, err)
	require.NotEmpty(tb, names, "no recording in %s", dir)
	out := make([]recording, 0, len(names))
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(tb, err)
		rec := recording{name: filepath.Base(filepath.Dir(name)) + "/" + strings.TrimSuffix(filepath.Base(name), ".json")}
		require.NoError(tb, json.Unmarshal(text, &rec), name)
		switch {
		case rec.Response.BodyFile != "":
			rec.body, err = os.ReadFile(filepath.Join(filepath.Dir(name), rec.Response.BodyFile))
			require.NoError(tb, err)
		case rec.Response.BodyText != "":
			rec.body = []byte(rec.Response.BodyText)
		default:
			rec.body = rec.Response.Body
		}
		out = append(out, rec)
	}
	return out
}

// recordings are our own copies.
func recordings(tb testing.TB) []recording {
	tb.Helper()
	return readRecordings(tb, filepath.Join("testdata", "recorded"))
}

// named returns one of the copies.
func named(tb testing.TB, name string) recording {
	tb.Helper()
	for _, rec := range recordings(tb) {
		if rec.name == name {
			return rec
		}
	}
	tb.Fatalf("no recording %s", name)
	return recording{}
}

// replay answers as the server did.
func (rec recording) replay(w http.ResponseWriter, _ *http.Request) {
	for _, header := range rec.Response.Headers {
		switch header[0] {
		case "Transfer-Encoding", "Content-Length", "Connection", "Keep-Alive":
		default:
			w.Header().Set(header[0], header[1])
		}
	}
	w.WriteHeader(rec.Response.Status)
	_, _ = w.Write(rec.body)
	if rec.ConnectionEnd != "" {
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// request is the recorded request in the contract's words, as far as the answer depends on it.
func (rec recording) request() engine.Request {
	var asked struct {
		NPredict *int `json:"n_predict"`
		NProbs   *int `json:"n_probs"`
	}
	_ = json.Unmarshal(rec.Request.Body, &asked) // a body that is no object asks for nothing
	req := requestOf(1 << 20)
	if asked.NPredict != nil && *asked.NPredict >= 0 {
		req.MaxTokens = max(1, *asked.NPredict)
	}
	req.TopLogprobs = asked.NProbs
	return req
}
