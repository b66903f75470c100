package llamacpp

import (
	"math"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/wire"
)

func ptr[T any](v T) *T { return &v }

// asked is what always goes out beside the prompt and what the request sets.
const asked = `"stream":true,"return_tokens":true,"return_progress":true,"id_slot":-1`

func TestRequestOnTheWire(t *testing.T) {
	base := engine.Request{ID: "r1", PromptTokens: []uint32{2, 818, 4294967295}, MaxTokens: 7}
	with := func(change func(r *engine.Request)) engine.Request {
		r := base
		change(&r)
		return r
	}
	cases := []struct {
		name string
		req  engine.Request
		want string
	}{
		{"nothing set leaves all to the engine", base, `{"prompt":[2,818,4294967295],"n_predict":7,"cache_prompt":true,` + asked + `}`},
		{
			"every sampling parameter",
			with(func(r *engine.Request) {
				r.Sampling = engine.Sampling{
					Temperature: ptr(0.0), TopP: ptr(0.5), TopK: ptr(0), MinP: ptr(0.0), PresencePenalty: ptr(-1.5), FrequencyPenalty: ptr(2.0),
					RepetitionPenalty: ptr(1.1), Seed: ptr(int64(0)), LogitBias: map[uint32]float64{9: -100, 3: 1.5, 4294967295: 0},
				}
			}),
			`{"prompt":[2,818,4294967295],"n_predict":7,"cache_prompt":true,"temperature":0,"top_p":0.5,"top_k":0,"min_p":0,
			  "presence_penalty":-1.5,"frequency_penalty":2,"repeat_penalty":1.1,"seed":0,"logit_bias":[[3,1.5],[9,-100],[4294967295,0]],` + asked + `}`,
		},
		{
			"ignored end token, model",
			with(func(r *engine.Request) { r.IgnoreEOS, r.Model = true, "gemma" }),
			`{"model":"gemma","prompt":[2,818,4294967295],"n_predict":7,"cache_prompt":true,"ignore_eos":true,` + asked + `}`,
		},
		{
			"logprobs of the token alone still need one rival asked for",
			with(func(r *engine.Request) { r.TopLogprobs = ptr(0) }),
			`{"prompt":[2,818,4294967295],"n_predict":7,"cache_prompt":true,"n_probs":1,` + asked + `}`,
		},
		{
			"logprobs",
			with(func(r *engine.Request) { r.TopLogprobs = ptr(5) }),
			`{"prompt":[2,818,4294967295],"n_predict":7,"cache_prompt":true,"n_probs":5,` + asked + `}`,
		},
		{
			"a salt keeps out of the shared cache",
			with(func(r *engine.Request) { r.CacheSalt = "tenant" }),
			`{"prompt":[2,818,4294967295],"n_predict":7,"cache_prompt":false,` + asked + `}`,
		},
		{
			"end tokens are the stream machine's",
			with(func(r *engine.Request) { r.EndTokens = []uint32{5} }),
			`{"prompt":[2,818,4294967295],"n_predict":7,"cache_prompt":true,` + asked + `}`,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got string
			var header http.Header
			w := protocol(t)
			e := w.Of(t, func(s *enginetest.Session) {
				got, header = s.Request.Method+" "+s.Request.URL.Path+" "+s.Body, s.Request.Header
				_ = s.Say(enginetest.StreamHeader, enginetest.Chunk(lastFrame), enginetest.LastChunk)
			}, func(cfg *wire.Config) { cfg.APIKey = "sk-a" })
			require.NoError(t, enginetest.Generate(t, e, c.req).Err)
			line, body := got[:len("POST /completion ")], got[len("POST /completion "):]
			require.Equal(t, "POST /completion ", line)
			require.JSONEq(t, c.want, body)
			require.Equal(t, "Bearer sk-a", header.Get("Authorization"))
			require.Equal(t, "application/json", header.Get("Content-Type"))
			require.NotContains(t, header, "X-Conversation-Id", "it lets a generation survive its client")
			require.NotContains(t, header, "Accept-Encoding")
		})
	}
}

func TestWhatTheServerCannotDoNeverReachesIt(t *testing.T) {
	e := protocol(t).Of(t, func(*enginetest.Session) { t.Error("a request went out") })
	cases := []struct {
		name, param string
		change      func(r *engine.Request)
	}{
		{"no tokens", "prompt", func(r *engine.Request) { r.PromptTokens = nil }},
		{"a chat body", "prompt", func(r *engine.Request) { r.ChatBody = []byte("{}") }},
		{"n_predict 0 would give a token", "max_tokens", func(r *engine.Request) { r.MaxTokens = 0 }},
		{"n_predict -1 would fill the context", "max_tokens", func(r *engine.Request) { r.MaxTokens = -1 }},
		{"min_tokens", "min_tokens", func(r *engine.Request) { r.MinTokens = 1 }},
		{"an adapter", "model", func(r *engine.Request) { r.LoRA = "a" }},
		{"no number", "", func(r *engine.Request) { r.Sampling.Temperature = ptr(math.NaN()) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			req := enginetest.Request(4)
			c.change(&req)
			failure := enginetest.FailureIn(t, enginetest.Generate(t, e, req).Err, engine.Client)
			require.Equal(t, c.param, failure.Param)
			require.False(t, failure.FromEngine)
		})
	}
}

func TestSeedsFold(t *testing.T) {
	for seed, want := range map[int64]uint32{
		0: 0, 42: 42, math.MaxUint32 - 1: math.MaxUint32 - 1,
		math.MaxUint32: math.MaxUint32 - 1, // the server's word for "draw one"
		-1:             0,
		1 << 32:        1,
		math.MinInt64:  1 << 31,
	} {
		require.Equal(t, want, foldSeed(seed), "%d", seed)
	}
}

func BenchmarkEncode(b *testing.B) {
	req := enginetest.Request(512)
	req.PromptTokens = repeated(123456, 32000)
	b.Run("tokens=32000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := encode(req); err != nil {
				b.Fatal(err)
			}
		}
	})
}
