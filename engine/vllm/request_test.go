package vllm

import (
	"context"
	"math"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/wire"
)

func ptr[T any](v T) *T { return &v }

// contextThatEnds returns one that the test ends.
func contextThatEnds(tb testing.TB) (context.Context, context.CancelFunc) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	tb.Cleanup(cancel)
	return ctx, cancel
}

// engineAt returns an engine for a server, closed with the test.
func engineAt(tb testing.TB, url string, change ...func(*Config)) *Engine {
	tb.Helper()
	cfg := configAt(url)
	for _, f := range change {
		f(&cfg)
	}
	e, err := New(cfg, deps())
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, e.Close()) })
	return e
}

// sent is one request as the server saw it.
type sent struct {
	path, body string
	header     http.Header
}

// sending runs a request and returns what went out.
func sending(t *testing.T, req engine.Request, change ...func(*Config)) sent {
	t.Helper()
	got := make(chan sent, 1)
	e := engineAt(t, enginetest.Serve(t, func(s *enginetest.Session) {
		got <- sent{s.Request.URL.Path, s.Body, s.Request.Header}
		_ = s.Say(enginetest.StreamHeader, enginetest.Chunk(completionsFinish), enginetest.Chunk(trailer), enginetest.LastChunk)
	}), change...)
	require.NoError(t, enginetest.Generate(t, e, req).Err)
	return <-got
}

const always = `"stream":true,"stream_options":{"include_usage":true}`

func TestRequestOnTheWire(t *testing.T) {
	base := engine.Request{ID: "r1", PromptTokens: []uint32{2, 818, 4294967295}, MaxTokens: 7}
	everything := engine.Sampling{
		Temperature: ptr(0.0), TopP: ptr(0.5), TopK: ptr(0), MinP: ptr(0.0), PresencePenalty: ptr(-1.5), FrequencyPenalty: ptr(2.0),
		RepetitionPenalty: ptr(1.1), Seed: ptr(int64(0)), LogitBias: map[uint32]float64{9: -100, 4294967295: 1.5},
	}
	for name, c := range map[string]struct {
		change              func(*engine.Request)
		model               string // of the configuration
		top, params, logits string // beside what is always sent: at the top of both routes, sampling, of completions alone
	}{
		"nothing set leaves all to the engine": {},
		"every sampling parameter": {
			change: func(r *engine.Request) { r.Sampling = everything },
			params: `,"temperature":0,"top_p":0.5,"top_k":0,"min_p":0,"presence_penalty":-1.5,"frequency_penalty":2,"repetition_penalty":1.1,"seed":0,"logit_bias":{"9":-100,"4294967295":1.5}`,
		},
		"ends": {
			change: func(r *engine.Request) { r.IgnoreEOS, r.EndTokens, r.MinTokens = true, []uint32{5, 6}, 3 },
			params: `,"ignore_eos":true,"stop_token_ids":[5,6],"min_tokens":3`,
		},
		"logprobs of the token alone":        {change: func(r *engine.Request) { r.TopLogprobs = ptr(0) }, params: `,"logprobs":0`, logits: `,"return_tokens_as_token_ids":true`},
		"logprobs":                           {change: func(r *engine.Request) { r.TopLogprobs = ptr(5) }, params: `,"logprobs":5`, logits: `,"return_tokens_as_token_ids":true`},
		"a salt":                             {change: func(r *engine.Request) { r.CacheSalt = "tenant-a" }, top: `,"cache_salt":"tenant-a"`},
		"the configured model":               {model: "tiny", top: `,"model":"tiny"`},
		"the request's model goes before it": {change: func(r *engine.Request) { r.Model = "mine" }, model: "tiny", top: `,"model":"mine"`},
		"an adapter is a model":              {change: func(r *engine.Request) { r.Model, r.LoRA = "mine", "lora-a" }, model: "tiny", top: `,"model":"lora-a"`},
		"the seed that means none":           {change: func(r *engine.Request) { r.Sampling.Seed = ptr(int64(-1)) }, params: `,"seed":9223372036854775807`},
	} {
		t.Run(name, func(t *testing.T) {
			req := base
			if c.change != nil {
				c.change(&req)
			}
			of := func(api API) sent { return sending(t, req, func(cfg *Config) { cfg.API, cfg.Model = api, c.model }) }
			completions, generate := of(APICompletions), of(APIGenerate)
			require.Equal(t, "/v1/completions", completions.path)
			require.JSONEq(t, `{"prompt":[2,818,4294967295],"max_tokens":7,"return_token_ids":true,`+always+c.top+c.params+c.logits+`}`, completions.body)
			require.Equal(t, "/inference/v1/generate", generate.path)
			require.JSONEq(t, `{"token_ids":[2,818,4294967295],"sampling_params":{"max_tokens":7,"detokenize":false`+c.params+`},`+always+c.top+`}`, generate.body)
			require.Equal(t, "r1", completions.header.Get("X-Request-Id"))
			require.Empty(t, completions.header.Values("X-Data-Parallel-Rank"), "a server of one rank chooses itself")
		})
	}
}

func TestARankIsNamedInTheHeader(t *testing.T) {
	got := sending(t, enginetest.Request(1), func(c *Config) { c.Rank = ptr(3) })
	require.Equal(t, []string{"3"}, got.header.Values("X-data-parallel-rank"))
}

func TestAChatGoesOutAsTheClientWroteItButForWhatTheRequestSays(t *testing.T) {
	req := engine.Request{ID: "r1", MaxTokens: 7, Sampling: engine.Sampling{Seed: ptr(int64(5))}, ChatBody: []byte(
		`{"model":"alias","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:;base64,AA=="}}]}],"temperature":0.25,
		  "stop":["x"],"tools":[],"n":4,"max_completion_tokens":99,"stream":false,"logprobs":true,"top_logprobs":3,"cache_salt":"another tenant's",
		  "priority":-9,"request_id":"r","kv_transfer_params":{"a":1},"ec_transfer_params":{},"vllm_xargs":{"kv_cache_report_mode":"full"},"session_id":"s","big":12345678901234567890}`)}
	got := sending(t, req, func(c *Config) { c.API = APIGenerate })
	require.Equal(t, "/v1/chat/completions", got.path)
	require.JSONEq(t, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:;base64,AA=="}}]}],"temperature":0.25,
		"stop":["x"],"tools":[],"max_tokens":7,"seed":5,"return_token_ids":true,`+always+`,"big":12345678901234567890}`, got.body)
	require.Contains(t, got.body, "12345678901234567890", "numbers keep their digits")

	req.TopLogprobs, req.CacheSalt, req.Model = ptr(2), "mine", "tiny"
	got = sending(t, req)
	require.Contains(t, got.body, `"logprobs":true`)
	require.Contains(t, got.body, `"top_logprobs":2`)
	require.Contains(t, got.body, `"return_tokens_as_token_ids":true`)
	require.Contains(t, got.body, `"cache_salt":"mine"`)
	require.Contains(t, got.body, `"model":"tiny"`)
}

func TestWhatCannotBeAskedNeverGoesOut(t *testing.T) {
	e := completionsProtocol(t).Of(t, func(*enginetest.Session) { t.Error("a request went out") })
	for name, c := range map[string]struct {
		param  string
		change func(r *engine.Request)
	}{
		"no tokens":                         {"prompt", func(r *engine.Request) { r.PromptTokens = nil }},
		"no room":                           {"max_tokens", func(r *engine.Request) { r.MaxTokens = 0 }},
		"less than no room":                 {"max_tokens", func(r *engine.Request) { r.MaxTokens = -1 }},
		"no number":                         {"", func(r *engine.Request) { r.Sampling.Temperature = ptr(math.NaN()) }},
		"a chat that is no object":          {"messages", func(r *engine.Request) { r.ChatBody = []byte("[]") }},
		"a chat that is nothing":            {"messages", func(r *engine.Request) { r.ChatBody = []byte("null") }},
		"a chat that is no JSON":            {"messages", func(r *engine.Request) { r.ChatBody = []byte("{") }},
		"a chat without room for an answer": {"max_tokens", func(r *engine.Request) { r.ChatBody, r.MaxTokens = []byte("{}"), 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			req := enginetest.Request(4)
			c.change(&req)
			failure := enginetest.FailureIn(t, enginetest.Generate(t, e, req).Err, engine.Client)
			require.Equal(t, c.param, failure.Param)
			require.False(t, failure.FromEngine)
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	req := enginetest.Request(512)
	req.PromptTokens = make([]uint32, 32000)
	for i := range req.PromptTokens {
		req.PromptTokens[i] = 123456
	}
	b.Run("tokens=32000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := encode(req, "m", false); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// configAt is the default one for a server.
func configAt(url string) Config {
	cfg := DefaultConfig()
	cfg.URL = url
	return cfg
}

var _ wire.Decoder = (*decoder)(nil)
