package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// indexed is what the operators' edge says of what a replica has cached.
type indexed struct {
	State     string
	Blocks    int
	Predicted int `json:"predicted_cached_tokens"`
	Reported  int `json:"reported_cached_tokens"`
}

func indexOf(t *testing.T, admin server) indexed {
	t.Helper()
	_, body := admin.status(t, http.MethodGet, "/admin/replicas", "")
	var report struct{ Replicas []struct{ Index indexed } }
	require.NoError(t, json.Unmarshal([]byte(body), &report), body)
	require.Len(t, report.Replicas, 1)
	return report.Replicas[0].Index
}

// awaitIndex waits until the only replica's index is as said.
func awaitIndex(t *testing.T, admin server, is func(indexed) bool) (found indexed) {
	t.Helper()
	require.Eventually(t, func() bool {
		found = indexOf(t, admin)
		return is(found)
	}, time.Minute, 10*time.Millisecond, "%+v", &found)
	return found
}

// completes asks for one token after a prompt of so many, of a number of its own, and returns how many were cached.
func (s *server) completes(t *testing.T, tokens, number int) int {
	t.Helper()
	ids := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("%d,", number), tokens), ",")
	status, body := s.status(t, http.MethodPost, "/v1/completions", `{"model":"plimsoll-sim","max_tokens":1,"prompt":[`+ids+`]}`)
	require.Equal(t, http.StatusOK, status, body)
	var answer struct {
		Usage struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body), &answer))
	return answer.Usage.Details.Cached
}

// TestServeKnowsWhatAnEngineCaches, over sockets: from its events in either form and direction, or from what was sent there.
func TestServeKnowsWhatAnEngineCaches(t *testing.T) {
	port := freePorts(t, 1)[0]
	for name, c := range map[string]struct {
		sim     []string
		replica string
		state   string // once it has served
	}{
		"asked":               {nil, "", "live"},
		"arrays":              {[]string{"--kv-events", "array"}, "", "live"},
		"the engine connects": {[]string{"--kv-events-connect", "127.0.0.1:" + port}, ",events-bind=tcp://127.0.0.1:" + port, "live"},
		"none":                {[]string{"--kv-events", "off"}, "", "approximate"},
		"not listened to":     {nil, ",events=off", "approximate"},
	} {
		t.Run(name, func(t *testing.T) {
			sim := launch(t, "sim", append([]string{"--profile", "tiny", "--speed", "10"}, c.sim...)...)
			operators := freePorts(t, 1)[0]
			s := start(t, "--replica", "vllm="+sim.url+c.replica, "--tokenizer", modelDir, "--admin-listen", "127.0.0.1:"+operators)
			s.awaitLog(t, `"to":"ready"`)
			admin := server{url: "http://127.0.0.1:" + operators}

			// An engine that connects out loses what it says before it has: ask until something is heard.
			before, asked := indexed{}, 0
			for ; before.Blocks == 0; asked++ {
				s.completes(t, 33, 600+asked)
				for until := time.Now().Add(time.Second); before.Blocks == 0 && time.Now().Before(until); {
					before = indexOf(t, admin)
				}
			}
			require.Zero(t, s.completes(t, 161, 400))
			// These ten come in one batch, and behind whatever was still on its way of what was asked before.
			after := awaitIndex(t, admin, func(x indexed) bool { return x.Blocks >= before.Blocks+10 })
			require.LessOrEqual(t, after.Blocks, 2*asked+10)
			require.Zero(t, after.Blocks%2)
			require.Equal(t, 160, s.completes(t, 161, 400))
			awaitIndex(t, admin, func(x indexed) bool { return x.Predicted == 160 && x.Reported == 160 })
			if c.state == "approximate" {
				require.Equal(t, c.state, indexOf(t, admin).State)
				return
			}
			status, _ := sim.status(t, http.MethodPost, "/reset_prefix_cache", "")
			require.Equal(t, http.StatusOK, status)
			require.Zero(t, s.completes(t, 33, 500), "the engine says it with its next step")
			awaitIndex(t, admin, func(x indexed) bool { return x.State == c.state && x.Blocks == 2 })
			require.Zero(t, s.completes(t, 161, 400))
			awaitIndex(t, admin, func(x indexed) bool { return x.Blocks == 12 && x.Predicted == 160 && x.Reported == 160 })
		})
	}
}
