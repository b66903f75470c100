package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/admin"
	"plimsoll/actors/meter"
	"plimsoll/actors/stream"
	"plimsoll/scoring/queue"
)

// served runs a node in this process until the test ends and returns the URLs of its two ports once it is ready.
func served(t *testing.T, adjust func(*Config)) (api, operators string) {
	t.Helper()
	c := DefaultConfig()
	operatorsAt := "127.0.0.1:0"
	c.Listen, c.AdminListen = "127.0.0.1:0", &operatorsAt
	if adjust != nil {
		adjust(&c)
	}
	var out, errs bytes.Buffer
	m, err := meter.New(meter.DefaultConfig())
	require.NoError(t, err)
	n, err := startNode(c, terminal{
		in: strings.NewReader(""), out: &out, err: &errs, getenv: environment(nil), environ: func() []string { return nil },
	}, slog.New(slog.DiscardHandler), m)
	require.NoError(t, err)
	signals, ended := make(chan os.Signal, 1), make(chan error, 1)
	go func() { ended <- n.run(signals, nil) }()
	t.Cleanup(func() {
		signals <- syscall.SIGTERM
		require.NoError(t, <-ended)
	})
	api, operators = "http://"+n.listener.Addr().String(), "http://"+n.admin.listener.Addr().String()
	require.Eventually(t, func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api+"/ready", http.NoBody)
		if err != nil {
			return false
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		return res.Body.Close() == nil && res.StatusCode == http.StatusOK
	}, 30*time.Second, 5*time.Millisecond)
	return api, operators
}

// chats has a chat answered and returns its X-Request-Id.
func chats(t *testing.T, api, id string) string {
	t.Helper()
	body := `{"model":"plimsoll-sim","messages":[{"role":"user","content":"SECRET hello"}],"max_tokens":8}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, api+"/v1/chat/completions", strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	if id != "" {
		req.Header.Set("X-Request-Id", id)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close() //nolint:errcheck // only read from
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode, string(text))
	return res.Header.Get("X-Request-Id")
}

// On a busy machine a request may have to wait for what an idle one has at once: there are two decisions then.
var (
	done   = regexp.MustCompile(`(?m)^done: (held [^;]*; )?went to sim-`)
	sent   = regexp.MustCompile(`(?m)^(at once|after .*): dispatch$`)
	shadow = regexp.MustCompile(`(?m)^shadow round-robin, (at once|after .*): dispatch to sim-`)
	// table is that of a decision: its heading, and a row for each of four replicas.
	table = regexp.MustCompile(`(?m)^  replica +state .*\n( +sim-\d +(starting|warming|ready) .*\n){4}`)
)

func TestExplainOnARunningNode(t *testing.T) {
	api, operators := served(t, func(c *Config) {
		c.ShadowPolicies = []shadowPolicy{"round-robin"}
		c.SLOs = []SLOSpec{{Class: queue.Flex, SLO: stream.SLO{TTFT: new(time.Microsecond)}}}
	})
	require.Equal(t, "my//first.1", chats(t, api, "my//first.1"))
	given := chats(t, api, "")

	// What became of a request may be a moment later than its answer.
	explained := func(args ...string) string {
		code, out, errs := plimsoll(t, "", append([]string{"explain", "--admin", operators}, args...)...)
		require.Zero(t, code, errs)
		return out
	}
	for _, id := range []string{"my//first.1", given} {
		require.Eventually(t, func() bool { return done.MatchString(explained("--request", id)) }, 10*time.Second, 5*time.Millisecond)
		out := explained("--request", id)
		require.Contains(t, out, "request "+id+", plimsoll-sim, policy token-load, ")
		require.Regexp(t, sent, out)
		require.Contains(t, out, "predicted ")
		require.Contains(t, out, "came ")
		require.Regexp(t, shadow, out)
		require.NotContains(t, out, "SECRET")
		require.Equal(t, strings.Count(out, "\n  replica "), len(table.FindAllString(out, -1)), "four replicas each: %s", out)
		require.Regexp(t, table, out)
	}
	require.Contains(t, explained(), "request "+given+",", "the last one")
	require.Equal(t, 2, strings.Count(explained("--last", "5"), "policy token-load"))

	require.Contains(t, explained("--prompt", "hello", "--max-tokens", "5"), "would go to sim-")
	require.Contains(t, explained("--prompt", "hello", "--slo-ttft", "1us"), "would be refused (too late): the first token is expected after ")
	require.Contains(t, explained("--prompt", "hello", "--slo-tpot", "1us"), "would be refused (too slow): ")
	require.Contains(t, explained("--prompt", "hello", "--slo-ttft", "1h"), "would go to sim-")
	require.Contains(t, explained("--prompt", "hello", "--service-tier", "flex"), "would be refused (too late): ", "by what goes for that class")
	require.Contains(t, explained("--tokens", "1, 2,3", "--model", "plimsoll-sim"), "3 prompt tokens")
	file := filepath.Join(t.TempDir(), "chat.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"model":"plimsoll-sim","messages":[{"role":"user","content":"hi"}]}`), 0o600))
	require.Contains(t, explained("--body", file), "request (hypothetical), plimsoll-sim, ")
	var all admin.Decisions
	require.NoError(t, json.Unmarshal([]byte(explained("--last", "9", "--json")), &all))
	require.Len(t, all.Decisions, 2, "what was only asked is not among them")

	code, _, errs := plimsoll(t, "", "explain", "--admin", operators, "--request", "other")
	require.Equal(t, 1, code)
	require.Contains(t, errs, `nothing is remembered of a request "other"`)
	code, _, errs = plimsoll(t, `{"messages":`, "explain", "--admin", operators, "--body", "-")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "the body is not valid JSON")
}

func TestExplainSaysThatNothingIsRemembered(t *testing.T) {
	api, operators := served(t, func(c *Config) { c.Decisions = 0 })
	chats(t, api, "x")
	code, out, errs := plimsoll(t, "", "explain", "--admin", operators)
	require.Zero(t, code, errs)
	require.Contains(t, out, "--decisions")
}

func TestExplainExplainsMistakes(t *testing.T) {
	for want, args := range map[string][]string{
		"needs --admin URL":            {},
		"e.g. http://127.0.0.1:9090":   {"--admin", "127.0.0.1:9090"},
		"choose one of":                {"--admin", "http://x", "--request", "a", "--prompt", "b"},
		"go with --prompt or --tokens": {"--admin", "http://x", "--request", "a", "--max-tokens", "4"},
		"--service-tier go with":       {"--admin", "http://x", "--body", "x", "--service-tier", "flex"},
		"--slo-ttft goes with":         {"--admin", "http://x", "--slo-ttft", "1s"},
		"--slo-tpot must be positive":  {"--admin", "http://x", "--prompt", "b", "--slo-tpot", "0s"},
		"no token ID":                  {"--admin", "http://x", "--tokens", "1,b"},
		"--last must be at least 1":    {"--admin", "http://x", "--last", "0"},
		"--request is empty":           {"--admin", "http://x", "--request", ""},
		"no variable NONE":             {"--admin", "http://x", "--api-key-env", "NONE"},
		"--body: open none.json":       {"--admin", "http://x", "--body", "none.json"},
	} {
		code, _, errs := plimsoll(t, "", append([]string{"explain"}, args...)...)
		require.Equal(t, 2, code, args)
		require.Contains(t, errs, want)
	}
	code, _, errs := plimsoll(t, "", "explain", "--admin", "http://127.0.0.1:1")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "--admin-listen")
}

func TestShadowPoliciesAreChecked(t *testing.T) {
	code, _, errs := plimsoll(t, "", "serve", "--shadow-policy", "best")
	require.Equal(t, 2, code)
	require.Contains(t, errs, `unknown policy "best"`)
	code, _, errs = plimsoll(t, "", "serve", "--shadow-policy", "random", "--shadow-policy", "p2c", "--shadow-policy", "random")
	require.Equal(t, 2, code)
	require.Contains(t, errs, "--shadow-policy random is given twice")
}
