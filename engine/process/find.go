package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Find says what is wrong with a command that cannot be started here with these values, as a guard would find out: it has no such
// folder to work in, or there is no such program. A {port} that is part of either is known only at a start.
func (c Command) Find(v Values) error {
	if strings.Contains(c.Folder, portMark) || strings.Contains(c.Words[0], portMark) {
		return nil
	}
	c = c.Fill(v)
	if c.Folder != "" {
		if info, err := os.Stat(c.Folder); err != nil || !info.IsDir() {
			return fmt.Errorf("there is no folder %s to work in", c.Folder)
		}
	}
	program := c.Words[0]
	if strings.ContainsRune(program, filepath.Separator) {
		if _, err := exec.LookPath(c.inFolder(program)); err != nil {
			return fmt.Errorf("there is no program %s: %w", program, err)
		}
		return nil
	}
	for _, folder := range filepath.SplitList(c.path()) {
		if folder == "" {
			continue // a guard does not look into the folder that it works in
		}
		if _, err := exec.LookPath(c.inFolder(filepath.Join(folder, program))); err == nil {
			return nil
		}
	}
	return fmt.Errorf("there is no program %s in the folders of PATH: install it, or write where it is", program)
}

// inFolder is a file as the engine finds it, which works in its folder.
func (c Command) inFolder(file string) string {
	if filepath.IsAbs(file) || c.Folder == "" {
		return file
	}
	return filepath.Join(c.Folder, file)
}

// path is where programs are looked for: the command's own PATH, or ours.
func (c Command) path() string {
	path := os.Getenv("PATH")
	for _, variable := range c.Environment {
		if value, ok := strings.CutPrefix(variable, "PATH="); ok {
			path = value
		}
	}
	return path
}
