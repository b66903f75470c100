package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// children are the living processes that a process has started, with their commands.
func children(t *testing.T, parent int) map[int]string {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	require.NoError(t, err)
	found := map[int]string{}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // a thread that has ended
		}
		for _, id := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(id)
			require.NoError(t, err)
			line, err := os.ReadFile("/proc/" + id + "/cmdline")
			if words := strings.Split(string(line), "\x00"); err == nil && runs(pid) && len(words) > 1 {
				found[pid] = words[1]
			}
		}
	}
	return found
}

// Whatever ends a run ends what it has started, an engine that is stopped too.
func TestAKilledChaosLeavesNobodyBehind(t *testing.T) {
	plan := filepath.Join(t.TempDir(), "long.yaml")
	require.NoError(t, os.WriteFile(plan, []byte(`
name: long
duration: 10m
fleet: {engines: 2, profile: tiny}
traffic: {streams: 2}
`), 0o600))
	cmd, out := chaosRun(t, "--plan", plan)
	var started map[int]string
	require.Eventually(t, func() bool {
		started = children(t, cmd.Process.Pid)
		counts := map[string]int{}
		for _, command := range started {
			counts[command]++
		}
		return counts["sim"] == 2 && counts["serve"] == 1
	}, time.Minute, 10*time.Millisecond, "%s", out)
	t.Cleanup(func() { // of what should be gone by then
		for pid := range started {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	for pid, command := range started {
		if command == "sim" {
			require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
			break
		}
	}
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	for pid, command := range started {
		require.Eventually(t, func() bool { return !runs(pid) }, time.Minute, 10*time.Millisecond, command)
	}
}
