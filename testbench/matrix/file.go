package matrix

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
)

// openLines opens a file to add to, and makes it and its folder if they are not there. A last line that was cut off is taken
// away.
func openLines(name string) (*lines, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := file.Truncate(int64(bytes.LastIndexByte(text, '\n') + 1)); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &lines{file: file}, nil
}
