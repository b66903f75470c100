package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// Every package says what it is for in doc.go; a small tool of one file says it there.
func TestEveryPackageHasADoc(t *testing.T) {
	files, documented := map[string]int{}, map[string]bool{}
	for _, s := range sources(t) {
		files[s.dir]++
		if s.file.Doc != nil && (path.Base(s.name) == "doc.go" || s.file.Name.Name == "main") {
			documented[s.dir] = true
		}
	}
	for dir := range files {
		if !documented[dir] {
			t.Errorf("%s has no doc.go that says what the package is for, who calls it and who owns its state", dir)
		}
	}
}

func TestPackagesAreNounsOfTheDomain(t *testing.T) {
	banned := []string{"types", "common", "util", "utils", "helpers", "models", "manager", "misc", "base", "internal"}
	for _, s := range sources(t) {
		if slices.Contains(banned, path.Base(s.dir)) {
			t.Errorf("%s: name the package after what it holds", s.dir)
		}
		if strings.Count(s.dir, "/") > 3 {
			t.Errorf("%s lies too deep", s.dir)
		}
	}
}

// A reader keeps a file and a function in view. The numbers are where that ends, not what to aim at.
func TestFilesAndFunctionsAreReadable(t *testing.T) {
	const fileLines, functionLines = 600, 90
	for _, s := range sources(t) {
		if n := s.pos.Position(s.file.FileEnd).Line; n > fileLines {
			t.Errorf("%s has %d lines: more than one concept", s.name, n)
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := s.pos.Position(f.End()).Line - s.pos.Position(f.Pos()).Line + 1; n > functionLines {
				t.Errorf("%s: %s has %d lines", s.line(f), f.Name.Name, n)
			}
			if f.Name.Name == "init" && f.Recv == nil {
				t.Errorf("%s: no init: what a package needs is made by its New", s.line(f))
			}
		}
	}
}

// pure says whether a file is a decision or a machine: time and chance are arguments there, and nothing runs beside it.
// The lint (forbidigo) forbids it the clock and the global random source; the goroutine is forbidden here.
func pure(s source) bool {
	return s.room == "scoring" || s.dir == "engine/sim" || strings.HasPrefix(path.Base(s.name), "machine") ||
		s.dir == "cluster/membership" || s.dir == "cluster/replication"
}

func TestPureCodeStartsNothing(t *testing.T) {
	files := 0
	for _, s := range sources(t) {
		if !pure(s) {
			continue
		}
		files++
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: pure code starts no goroutine", s.line(n))
			case *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
				t.Errorf("%s: pure code waits for nobody: no channels", s.line(n))
			}
			return true
		})
	}
	if files == 0 {
		t.Error("no pure file was found")
	}
}

// HTTP is served at the edge and by test doubles, and nowhere else.
func TestHTTPIsServedAtTheEdgeOnly(t *testing.T) {
	handlers := 0
	for _, s := range sources(t) {
		edge := strings.HasPrefix(s.dir, "actors/ingress") || strings.HasPrefix(s.dir, "actors/admin") || s.room == "testbench"
		ast.Inspect(s.file, func(n ast.Node) bool {
			x, ok := n.(*ast.SelectorExpr)
			if !ok || x.Sel.Name != "ResponseWriter" {
				return true
			}
			if pkg, ok := x.X.(*ast.Ident); ok && pkg.Name == "http" {
				handlers++
				if !edge {
					t.Errorf("%s: HTTP handlers belong in actors/ingress", s.line(n))
				}
			}
			return true
		})
	}
	if handlers == 0 {
		t.Error("no handler was found")
	}
}

// The command wires the rooms: what decides something lies in one of them, where it can be tested and used without the
// command line.
func TestTheCommandOnlyWires(t *testing.T) {
	for _, s := range sources(t) {
		if s.room != "cmd" {
			continue
		}
		for _, spec := range s.file.Imports {
			for _, banned := range []string{`"sync"`, `"sync/atomic"`, `"net/http/httputil"`} {
				if spec.Path.Value == banned {
					t.Errorf("%s imports %s: the command only wires", s.name, banned)
				}
			}
		}
	}
}
