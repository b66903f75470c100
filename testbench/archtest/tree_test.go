package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// source is one Go file of the product, tests left out.
type source struct {
	name string // slash-separated, from the root of the tree
	dir  string
	room string // first part of dir
	file *ast.File
	pos  *token.FileSet
}

// line says where a node stands.
func (s source) line(n ast.Node) token.Position {
	p := s.pos.Position(n.Pos())
	p.Filename = s.name
	return p
}

// sources parses the module's Go files. Folders that the Go tool passes over, and modules of their own, are left out.
func sources(t *testing.T) []source {
	t.Helper()
	root := os.DirFS("../..")
	var found []source
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			base := path.Base(name)
			if name != "." && (base[0] == '.' || base[0] == '_' || base == "testdata" || base == "node_modules") {
				return fs.SkipDir
			}
			if _, err := fs.Stat(root, path.Join(name, "go.mod")); err == nil && name != "." {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		s := source{name: name, dir: path.Dir(name), pos: token.NewFileSet()}
		s.room, _, _ = strings.Cut(s.dir, "/")
		s.file, err = parser.ParseFile(s.pos, name, text, parser.ParseComments)
		found = append(found, s)
		return err
	})
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return found
}
