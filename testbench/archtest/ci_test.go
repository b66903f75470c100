package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCIDemandsTheSharedData: .ci/run ends before it begins where the data is absent, and hands its folder on where it is there.
func TestCIDemandsTheSharedData(t *testing.T) {
	script, err := os.ReadFile("../../.ci/run")
	require.NoError(t, err)
	above := t.TempDir()
	clone, tools := filepath.Join(above, "clone"), filepath.Join(above, "tools")
	require.NoError(t, os.MkdirAll(filepath.Join(clone, ".ci"), 0o755)) //nolint:gosec // a clone is readable
	require.NoError(t, os.Mkdir(tools, 0o755))                          //nolint:gosec // so are tools
	run := filepath.Join(clone, ".ci", "run")
	require.NoError(t, os.WriteFile(run, script, 0o755))                                                                              //nolint:gosec // it is to run
	require.NoError(t, os.WriteFile(filepath.Join(tools, "make"), []byte("#!/bin/sh\necho made: $* with $PLIMSOLL_SHARED\n"), 0o755)) //nolint:gosec // so is this

	start := func(env ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), run)
		cmd.Dir = above
		cmd.Env = append([]string{"PATH=" + tools + ":" + os.Getenv("PATH")}, env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}

	out, err := start()
	require.Error(t, err)
	require.Contains(t, out, "no shared test data at ../shared")
	require.NotContains(t, out, "made")

	out, err = start("PLIMSOLL_SHARED=/nowhere")
	require.Error(t, err)
	require.Contains(t, out, "no shared test data at /nowhere")

	data := filepath.Join(above, "shared")
	require.NoError(t, os.MkdirAll(filepath.Join(data, "testdata"), 0o755)) //nolint:gosec // data is readable
	out, err = start()
	require.NoError(t, err, "%s", out)
	require.Contains(t, out, "made: lint test test-clients with "+data)
}
