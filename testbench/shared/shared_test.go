package shared

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAFolderThatIsNamedMustBeThere: only where nobody says where the data lies may its tests be skipped.
func TestAFolderThatIsNamedMustBeThere(t *testing.T) {
	there, absent := t.TempDir(), filepath.Join(t.TempDir(), "absent")
	file := filepath.Join(there, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	beside := func(dir string) func() string { return func() string { return dir } }

	dir, ok, err := locate(there, beside(absent))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, there, dir)

	dir, ok, err = locate("", beside(there))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, there, dir)

	dir, ok, err = locate("", beside(absent))
	require.NoError(t, err)
	require.False(t, ok)
	require.Equal(t, absent, dir)

	for _, wrong := range []string{absent, file} {
		_, ok, err = locate(wrong, beside(there))
		require.ErrorContains(t, err, EnvRoot+" is "+wrong)
		require.False(t, ok)
	}
}
