package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// switchPath is the package that says which plant is sown, as the woven files import it. It stands in the overlay alone.
const (
	switchPath = "scoring/sown"
	switchText = `// Package sown says which planted bug is there.
package sown

import "os"

// Plant is its name; empty: none.
var Plant = os.Getenv("` + sownEnv + `")
`
	sownEnv = "SOWN"
)

// weave applies all patches to the files below root and returns these files as they are built, by their paths below root.
func weave(root string, patches []Patch) (map[string][]byte, error) {
	byFile := map[string][]int{}
	for n := range patches {
		for _, h := range patches[n].Hunks {
			if !slices.Contains(byFile[h.File], n) {
				byFile[h.File] = append(byFile[h.File], n)
			}
		}
	}
	out := map[string][]byte{filepath.Join(switchPath, "sown.go"): []byte(switchText)}
	for file, which := range byFile {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		f, err := openFile(file, text)
		if err != nil {
			return nil, err
		}
		for _, n := range which {
			if err := f.plant(n, &patches[n]); err != nil {
				return nil, fmt.Errorf("%q: %w", patches[n].Name, err)
			}
		}
		if out[file], err = f.woven(); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return out, nil
}

// sourceFile is a file that patches are woven into.
type sourceFile struct {
	name    string
	text    []byte
	tree    *ast.File
	set     *token.FileSet
	inserts []insert
	added   []byte
}

// insert is text to be put at a place of the file.
type insert struct {
	at   int
	text string
}

func openFile(name string, text []byte) (*sourceFile, error) {
	f := &sourceFile{name: name, text: text, set: token.NewFileSet()}
	var err error
	f.tree, err = parser.ParseFile(f.set, name, text, 0)
	return f, err
}

func (f *sourceFile) offset(p token.Pos) int { return f.set.Position(p).Offset }

// change is a hunk in a function.
type change struct {
	from, to int
	text     string
}

// plant adds the functions as a patch has them, and has the present ones go there if it is sown.
func (f *sourceFile) plant(number int, p *Patch) error {
	changes := map[*ast.FuncDecl][]change{}
	var order []*ast.FuncDecl
	for _, h := range p.Hunks {
		if h.File != f.name {
			continue
		}
		if n := bytes.Count(f.text, []byte(h.Old)); n != 1 {
			return fmt.Errorf("%s: its old text stands there %d times: bring the patch up to date", f.name, n)
		}
		from := bytes.Index(f.text, []byte(h.Old))
		c := change{from, from + len(h.Old), h.New}
		fn := f.around(c)
		if fn == nil {
			return fmt.Errorf("%s: its old text is not inside one function", f.name)
		}
		if changes[fn] == nil {
			order = append(order, fn)
		}
		changes[fn] = append(changes[fn], c)
	}
	for _, fn := range order {
		if err := f.turn(number, p.Name, fn, changes[fn]); err != nil {
			return err
		}
	}
	return nil
}

// around is the function inside whose body a change lies.
func (f *sourceFile) around(c change) *ast.FuncDecl {
	for _, d := range f.tree.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil && f.offset(fn.Body.Lbrace) < c.from && c.to <= f.offset(fn.Body.Rbrace) {
			return fn
		}
	}
	return nil
}

// turn adds a planted copy of a function, and the way there.
func (f *sourceFile) turn(number int, plant string, fn *ast.FuncDecl, changes []change) error {
	name := fmt.Sprintf("%s_sown%d", fn.Name.Name, number)
	call, err := forward(fn, name)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", f.name, fn.Name.Name, err)
	}
	f.inserts = append(f.inserts, insert{f.offset(fn.Body.Lbrace) + 1, fmt.Sprintf("\nif sown.Plant == %q { %s }\n", plant, call)})

	slices.SortFunc(changes, func(a, b change) int { return a.from - b.from })
	nameAt := f.offset(fn.Name.Pos())
	copied := append([]byte("\n\n"), f.text[f.offset(fn.Pos()):nameAt]...)
	copied = append(copied, name...)
	at := nameAt + len(fn.Name.Name)
	for _, c := range changes {
		copied = append(append(copied, f.text[at:c.from]...), c.text...)
		at = c.to
	}
	f.added = append(f.added, append(copied, f.text[at:f.offset(fn.End())]...)...)
	return nil
}

// forward is the call of the planted copy with what the function was called with.
func forward(fn *ast.FuncDecl, name string) (string, error) {
	var args []string
	for _, field := range fn.Type.Params.List {
		if len(field.Names) == 0 {
			return "", errors.New("a parameter without a name cannot be handed on")
		}
		for _, n := range field.Names {
			if n.Name == "_" {
				return "", errors.New("a parameter without a name cannot be handed on")
			}
			arg := n.Name
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				arg += "..."
			}
			args = append(args, arg)
		}
	}
	call := name + "(" + strings.Join(args, ", ") + ")"
	if fn.Recv != nil {
		names := fn.Recv.List[0].Names
		if len(names) == 0 || names[0].Name == "_" {
			return "", errors.New("a receiver without a name cannot be handed on")
		}
		call = names[0].Name + "." + call
	}
	if fn.Type.Results == nil {
		return call + "; return", nil
	}
	return "return " + call, nil
}

// woven is the file with all that was planted.
func (f *sourceFile) woven() ([]byte, error) {
	f.inserts = append(f.inserts, insert{f.offset(f.tree.Name.End()), "\nimport \"plimsoll/" + switchPath + "\"\n"})
	slices.SortStableFunc(f.inserts, func(a, b insert) int { return a.at - b.at })
	var out []byte
	at := 0
	for _, i := range f.inserts {
		out = append(append(out, f.text[at:i.at]...), i.text...)
		at = i.at
	}
	return format.Source(append(append(out, f.text[at:]...), f.added...))
}
