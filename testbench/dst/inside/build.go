package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// build makes the program with all patches in it, below dir, and returns its path.
func build(ctx context.Context, root, dir string, patches []Patch) (string, error) {
	files, err := weave(root, patches)
	if err != nil {
		return "", err
	}
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	n := 0
	for name, text := range files {
		copied := filepath.Join(dir, fmt.Sprintf("%d.go", n))
		n++
		if err := os.WriteFile(copied, text, 0o600); err != nil {
			return "", err
		}
		overlay.Replace[filepath.Join(root, name)] = copied
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, text, 0o600); err != nil {
		return "", err
	}
	program := filepath.Join(dir, "inside")
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay", list, "-o", program, "./testbench/dst/inside") //nolint:gosec // our own paths
	cmd.Dir = root
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the patched code does not build: %w\n%s", err, said)
	}
	return program, nil
}

// repository is the folder of the repository that the program runs in.
func repository() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", errors.New("run this inside the repository")
		}
		dir = above
	}
	return "", err
}
