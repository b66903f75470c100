package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// File is a trace that was opened. Who opened it closes it.
type File struct {
	Source
	io.Closer

	// Tick is how coarse the times are: requests that came within it may stand at its begin. 0: they are as they were.
	Tick time.Duration
}

// mooncakeTick is what most times of Mooncake's traces are rounded to.
const mooncakeTick = 3 * time.Second

// Open opens a trace: a generator by its name, with the seed, or a file, whose format it finds out: Azure's CSV by the name's
// end, Mooncake's by its hash_ids, else our own; .gz is decompressed.
func Open(name string, seed uint64) (*File, error) {
	if slices.Contains(Generators(), name) {
		s, err := Generate(name, seed)
		return &File{Source: s, Closer: io.NopCloser(nil)}, err
	}
	file, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) && !strings.ContainsAny(name, "./") {
		return nil, fmt.Errorf("trace: %q is neither a file nor one of the generators %s", name, strings.Join(Generators(), ", "))
	}
	if err != nil {
		return nil, err
	}
	opened, err := format(file, name)
	if err != nil {
		_ = file.Close() // it was only read from
		return nil, fmt.Errorf("trace: %s: %w", name, err)
	}
	opened.Closer = file
	return opened, nil
}

// byteOrderMark is what spreadsheets and some editors write before a text.
const byteOrderMark = "\ufeff"

// format finds out what a file holds.
func format(file io.Reader, name string) (*File, error) {
	text := bufio.NewReaderSize(file, 64<<10)
	if plain, ok := strings.CutSuffix(name, ".gz"); ok {
		unpacked, err := gzip.NewReader(text)
		if err != nil {
			return nil, err
		}
		name, text = plain, bufio.NewReaderSize(unpacked, 64<<10)
	}
	if mark, _ := text.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = text.Discard(len(byteOrderMark)) // it is there
	}
	if strings.HasSuffix(name, ".csv") {
		return &File{Source: Azure(text)}, nil
	}
	begin, err := text.Peek(4 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	first, _, _ := bytes.Cut(bytes.TrimSpace(begin), []byte("\n"))
	if bytes.Contains(first, []byte(`"hash_ids"`)) {
		return &File{Source: Mooncake(text), Tick: mooncakeTick}, nil
	}
	return &File{Source: Own(text)}, nil
}
