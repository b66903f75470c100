package shared

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"testing"
)

// EnvRoot names the environment variable that says where the shared data lies.
const EnvRoot = "PLIMSOLL_SHARED"

// Dir returns the folder of the shared data: the environment's PLIMSOLL_SHARED, else ../shared beside the repository.
// Where the folder is absent the test is skipped with a message that says how to run it.
func Dir(tb testing.TB) string {
	tb.Helper()
	dir := os.Getenv(EnvRoot)
	if dir == "" {
		_, file, _, ok := runtime.Caller(0)
		if !ok {
			tb.Fatal("the place of the source is unknown; set " + EnvRoot)
		}
		dir = filepath.Join(filepath.Dir(file), "..", "..", "..", "shared")
	}
	if _, err := os.Stat(dir); err != nil {
		tb.Skipf("the shared data is not at %s: set %s to its folder to run this test", dir, EnvRoot)
	}
	return dir
}

// Path returns a path below the shared folder; the test is skipped where it is absent.
func Path(tb testing.TB, elem ...string) string {
	tb.Helper()
	path := filepath.Join(append([]string{Dir(tb)}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		tb.Skipf("the shared data has no %s", filepath.Join(elem...))
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
