package shared

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

// EnvRoot names the environment variable that says where the shared data lies.
const EnvRoot = "PLIMSOLL_SHARED"

// Dir returns the folder of the shared data: the environment's PLIMSOLL_SHARED, else ../shared beside the repository. Where
// nothing says where it lies and it is not there either, the test is skipped with a message that says how to run it. Where
// PLIMSOLL_SHARED names a folder that is not there, the test fails: a mistyped path must not pass for a proof.
func Dir(tb testing.TB) string {
	tb.Helper()
	dir, ok := Find(tb)
	if !ok {
		tb.Skipf("the shared data is not at %s: set %s to its folder to run this test", dir, EnvRoot)
	}
	return dir
}

// Find is Dir for tests that have data of their own beside it: ok is false where Dir would skip.
func Find(tb testing.TB) (dir string, ok bool) {
	tb.Helper()
	dir, ok, err := locate(os.Getenv(EnvRoot), func() string { return filepath.Join(Repository(tb), "..", "shared") })
	if err != nil {
		tb.Fatal(err)
	}
	return dir, ok
}

// locate chooses the folder. That it is absent is an error where it was named.
func locate(named string, beside func() string) (dir string, ok bool, err error) {
	dir = named
	if dir == "" {
		dir = beside()
	}
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return dir, true, nil
	case named == "":
		return dir, false, nil
	case err == nil:
		err = errors.New("it is no folder")
	}
	return dir, false, fmt.Errorf("%s is %s, where no shared data is: name its folder, or unset it: %w", EnvRoot, dir, err)
}

// Repository returns the repository's folder, from any package's test.
func Repository(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		above := filepath.Dir(dir)
		if above == dir {
			tb.Fatal("the test runs outside the repository")
		}
		dir = above
	}
}

// Path returns a path below the shared folder. As with Glob, a folder that lacks it is a failure.
func Path(tb testing.TB, elem ...string) string {
	tb.Helper()
	path := filepath.Join(append([]string{Dir(tb)}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		tb.Fatalf("the shared data has no %s: %v", filepath.Join(elem...), err)
	}
	return path
}

// Glob returns the sorted files below the shared folder that match the pattern, at least one:
// an existing folder in which nothing matches is a failure, because a test that runs over no file proves nothing.
func Glob(tb testing.TB, pattern ...string) []string {
	tb.Helper()
	full := filepath.Join(append([]string{Dir(tb)}, pattern...)...)
	names, err := filepath.Glob(full)
	if err != nil {
		tb.Fatalf("%s: %v", full, err)
	}
	if len(names) == 0 {
		tb.Fatalf("no file matches %s", full)
	}
	sort.Strings(names)
	return names
}

// Open opens a file and decompresses it if its name ends in .gz. It is closed with the test.
func Open(tb testing.TB, name string) io.Reader {
	tb.Helper()
	f, err := os.Open(name)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.Close() })
	if !strings.HasSuffix(name, ".gz") {
		return f
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	return z
}

// Lines decodes a file of one JSON value a line (.jsonl or .jsonl.gz).
func Lines[T any](tb testing.TB, name string) []T {
	tb.Helper()
	var out []T
	dec := json.NewDecoder(bufio.NewReader(Open(tb, name)))
	for {
		var v T
		switch err := dec.Decode(&v); err {
		case nil:
			out = append(out, v)
		case io.EOF:
			return out
		default:
			tb.Fatalf("%s, value %d: %v", name, len(out)+1, err)
		}
	}
}
