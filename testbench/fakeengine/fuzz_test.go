package fakeengine_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/sim"
	"plimsoll/testbench/fakeengine"
)

// FuzzBody: whatever is sent to any route, the answer is JSON or a stream with its end, and a fault is the sender's.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"prompt":"Hello","max_tokens":3,"stream":true,"stop":["a","é"],"logprobs":2,"n":2}`,
		`{"prompt":[[1,2],[3]],"echo":true,"max_tokens":0,"truncate_prompt_tokens":1,"stream_options":{"include_usage":true}}`,
		`{"prompt":[1,-1]}`, `{"prompt":["a",[1]]}`, `{"prompt":[[]]}`, `{"prompt":[ ]}`, `{"prompt":[null]}`, `{"prompt":{}}`,
		`{"messages":[{"role":"user","content":"Hi"}],"logprobs":true,"top_logprobs":1,"stream":true}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}],"tools":[{}],"tool_choice":"auto"}`,
		`{"messages":[1]}`, `{"messages":{}}`, `{"messages":[]}`,
		`{"token_ids":[1,2],"sampling_params":{"max_tokens":2,"stop":"x","logit_bias":{"5":1e400}},"output_mode":"text"}`,
		`{"token_ids":[9999999],"sampling_params":{"n":-1},"stream":true}`, `{"tokens":[1,2,4097,99999]}`, `{"request_ids":["a","cmpl-a-0"]}`,
		`{"request_ids":7}`, `{"temperature":-0.0,"seed":9223372036854775807,"min_tokens":2147483648}`, `[]`, `{`, "", "\xff", `{"model":"x"}`,
	} {
		for route := range routes() {
			f.Add(uint8(route), seed)
		}
	}
	s := small(f)
	f.Fuzz(func(t *testing.T, route uint8, body string) {
		path := routes()[int(route)%len(routes())]
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, req)
		require.True(t, slices.Contains([]int{200, 400, 404, 413, 503}, rec.Code), "%d: %s", rec.Code, rec.Body)
		switch kind := rec.Header().Get("Content-Type"); kind {
		case "application/json":
			require.True(t, json.Valid(rec.Body.Bytes()), "%s", rec.Body)
		case "text/event-stream; charset=utf-8":
			require.True(t, strings.HasSuffix(rec.Body.String(), "data: [DONE]\n\n"), "%s", rec.Body)
			for _, frame := range frames(t, rec.Body.Bytes()) {
				require.True(t, json.Valid([]byte(frame)), "%s", frame)
				require.NotContains(t, frame, "InternalServerError")
			}
		default:
			require.Empty(t, rec.Body.String(), kind)
		}
	})
}

func routes() []string {
	return []string{
		"/v1/completions", "/v1/chat/completions", "/inference/v1/generate", "/inference/v1/abort_requests", "/tokenize", "/detokenize",
	}
}

// small is a server whose every answer is short and quick.
func small(f *testing.F) *fakeengine.Server {
	f.Helper()
	model, source := embedded(f)
	cfg := fakeengine.DefaultConfig()
	cfg.Engine.Sim = sim.TinyConfig()
	cfg.Engine.Sim.ContextTokens, cfg.LegsMax, cfg.Engine.Speed = 64, 4, 1e5
	s, err := fakeengine.New(cfg, fakeengine.Deps{Model: model, Source: source, Entropy: entropy(), Now: time.Now})
	require.NoError(f, err)
	f.Cleanup(func() {
		require.NoError(f, s.Close())
		require.NoError(f, model.Close())
	})
	return s
}
