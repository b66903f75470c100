package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/trial"
)

func TestReplayComparesPolicies(t *testing.T) {
	dir := t.TempDir()
	figures, page, samples := filepath.Join(dir, "r.json"), filepath.Join(dir, "r.html"), filepath.Join(dir, "s.jsonl")
	code, out, errs := plimsoll(t, "", "replay", "--trace", "shared-prompt", "--requests", "120", "--replicas", "2", "--speed", "2",
		"--policy", "p2c,round-robin", "--policy", "token-load", "--seeds", "2", "--seed", "7", "--json", figures, "--html", page, "--samples", samples)
	require.Zero(t, code, errs)
	require.Empty(t, errs, "no progress where nobody looks at a terminal")
	require.Contains(t, out, "shared-prompt, 120 requests")
	require.Equal(t, 1+3+2, strings.Count(out, "\n"))
	text, err := os.ReadFile(figures)
	require.NoError(t, err)
	var r trial.Report
	require.NoError(t, json.Unmarshal(text, &r))
	require.Equal(t, []string{"p2c", "round-robin", "token-load"}, r.Policies)
	require.Equal(t, []uint64{7, 8}, r.Seeds)
	require.Len(t, r.Runs, 6)
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(html), "<svg")
	lines, err := os.ReadFile(samples)
	require.NoError(t, err)
	require.Equal(t, 3*120, strings.Count(string(lines), "\n"))
}

// TestReplayRehearsesWeights: they lean the policies that weigh something, and no others, and the report says so.
func TestReplayRehearsesWeights(t *testing.T) {
	run := func(weights ...string) (string, trial.Report) {
		figures := filepath.Join(t.TempDir(), "r.json")
		code, out, errs := plimsoll(t, "", append([]string{
			"replay", "--trace", "agents", "--requests", "200", "--replicas", "3", "--speed", "4", "--policy", "token-load,round-robin", "--json", figures,
		}, weights...)...)
		require.Zero(t, code, errs)
		text, err := os.ReadFile(figures)
		require.NoError(t, err)
		var r trial.Report
		require.NoError(t, json.Unmarshal(text, &r))
		return out, r
	}
	out, plain := run()
	require.NotContains(t, out, "weights")
	out, leaned := run("--weight-reuse", "0.01", "--weight-ttft", "4")
	require.Contains(t, out, "weights: reuse 0.01, TTFT 4")
	require.Equal(t, trial.Weights{Reuse: 0.01, TTFT: 4}, *leaned.Weights)
	require.NotEqual(t, plain.Runs[0].Digest, leaned.Runs[0].Digest, "token-load")
	require.Equal(t, plain.Runs[1].Digest, leaned.Runs[1].Digest, "round-robin")
}

func TestReplayExplainsMistakes(t *testing.T) {
	for want, args := range map[string][]string{
		"unknown policy \"fast\"":              {"--policy", "fast"},
		"neither a file nor one of":            {"--trace", "agent", "--speed", "1"},
		"unknown admission":                    {"--admission", "hopeful"},
		"either a load or a speed":             {"--load", "0.5", "--speed", "1"},
		"do you mean --policy":                 {"--policies", "p2c"},
		"--policy is for simulated fleets":     {"--target", "http://127.0.0.1:1", "--policy", "p2c"},
		"--weight-reuse is for simulated":      {"--target", "http://127.0.0.1:1", "--weight-reuse", "2"},
		"--weight-ttft is for simulated":       {"--target", "http://127.0.0.1:1", "--weight-ttft", "1"},
		"--weight-ttft must be above 0":        {"--weight-ttft", "0"},
		"--weight-reuse must be above 0":       {"--weight-reuse", "1001"},
		"is no address":                        {"--target", "127.0.0.1:1"},
		"the environment has no PLIMSOLL_NONE": {"--target", "http://127.0.0.1:1", "--api-key-env", "PLIMSOLL_NONE"},
		"1 to 999 can be simulated":            {"--replicas", "0"},
		"--slots must be at least 1":           {"--slots", "0"},
		"--capacity-tokens must be at least 1": {"--capacity-tokens", "-1"},
	} {
		code, _, errs := plimsoll(t, "", append([]string{"replay", "--requests", "20"}, args...)...)
		require.NotZero(t, code, args)
		require.Contains(t, errs, want)
	}
}
