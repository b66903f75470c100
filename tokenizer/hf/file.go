package hf

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxFileBytes bounds a tokenizer.json, decompressed. The largest known has 33 MB; the library takes less than 4 GiB.
const maxFileBytes = 256 << 20

// fileNames are the names under which a model's folder holds its tokenizer, in the order of preference.
func fileNames() []string { return []string{"tokenizer.json", "tokenizer.json.gz"} }

// Load reads a tokenizer.json or tokenizer.json.gz. Errors are [*FileError]: they name the file, and the place or the key.
func Load(path string) (*Tokenizer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &FileError{File: path, Err: pathless(err)}
	}
	defer f.Close() //nolint:errcheck // only read from
	return load(path, f)
}

// LoadDir finds the tokenizer in a model's folder; dir stands for the folder in errors, such as the path of an
// [os.DirFS]. Where there is none the error says what was looked for.
func LoadDir(fsys fs.FS, dir string) (*Tokenizer, error) {
	for _, name := range fileNames() {
		f, err := fsys.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		path := filepath.Join(dir, name)
		if err != nil {
			return nil, &FileError{File: path, Err: pathless(err)}
		}
		defer f.Close() //nolint:errcheck // only read from
		return load(path, f)
	}
	return nil, &FileError{File: dir, Err: fmt.Errorf("the folder has no tokenizer: looked for %s: %w", strings.Join(fileNames(), " and "), fs.ErrNotExist)}
}

// load reads a whole file, decompressing by its name.
func load(path string, r io.Reader) (*Tokenizer, error) {
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, &FileError{File: path, Err: err}
		}
		r = z
	}
	raw, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	if err != nil {
		return nil, &FileError{File: path, Err: pathless(err)}
	}
	if len(raw) > maxFileBytes {
		return nil, &FileError{File: path, Err: fmt.Errorf("is larger than %d bytes", maxFileBytes)}
	}
	return Parse(path, raw)
}

// pathless takes the operation and the path off an error of a file, which the [FileError] around it names.
func pathless(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
