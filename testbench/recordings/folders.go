package recordings

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/shared"
)

// Own returns the folder of the sessions that the repository holds. What it holds is known, so that tests may say how much of it
// there is to compare.
func Own(tb testing.TB) string {
	tb.Helper()
	return filepath.Join(shared.Repository(tb), "testbench", "recordings", "testdata")
}

// Folders returns Own and, where it is there, the shared folder, whose sessions may be any.
func Folders(tb testing.TB) []string {
	tb.Helper()
	folders := []string{Own(tb)}
	if dir, ok := shared.Find(tb); ok {
		folders = append(folders, filepath.Join(dir, "testdata", "kv-events"))
	}
	return folders
}

// Glob returns the files of all Folders that match. Each folder has at least one.
func Glob(tb testing.TB, pattern string) []string {
	tb.Helper()
	var out []string
	for _, folder := range Folders(tb) {
		names, err := filepath.Glob(filepath.Join(folder, pattern))
		require.NoError(tb, err)
		require.NotEmpty(tb, names, "%s in %s", pattern, folder)
		out = append(out, names...)
	}
	return out
}
