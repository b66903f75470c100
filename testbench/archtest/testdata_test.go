package archtest

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoTwoPackagesHoldTheSameData: a file of testdata belongs to one package; others read it there. A copy is changed alone.
func TestNoTwoPackagesHoldTheSameData(t *testing.T) {
	root := os.DirFS("../..")
	holders := map[[sha256.Size]byte]string{}
	walk(t, root, func(name string) {
		owner, _, ok := strings.Cut(name, "/testdata/")
		if !ok {
			return
		}
		text, err := fs.ReadFile(root, name)
		require.NoError(t, err)
		sum := sha256.Sum256(text)
		other, held := holders[sum]
		if !held {
			holders[sum] = name
		} else if before, _, _ := strings.Cut(other, "/testdata/"); before != owner {
			t.Errorf("%s and %s are the same: leave it to one package", other, name)
		}
	})
	require.NotEmpty(t, holders)
}

// ofBuild is how a page of figures says what they were measured of.
var ofBuild = regexp.MustCompile("of build [0-9a-f]{7,40}")

// TestFiguresSayOfWhichBuildTheyAre: a figure without its build can't be made again.
func TestFiguresSayOfWhichBuildTheyAre(t *testing.T) {
	root := os.DirFS("../..")
	seen := 0
	walk(t, root, func(name string) {
		if path.Base(name) != "RESULTS.md" {
			return
		}
		seen++
		text, err := fs.ReadFile(root, name)
		require.NoError(t, err)
		require.Regexp(t, ofBuild, string(text), "%s does not say of which build its figures are; the commands that make them print it", name)
	})
	require.Positive(t, seen)
}

// walk calls each for every file of the tree, but for what is hidden or built.
func walk(t *testing.T, root fs.FS, each func(name string)) {
	t.Helper()
	require.NoError(t, fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if d.IsDir() && name != "." && (base[0] == '.' || base == "node_modules" || base == "lib" || base == "bin") {
			return fs.SkipDir
		}
		if !d.IsDir() {
			each(name)
		}
		return nil
	}))
}
