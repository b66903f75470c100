package ingress

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring/quota"
)

// TestQuotas: who has had its share is told when to come again, and takes nothing from others.
func TestQuotas(t *testing.T) {
	cfg := testConfig()
	cfg.APIKeys = Keys{"few": {"secret-key-a"}, "small": {"secret-key-b"}, "free": {"secret-key-c"}}
	cfg.Quotas = map[string]quota.Limits{"few": {RequestsPerMinute: new(2)}, "small": {TokensPerMinute: new(60)}}
	front := newFront(says("a", "b", "c")) // 7 + 3 tokens an answer
	e := newEdge(t, cfg, front)
	ask := func(key string) (code int, retry, body string) {
		rec := e.do("POST", pathChat, withMember(pathChat, ""), "x-api-key", key)
		return rec.Code, rec.Header().Get("Retry-After"), rec.Body.String()
	}
	served := func(key string) {
		code, _, _ := ask(key)
		require.Equal(t, 200, code)
	}
	refused := func(key, retry, words string) {
		asked := len(front.submitted())
		code, after, body := ask(key)
		require.Equal(t, 429, code)
		require.Equal(t, retry, after)
		var said struct {
			Error struct{ Type, Code, Message string } `json:"error"`
		}
		require.NoError(t, json.Unmarshal([]byte(body), &said))
		require.Equal(t, "rate_limit_error", said.Error.Type)
		require.Equal(t, "rate_limit_exceeded", said.Error.Code)
		require.Contains(t, said.Error.Message, words)
		require.Len(t, front.submitted(), asked, "it goes no further")
	}
	served("secret-key-a")
	served("secret-key-a")
	refused("secret-key-a", "30", "few may have 2 requests a minute")
	for range 6 {
		served("secret-key-b")
	}
	refused("secret-key-b", "1", "small may have 60 tokens a minute")
	for range 20 {
		served("secret-key-c")
	}
}
