package ingress

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"plimsoll/actors/fault"
	"plimsoll/actors/meter"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/testbench/printed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bytesTokenizer has the 256 bytes as tokens 0..255 in GPT-2's letters, a few words, and a special token.
type bytesTokenizer struct{}

const (
	idThe     = 256 // " the"
	idEuro    = 257 // "€"
	idEnd     = 258 // "<|end|>", special
	vocabSize = 259
)

func (bytesTokenizer) VocabSize() int { return vocabSize }

func (bytesTokenizer) Token(id uint32) (string, bool) {
	switch {
	case id < 256:
		return letterOf(byte(id)), true
	case id == idThe:
		return "Ġthe", true
	case id == idEuro:
		return "âĤ¬", true
	case id == idEnd:
		return "<|end|>", true
	}
	return "", false
}

func letterOf(b byte) string {
	for r := rune(0); r < 0x200; r++ {
		if got, ok := letterByte(r); ok && got == b {
			return string(r)
		}
	}
	panic("no letter")
}

func (t bytesTokenizer) Decode(ids []uint32, skipSpecial bool) (string, error) {
	var out []byte
	for _, id := range ids {
		switch {
		case id < 256:
			out = append(out, byte(id))
		case id == idThe:
			out = append(out, " the"...)
		case id == idEuro:
			out = append(out, "€"...)
		case id == idEnd:
			if !skipSpecial {
				out = append(out, "<|end|>"...)
			}
		default:
			return "", errors.New("no such token")
		}
	}
	return string(bytes.ToValidUTF8(out, []byte("\ufffd"))), nil
}

// fakeFront plays a script for every request and remembers what it was asked.
type fakeFront struct {
	models []Model
	health Health
	script func(req *stream.Request, resp *stream.Response)
	// played is a script that ends before Submit returns, so that the borders of chunks are fixed: one delta for each leg.
	played   func(req *stream.Request, resp *stream.Response)
	tokenize func(in stream.Input) ([]Encoded, error)

	mu        sync.Mutex
	requests  []*stream.Request
	cancelled chan struct{} // one value for each response that was cancelled for the first time
	running   sync.WaitGroup
}

func newFront(script func(*stream.Request, *stream.Response)) *fakeFront {
	return &fakeFront{
		models: []Model{{
			Name: "org/sim", Root: "org/sim", Created: time.Unix(1700000000, 0), ContextTokens: 4096, Tokenizer: bytesTokenizer{},
			Logprobs: true, LogitBias: true, MinTokens: true,
		}},
		health:    Health{Ready: true, Replicas: []Replica{{Name: "a", Model: "org/sim", State: "ready"}}},
		script:    script,
		cancelled: make(chan struct{}, 1000),
	}
}

func (f *fakeFront) Models() []Model { return f.models }
func (f *fakeFront) Health() Health  { return f.health }

func (f *fakeFront) Model(name string) (Model, bool) {
	at := slices.IndexFunc(f.models, func(m Model) bool { return m.Name == name })
	if at < 0 {
		return Model{}, false
	}
	return f.models[at], true
}

func (f *fakeFront) Tokenize(_ context.Context, _, _ string, in stream.Input) ([]Encoded, error) {
	return f.tokenize(in)
}

func (f *fakeFront) Submit(req *stream.Request) *stream.Response {
	f.mu.Lock()
	f.requests = append(f.requests, req)
	f.mu.Unlock()
	var resp *stream.Response
	var once sync.Once
	resp = stream.NewResponse(req.Input.Prompts()*req.N, func() {
		once.Do(func() {
			f.cancelled <- struct{}{}
			resp.End(fault.New(fault.ClientGone, "cancelled"))
		})
	})
	if f.played != nil {
		f.played(req, resp)
	}
	if f.script != nil {
		f.running.Go(func() { f.script(req, resp) })
	}
	return resp
}

func (f *fakeFront) submitted() []*stream.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*stream.Request(nil), f.requests...)
}

// says is a script: every leg gives these texts, one a token, and ends.
func says(texts ...string) func(*stream.Request, *stream.Response) {
	return func(req *stream.Request, resp *stream.Response) {
		u := stream.Usage{PromptTokens: 7 * req.Input.Prompts(), CachedTokens: 4, CachedKnown: true}
		for leg := range req.Input.Prompts() * req.N {
			resp.Placed(leg, string(rune('a'+leg%2)), req.Arrival)
			for _, t := range texts {
				u.CompletionTokens++
				resp.Append(leg, []stream.Entry{{ID: 'x', Text: t}}, u)
			}
			resp.Finish(leg, stream.Finish{Reason: stream.StopEnd, CompletionTokens: len(texts)}, u)
		}
		resp.End(nil)
	}
}

// spells is a script of one leg: token IDs with the text that each one brings and log probabilities.
func spells(entries []stream.Entry, end stream.Finish) func(*stream.Request, *stream.Response) {
	return func(_ *stream.Request, resp *stream.Response) {
		u := stream.Usage{PromptTokens: 3}
		for i := range entries {
			u.CompletionTokens++
			entries[i].Logprob = &engine.Logprob{
				Logprob: -0.5, Top: []engine.RankedToken{{ID: entries[i].ID, Logprob: -0.5}, {ID: idThe, Logprob: -1.25}},
			}
			resp.Append(0, entries[i:i+1], u)
		}
		end.CompletionTokens = len(entries)
		resp.Finish(0, end, u)
		resp.End(nil)
	}
}

// edge is a server over a fake front with fixed IDs and time.
type edge struct {
	*Server
	front *fakeFront
	log   *printed.Text
}

func testConfig() Config {
	cfg := DefaultConfig()
	cfg.SystemFingerprint = "fp"
	return cfg
}

func newEdge(tb testing.TB, cfg Config, front *fakeFront) *edge {
	tb.Helper()
	m, err := meter.New(meter.Config{Version: "test", LabelValuesMax: 8})
	require.NoError(tb, err)
	log := &printed.Text{}
	s, err := New(cfg, Deps{
		Front: front, Log: slog.New(slog.NewJSONHandler(log, nil)), Meter: m.Ingress(), Metrics: m.Handler(),
		Now: func() time.Time { return time.Unix(1700000123, 0) }, NewID: func() string { return "0123abcd" },
	})
	require.NoError(tb, err)
	tb.Cleanup(front.running.Wait)
	return &edge{Server: s, front: front, log: log}
}

// do sends a request to the handler. A connection that the handler cuts is status 0.
func (e *edge) do(method, path, body string, header ...string) (rec *httptest.ResponseRecorder) {
	r := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	rec = httptest.NewRecorder()
	defer func() {
		if p := recover(); p != nil {
			if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
			rec.Code = 0
		}
	}()
	e.ServeHTTP(rec, r)
	return rec
}

// logged are the lines of a log.
func logged(t *testing.T, log *printed.Text) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(log.String()) {
		var m map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		out = append(out, m)
	}
	return out
}
