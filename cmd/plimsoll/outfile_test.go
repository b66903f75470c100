package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOutputsAreCheckedFirst: what cannot be written at the end of a long run ends it before its begin, and the check changes nothing.
func TestOutputsAreCheckedFirst(t *testing.T) {
	dir := t.TempDir()
	fresh, old := filepath.Join(dir, "fresh"), filepath.Join(dir, "old")
	require.NoError(t, os.WriteFile(old, []byte("of the last run"), 0o600))
	check := func(files map[string]string) error {
		return checkOutputs(func(flag string) string { return files[flag] }, "json", "html")
	}
	require.NoError(t, check(nil))
	require.NoError(t, check(map[string]string{"json": fresh, "html": old}))
	require.NoError(t, check(map[string]string{"json": os.DevNull}))
	require.NoFileExists(t, fresh)
	kept, err := os.ReadFile(old)
	require.NoError(t, err)
	require.Equal(t, "of the last run", string(kept))

	require.ErrorContains(t, check(map[string]string{"html": filepath.Join(dir, "none", "x")}), "--html cannot be written")
	require.ErrorContains(t, check(map[string]string{"json": dir}), "--json cannot be written")
	require.ErrorContains(t, check(map[string]string{"json": fresh, "html": fresh}), "--json and --html name the same file")

	for _, command := range []string{"replay", "chaos"} {
		code, out, errs := plimsoll(t, "", command, "--html", dir)
		require.Equal(t, 2, code)
		require.Empty(t, out)
		require.Contains(t, errs, "--html cannot be written")
	}
}
