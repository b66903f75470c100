package main

import (
	"embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"plimsoll/testbench/dst"
)

//go:embed patches/*.txt
var stored embed.FS

// Patch is one planted bug.
type Patch struct {
	Name    string
	Catches dst.Checker
	Seed    uint64 // from which on it is found at once
	Hunks   []Hunk
}

// Hunk is one place of it.
type Hunk struct {
	File     string // from the repository's root
	Old, New string
}

// Patches reads all that are stored, in the order of their files.
func Patches() ([]Patch, error) {
	files, err := stored.ReadDir("patches")
	if err != nil {
		return nil, err
	}
	var out []Patch
	for _, f := range files {
		text, err := stored.ReadFile(path.Join("patches", f.Name()))
		if err != nil {
			return nil, err
		}
		p, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		if slices.ContainsFunc(out, func(o Patch) bool { return o.Name == p.Name }) {
			return nil, fmt.Errorf("%s: another patch is named %q, too", f.Name(), p.Name)
		}
		out = append(out, p)
	}
	return out, nil
}

// parse reads one.
func parse(text string) (p Patch, err error) {
	var in *string
	file := ""
	for n, line := range strings.SplitAfter(text, "\n") {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch {
		case key == "--- old":
			p.Hunks = append(p.Hunks, Hunk{File: file})
			in = &p.Hunks[len(p.Hunks)-1].Old
		case key == "--- new" && len(p.Hunks) > 0:
			in = &p.Hunks[len(p.Hunks)-1].New
		case key == "file":
			in, file = nil, value
		case in != nil:
			*in += line
		case key == "name":
			p.Name = value
		case key == "catches":
			p.Catches, err = checkerOf(value)
		case key == "seed":
			p.Seed, err = strconv.ParseUint(value, 10, 64)
		case strings.TrimSpace(line) != "":
			err = fmt.Errorf("%q is nothing that a patch says", line)
		}
		if err != nil {
			return p, fmt.Errorf("line %d: %w", n+1, err)
		}
	}
	for i := range p.Hunks {
		h := &p.Hunks[i]
		h.Old, h.New = strings.TrimSuffix(h.Old, "\n"), strings.TrimSuffix(h.New, "\n")
		if h.File == "" || h.Old == "" || h.Old == h.New {
			return p, errors.New("a patch changes something in a file")
		}
	}
	if p.Name == "" || len(p.Hunks) == 0 {
		return p, errors.New("a patch has a name and changes something")
	}
	return p, nil
}

func checkerOf(name string) (dst.Checker, error) {
	for c := range dst.NumCheckers {
		if c.String() == name {
			return c, nil
		}
	}
	return 0, fmt.Errorf("no checker is named %q", name)
}
