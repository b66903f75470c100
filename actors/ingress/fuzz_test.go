package ingress

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/openai"
)

// fuzzRequests feeds bodies: whatever comes is answered whole or refused with a 4xx in the API's shape.
func fuzzRequests(f *testing.F, path string, members ...string) {
	f.Helper()
	f.Add([]byte(withMember(path, "")))
	for _, m := range members {
		f.Add([]byte(withMember(path, m)))
	}
	for _, body := range []string{``, `null`, `[]`, `{`, `{"model":"org/sim"}`, `{"model":"\ud800"}`, "{\"prompt\":\"\xff\"}"} {
		f.Add([]byte(body))
	}
	cfg := testConfig()
	cfg.BodyBytes, cfg.BodiesBytes = 1<<16, 1<<20
	e := newEdge(f, cfg, newFront(says("x")))
	f.Fuzz(func(t *testing.T, body []byte) {
		rec := e.do("POST", path, string(body), "Content-Type", "application/json")
		if rec.Code == 200 {
			if strings.HasPrefix(rec.Header().Get("Content-Type"), "text/event-stream") {
				require.Equal(t, 1, hear(t, rec.Body.String()).done)
				return
			}
			require.True(t, json.Valid(rec.Body.Bytes()))
			return
		}
		require.Contains(t, []int{400, 404, 413}, rec.Code)
		var answer openai.ErrorBody
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &answer))
		require.NotEmpty(t, answer.Error.Message)
	})
}

func FuzzChatRequest(f *testing.F) {
	fuzzRequests(f, pathChat,
		`"stream":true,"stream_options":{"include_usage":true},"n":2`, `"stop":["a","\u0000"],"logit_bias":{"1":2}`,
		`"tools":[{"type":"function"}],"tool_choice":"auto"`, `"max_tokens":1e2,"max_completion_tokens":null`,
		`"logprobs":true,"top_logprobs":20,"stop_token_ids":[0]`, `"response_format":{"type": "text"}`)
}

func FuzzCompletionRequest(f *testing.F) {
	fuzzRequests(f, pathCompletions,
		`"prompt":[1,2,3]`, `"prompt":[[1],[2]],"n":3,"stream":true`, `"prompt":["a","b"]`, `"prompt":[1,null]`, `"logprobs":3`,
		`"best_of":1,"echo":false,"suffix":""`)
}
