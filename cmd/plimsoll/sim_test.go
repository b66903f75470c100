package main

import (
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSimServesTheEnginesAPI(t *testing.T) {
	s := launch(t, "sim", "--profile", "tiny", "--speed", "10", "--capacity-tokens", "1600", "--context", "1000", "--model", "org/m")
	status, body := s.status(t, "GET", "/v1/models", "")
	require.Equal(t, 200, status)
	require.Contains(t, body, `"id":"org/m"`)
	require.Contains(t, body, `"max_model_len":1000`)
	status, body = s.status(t, "GET", "/metrics", "")
	require.Equal(t, 200, status)
	require.Contains(t, body, `num_gpu_blocks="101"`)
	status, body = s.status(t, "POST", "/v1/completions", `{"prompt":"Hello","max_tokens":3,"return_token_ids":true}`)
	require.Equal(t, 200, status)
	require.Contains(t, body, `"completion_tokens":3`)
	status, _ = s.status(t, "POST", "/inference/v1/generate", `{"token_ids":[1],"sampling_params":{"max_tokens":1}}`)
	require.Equal(t, 200, status)
	s.signal(t, syscall.SIGTERM)
	require.Zero(t, s.exit(t))
}

func TestSimDrains(t *testing.T) {
	s := launch(t, "sim", "--profile", "a10-8b", "--drain-timeout", "30ms")
	res := s.call(t, "POST", "/v1/completions", `{"prompt":"Hello","max_tokens":10000,"ignore_eos":true,"stream":true}`)
	defer res.Body.Close() //nolint:errcheck // only read from
	s.signal(t, syscall.SIGTERM)
	rest, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Contains(t, string(rest), `"type":"InternalServerError"`)
	require.True(t, strings.HasSuffix(string(rest), "data: [DONE]\n\n"))
	require.Zero(t, s.exit(t))
}

// A replica each on the ports that follow, with a cache of its own; nobody listens before the cold start is over.
func TestSimReplicasAndColdStart(t *testing.T) {
	first := freePorts(t, 3)
	began := time.Now()
	s := launch(t, "sim", "--listen", "127.0.0.1:"+first[0], "--replicas", "3", "--cold-start", "300ms", "--generate", "off")
	require.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond)
	for _, port := range first[1:] {
		s.awaitLog(t, ":"+port)
	}
	for _, port := range first {
		s.url = "http://127.0.0.1:" + port
		status, _ := s.status(t, "POST", "/v1/completions", `{"prompt":"Hello","max_tokens":1}`)
		require.Equal(t, 200, status)
		_, metrics := s.status(t, "GET", "/metrics", "")
		require.Contains(t, metrics, `vllm:generation_tokens_total{engine="0",model_name="plimsoll-sim"} 1`)
		status, _ = s.status(t, "POST", "/inference/v1/generate", `{}`)
		require.Equal(t, 403, status)
	}
}

// freePorts finds consecutive ports that nobody uses.
func freePorts(t *testing.T, n int) []string {
	t.Helper()
	for range 20 {
		first, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		base := first.Addr().(*net.TCPAddr).Port
		ports := []net.Listener{first}
		for i := 1; i < n; i++ {
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: base + i}).String())
			if err != nil {
				break
			}
			ports = append(ports, l)
		}
		names := make([]string, len(ports))
		for i, l := range ports {
			_, names[i], _ = net.SplitHostPort(l.Addr().String())
			require.NoError(t, l.Close())
		}
		if len(ports) == n {
			return names
		}
	}
	require.Fail(t, "no consecutive free ports")
	return nil
}

func TestMistakesOfSim(t *testing.T) {
	for want, args := range map[string][]string{
		"--speed":                   {"--speed", "0"},
		"is no factor":              {"--speed", "fast"},
		"h100-8b, a10-8b, tiny":     {"--profile", "h200"},
		"the last port is 65535":    {"--listen", "127.0.0.1:65535", "--replicas", "2"},
		"must be at least 1":        {"--replicas", "0"},
		"--listen":                  {"--listen", "8100"},
		"at least 2 is needed":      {"--capacity-tokens", "3"},
		"takes flags only, not \"x": {"x"},
	} {
		code, _, stderr := plimsoll(t, "", append([]string{"sim"}, args...)...)
		require.Equal(t, 2, code, "%v", args)
		require.Contains(t, stderr, want, "%v", args)
	}
}
