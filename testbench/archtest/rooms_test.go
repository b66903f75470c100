package archtest

import (
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "plimsoll/"

// mayImport lists, per room, the other rooms it may import.
var mayImport = map[string][]string{
	"scoring":   {},
	"tokenizer": {},
	"engine":    {"scoring"},
	"cluster":   {"scoring"},
	"actors":    {"scoring", "tokenizer", "engine", "cluster"},
	"testbench": {"scoring", "tokenizer", "engine", "cluster", "actors"},
	"cmd":       {"scoring", "tokenizer", "engine", "cluster", "actors", "testbench"},
}

func TestRooms(t *testing.T) {
	for _, s := range sources(t) {
		if !slices.Contains(keys(mayImport), s.room) {
			t.Errorf("%s lies in no room: the rooms are %v", s.name, keys(mayImport))
		}
		for _, spec := range s.file.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			dep, ours := strings.CutPrefix(imp, module)
			to, _, _ := strings.Cut(dep, "/")
			if ours && to != s.room && !slices.Contains(mayImport[s.room], to) {
				t.Errorf("%s imports %s: %s may import only %v", s.name, dep, s.room, mayImport[s.room])
			}
		}
	}
}

func keys(m map[string][]string) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// What proves the product is no part of it: flags of package testing would show in plimsoll --help, and test doubles have
// no business in a server.
func TestTheBinaryLinksNothingOfTests(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "../../cmd/plimsoll").Output()
	require.NoError(t, err)
	deps := strings.Fields(string(out))
	require.Contains(t, deps, module+"cmd/plimsoll")
	for _, dep := range deps {
		for _, banned := range []string{"testing", "github.com/stretchr/testify", "pgregory.net/rapid", "go.uber.org/goleak", module + "testbench/shared"} {
			if dep == banned || strings.HasPrefix(dep, banned+"/") {
				t.Errorf("cmd/plimsoll links %s", dep)
			}
		}
	}
}
