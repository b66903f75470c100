//go:build e2e

package vllm

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/e2e/rig"
	"plimsoll/testbench/shared"
)

// conversation is one of the chat templates' data.
type conversation struct {
	Name                string           `json:"name"`
	Messages            []map[string]any `json:"messages"`
	Tools               []any            `json:"tools"`
	Documents           []map[string]any `json:"documents"`
	AddGenerationPrompt bool             `json:"add_generation_prompt"`
	Kwargs              map[string]any   `json:"kwargs"`
}

// request is the conversation as a client sends it: the arguments of tool calls are a string there.
func (c conversation) request(t *testing.T) map[string]any {
	t.Helper()
	for _, m := range c.Messages {
		calls, _ := m["tool_calls"].([]any)
		for _, call := range calls {
			function, ok := call.(map[string]any)["function"].(map[string]any)
			if _, text := function["arguments"].(string); !ok || text {
				continue
			}
			text, err := json.Marshal(function["arguments"])
			require.NoError(t, err)
			function["arguments"] = string(text)
		}
	}
	for _, d := range c.Documents { // the engine takes strings only
		if id, ok := d["doc_id"].(float64); ok {
			text, err := json.Marshal(id)
			require.NoError(t, err)
			d["doc_id"] = string(text)
		}
	}
	body := map[string]any{"model": model, "messages": c.Messages, "add_generation_prompt": c.AddGenerationPrompt}
	for name, value := range map[string]any{"tools": c.Tools, "documents": c.Documents, "chat_template_kwargs": c.Kwargs} {
		switch v := value.(type) {
		case []any:
			if len(v) > 0 {
				body[name] = v
			}
		case []map[string]any:
			if len(v) > 0 {
				body[name] = v
			}
		case map[string]any:
			if len(v) > 0 {
				body[name] = v
			}
		}
	}
	return body
}

type tokenized struct {
	Tokens   []uint32 `json:"tokens"`
	TokenIDs []uint32 `json:"token_ids"`
}

// promptIDs compares what Plimsoll makes of a conversation with what the engine makes of it, at both of its routes.
func (f *fleet) promptIDs(t *testing.T) {
	text, err := os.ReadFile(shared.Path(t, "testdata", "chat-templates", "conversations.json"))
	require.NoError(t, err)
	taken, rendered := 0, 0
	for _, c := range rig.As[[]conversation](t, text) {
		t.Run(c.Name, func(t *testing.T) {
			body := c.request(t)
			code, answer := rig.Send(t, http.MethodPost, f.b.url+"/tokenize", body)
			ours, said := rig.Send(t, http.MethodPost, f.url+"/tokenize", body)
			if code != http.StatusOK {
				require.Equal(t, http.StatusBadRequest, ours, "the engine refuses it (%s), we do not: %s", answer, said)
				return
			}
			taken++
			require.Equal(t, http.StatusOK, ours, "the engine takes it: %s", said)
			ids := rig.As[tokenized](t, said).Tokens
			require.NotEmpty(t, ids)
			require.Equal(t, rig.As[tokenized](t, answer).Tokens, ids)

			asked := maps.Clone(body)
			asked["max_tokens"] = 1
			if code, answer = rig.Send(t, http.MethodPost, f.b.url+"/v1/chat/completions/render", asked); code != http.StatusOK {
				t.Logf("render: %d %s", code, answer)
				return
			}
			rendered++
			require.Equal(t, rig.As[tokenized](t, answer).TokenIDs, ids)
		})
	}
	t.Logf("%d conversations equal at /tokenize, %d at render", taken, rendered)
	require.Positive(t, taken)
	require.Positive(t, rendered)
}
