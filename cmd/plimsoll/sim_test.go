package main

import (
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/stretchr/testify/require"

	"plimsoll/engine/process"
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

// As a vLLM without --shutdown-timeout: not a byte more, no new connection, until the drain time is over.
func TestSimHangsOnTerm(t *testing.T) {
	s := launch(t, "sim", "--profile", "a10-8b", "--drain-timeout", "300ms", "--on-term", "hang", "--overhead", "5ms")
	res := s.call(t, "POST", "/v1/completions", `{"prompt":"Hello","max_tokens":10000,"ignore_eos":true,"stream":true}`)
	defer res.Body.Close() //nolint:errcheck // only read from
	s.signal(t, syscall.SIGTERM)
	s.awaitLog(t, "shutting down")
	rest, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Less(t, strings.Count(string(rest), "data: "), 10_000, "as many were asked for")
	require.Zero(t, s.exit(t))
}

// Who asks twice without a seed gets the same answer, and an engine that was made faulty breaks.
func TestSimEntropyAndFaults(t *testing.T) {
	s := launch(t, "sim", "--entropy", "7", "--faults", "on")
	const ask = `{"prompt":"Hello","max_tokens":20,"ignore_eos":true}`
	said := map[string]bool{}
	for range 3 {
		status, body := s.status(t, "POST", "/v1/completions", ask)
		require.Equal(t, 200, status)
		_, text, _ := strings.Cut(body, `"text":`)
		text, _, _ = strings.Cut(text, `,"logprobs"`)
		said[text] = true
	}
	require.Len(t, said, 1)
	status, _ := s.status(t, "PUT", "/faults", `{"status":503}`)
	require.Equal(t, 200, status)
	status, _ = s.status(t, "POST", "/v1/completions", ask)
	require.Equal(t, 503, status)
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

// Each replica publishes its events on ports of its own; a subscriber hears what a request stores.
func TestSimPublishesCacheEvents(t *testing.T) {
	ports := freePorts(t, 4)
	s := launch(t, "sim", "--replicas", "2", "--kv-events", "array", "--kv-events-port", ports[0], "--kv-events-topic", "kv@a")
	s.awaitLog(t, `"kv_events":"tcp://127.0.0.1:`+ports[2]) // the second one's; s.url is the first's
	sub := zmq4.NewSub(t.Context())
	defer sub.Close() //nolint:errcheck // only read from
	require.NoError(t, sub.SetOption(zmq4.OptionSubscribe, "kv@"))
	require.NoError(t, sub.Dial("tcp://127.0.0.1:"+ports[0]))
	status, body := s.status(t, "GET", "/kv_event_sources", "")
	require.Equal(t, 200, status)
	require.Contains(t, body, `"endpoint":"tcp://127.0.0.1:`+ports[0]+`","replay_endpoint":"tcp://127.0.0.1:`+ports[1]+`"`)
	// The subscription may come after a request: ask until one is heard.
	heard := make(chan zmq4.Msg, 1)
	go func() {
		m, err := sub.Recv()
		if err == nil {
			heard <- m
		}
	}()
	require.Eventually(t, func() bool {
		status, _ := s.status(t, "POST", "/v1/completions", `{"prompt":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16],"max_tokens":40,"ignore_eos":true}`)
		require.Equal(t, 200, status)
		return len(heard) > 0
	}, time.Minute, time.Millisecond)
	m := <-heard
	require.Len(t, m.Frames, 3)
	require.Equal(t, "kv@a", string(m.Frames[0]))
	require.Contains(t, string(m.Frames[2]), "BlockStored")
	require.NotContains(t, string(m.Frames[2]), "block_hashes", "an array has no keys")
	s.signal(t, syscall.SIGTERM)
	require.Zero(t, s.exit(t))
}

// What leaves a cache of 10 blocks comes back from the host.
func TestSimKeepsEvictedBlocksOnTheHost(t *testing.T) {
	for _, host := range [][]string{nil, {"--host-tokens", "1600"}} {
		s := launch(t, "sim", append([]string{"--profile", "tiny", "--capacity-tokens", "160"}, host...)...)
		var body string
		for _, first := range []int{1, 500, 1} {
			ids := make([]string, 120)
			for i := range ids {
				ids[i] = strconv.Itoa(first + i)
			}
			var status int
			status, body = s.status(t, "POST", "/v1/completions", `{"max_tokens":1,"prompt":[`+strings.Join(ids, ",")+`]}`)
			require.Equal(t, 200, status, body)
		}
		require.Equal(t, host != nil, strings.Contains(body, `"cached_tokens":112`), body)
	}
}

func TestSimWithoutCacheEvents(t *testing.T) {
	s := launch(t, "sim", "--kv-events", "off")
	status, body := s.status(t, "GET", "/kv_event_sources", "")
	require.Equal(t, 200, status)
	require.Equal(t, "{}", body)
}

// freePorts finds consecutive ports that nobody uses, and that nobody is given who does not ask for them by number.
func freePorts(t *testing.T, n int) []string {
	t.Helper()
	ports := process.NewPorts(rand.Uint64())
	for range 20 {
		first, err := ports.Take(t.Context())
		require.NoError(t, err)
		var names []string
		for port := first; len(names) < n; port++ {
			name := strconv.Itoa(port)
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", name))
			if err != nil {
				break
			}
			require.NoError(t, l.Close())
			names = append(names, name)
		}
		if len(names) == n {
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
		"no room for 2 replicas":    {"--kv-events-port", "65533", "--replicas", "2"},
		"not of the form HOST:PORT": {"--kv-events-connect", "tcp://localhost"},
		"for each of 2 replicas":    {"--kv-events-connect", "localhost:65535", "--replicas", "2"},
		"map, array, off":           {"--kv-events", "zmq"},
		"takes flags only, not \"x": {"x"},
	} {
		code, _, stderr := plimsoll(t, "", append([]string{"sim"}, args...)...)
		require.Equal(t, 2, code, "%v", args)
		require.Contains(t, stderr, want, "%v", args)
	}
}
