package admin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func decisionsOf(t *testing.T, w *httptest.ResponseRecorder) Decisions {
	t.Helper()
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	var d Decisions
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &d))
	return d
}

func TestDecisionsAreShown(t *testing.T) {
	require.Len(t, decisionsOf(t, get(t, edge(true), "/debug/decisions")).Decisions, decisionsUsual)
	require.Len(t, decisionsOf(t, get(t, edge(true), "/debug/decisions?limit=3")).Decisions, 3)
	require.Equal(t, "known/1", decisionsOf(t, get(t, edge(true), "/debug/decisions/known%2F1")).Decisions[0].Request)
	require.Equal(t, "known/1", decisionsOf(t, get(t, edge(true), "/debug/decisions?request=known%2F1")).Decisions[0].Request)
	for path, want := range map[string]int{
		"/debug/decisions?limit=0": http.StatusBadRequest, "/debug/decisions?limit=x": http.StatusBadRequest,
		"/debug/decisions/unknown": http.StatusNotFound,
	} {
		require.Equal(t, want, get(t, edge(true), path).Code, path)
	}
	require.Contains(t, get(t, edge(true), "/debug/decisions/unknown").Body.String(), "--decisions")
}

// TestQuestions: what may be asked of a request that is not made, and what is made of it.
func TestQuestions(t *testing.T) {
	for _, tc := range []struct {
		body string
		want int
		says string
	}{
		{`{"prompt":"hello"}`, http.StatusOK, `"Texts":["hello"],"AddSpecial":true`},
		{`{"tokens":[1,2],"max_tokens":5}`, http.StatusOK, `"Tokens":[[1,2]]},"N":1,"MaxTokens":5`},
		{`{"messages":[{"role":"user","content":"hi"}],"temperature":1,"max_completion_tokens":7}`, http.StatusOK, `"MaxTokens":7`},
		{`{"messages":[],"tools":[{"a":1}]}`, http.StatusOK, `"Tools":[{"a":1}]`},
		{`{"messages":[],"continue_final_message":true}`, http.StatusOK, `"AddGenerationPrompt":false`},
		{`{"prompt":"a","model":"gone"}`, http.StatusNotFound, "gone"},
		{`{"prompt":"a","tokens":[1]}`, http.StatusBadRequest, "exactly one"},
		{`{}`, http.StatusBadRequest, "exactly one"},
		{`{"tokens":[-1]}`, http.StatusBadRequest, "tokens[0] must be a token ID"},
		{`{"tokens":"1"}`, http.StatusBadRequest, "tokens must be a list of token IDs, not a string"},
		{`{"tokens":[]}`, http.StatusOK, `"Tokens":[[]]`},
		{`{"prompt":["a"]}`, http.StatusBadRequest, "prompt must be a string, not a list"},
		{`{"prompt":"a","cache_salt":7}`, http.StatusBadRequest, "cache_salt must be a string"},
		{`{"prompt":"a","max_tokens":16.0,"min_tokens":16}`, http.StatusOK, `"MaxTokens":16,"MinTokens":16`},
		{`{"prompt":"a","max_tokens":0}`, http.StatusBadRequest, "max_tokens must be from 1 to 2147483647, not 0"},
		{`{"prompt":"a","max_tokens":2147483648}`, http.StatusBadRequest, "max_tokens must be from 1 to 2147483647"},
		{`{"prompt":"a","max_completion_tokens":"7"}`, http.StatusBadRequest, "max_completion_tokens must be a whole number"},
		{`{"prompt":"a","min_tokens":9223372036854775807}`, http.StatusBadRequest, "min_tokens must be from 0"},
		{`{"prompt":"a","max_tokens":3,"min_tokens":4}`, http.StatusBadRequest, "min_tokens must be at most max_tokens"},
		{`{"prompt":"a"}`, http.StatusOK, `"Class":1`},
		{`{"prompt":"a","service_tier":"flex"}`, http.StatusOK, `"Class":2`},
		{`{"prompt":"a","service_tier":"fast"}`, http.StatusBadRequest, "service_tier must be auto, default, priority or flex"},
		{`[]`, http.StatusBadRequest, "must be a JSON object"},
		{``, http.StatusBadRequest, "the body is empty"},
		{`{"prompt":"a"`, http.StatusBadRequest, "JSON"},
	} {
		w := httptest.NewRecorder()
		edge(true).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/debug/decisions", strings.NewReader(tc.body)))
		require.Equal(t, tc.want, w.Code, "%s: %s", tc.body, w.Body.String())
		said := w.Body.String()
		if w.Code == http.StatusOK {
			said = decisionsOf(t, w).Decisions[0].Summary
		}
		require.Contains(t, said, tc.says)
	}
}

// TestQuestionsInAHurry: the headers of SLOs count as they do where clients send them.
func TestQuestionsInAHurry(t *testing.T) {
	ask := func(value string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/debug/decisions", strings.NewReader(`{"prompt":"a"}`))
		req.Header.Set("X-Slo-Ttft-Ms", value)
		edge(true).ServeHTTP(w, req)
		return w
	}
	require.Contains(t, decisionsOf(t, ask("250")).Decisions[0].Summary, `"SLO":{"TTFT":250000000,"TPOT":null}`)
	w := ask("soon")
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "X-Slo-Ttft-Ms must be one number of milliseconds")
}
