//go:build e2e

package llamacpp

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/chaos"
	"plimsoll/testbench/e2e/rig"
)

// TestChaos has plimsoll chaos break two real servers with the tiny model, which it starts itself: one is killed and comes
// back, the other is stopped, and both lose their connections. Nobody knows what they should say, so that what is judged is
// that each answer comes whole, that nothing is left of it, and that nobody is asked again who has failed.
func TestChaos(t *testing.T) {
	require.NoError(t, exec.CommandContext(t.Context(), "./engine.sh", "tiny").Run())
	script, err := filepath.Abs("engine.sh")
	require.NoError(t, err)
	tokenizer, err := filepath.Abs(filepath.Join("..", "vllm", "tiny-tokenizer"))
	require.NoError(t, err)
	engines := make([]map[string]any, 2)
	for i := range engines {
		port := rig.FreePort(t)
		engines[i] = map[string]any{
			"kind": "llamacpp", "url": "http://127.0.0.1:" + port, "options": []string{"capacity-tokens=172032"},
			"command": []string{script, "run-tiny", port},
		}
	}
	folder := t.TempDir()
	plan, record, logs := filepath.Join(folder, "plan.yaml"), filepath.Join(folder, "result.json"), filepath.Join(folder, "log")
	text, err := json.Marshal(map[string]any{ // JSON is YAML
		"name": "real", "warm": "2s", "duration": "20s", "settle": "60s",
		"fleet": map[string]any{"tokenizer": tokenizer, "slots": 224, "real": engines, "serve": []string{"--resume-wait", "2m"}},
		"traffic": map[string]any{
			"streams": 24, "prompt-tokens": []int{256, 384}, "output-tokens": []int{80, 200},
			"mix": map[string]int{"greedy": 4, "whole": 1, "seeded": 1, "unseeded": 1},
		},
		"faults": map[string]any{"at": []map[string]any{
			{"at": "0s", "kind": "kill", "engine": 0, "back": "500ms"},
			{"at": "8s", "kind": "stop", "engine": 1, "for": "3s"},
			{"at": "14s", "kind": "cut", "engine": 0},
			{"at": "17s", "kind": "cut", "engine": 1},
		}},
		"bounds": map[string]any{"hit": 10},
	})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(plan, text, 0o600))
	binary := filepath.Join("..", "..", "..", "bin", "plimsoll")
	out, err := exec.CommandContext(t.Context(), binary, "chaos", "--plan", plan, "--json", record, "--logs", logs).CombinedOutput()
	t.Logf("%s", out)
	var exit *exec.ExitError
	require.True(t, err == nil || errors.As(err, &exit) && exit.ExitCode() == 1, "%v", err)

	text, err = os.ReadFile(record)
	require.NoError(t, err)
	var result chaos.Result
	require.NoError(t, json.Unmarshal(text, &result))
	held := map[string]chaos.Verdict{}
	for _, v := range result.Verdicts {
		held[v.Name] = v
	}
	for _, name := range []string{"outcome", "zero", "exclusion", "panics", "floor", "amplification", "live"} {
		require.Contains(t, held, name)
		require.True(t, held[name].Held, "%s: %s", name, held[name].Detail)
	}
	require.Len(t, result.Faults, 4)
	for i, kind := range []chaos.Kind{chaos.Kill, chaos.Stop, chaos.Cut, chaos.Cut} {
		require.Equal(t, kind, result.Faults[i].Kind)
		require.Empty(t, result.Faults[i].Error)
		require.Positive(t, result.Faults[i].Under, "%s struck nobody", kind)
	}
	require.Positive(t, result.End.Resumed)
}
