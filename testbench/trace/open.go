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
)

// Open opens a trace: a generator by its name, with the seed, or a file, whose format it finds out: Azure's CSV by the name's
// end, Mooncake's by its hash_ids, else our own; .gz is decompressed. Who opened it closes it.
func Open(name string, seed uint64) (Source, io.Closer, error) {
	if slices.Contains(Generators(), name) {
		s, err := Generate(name, seed)
		return s, io.NopCloser(nil), err
	}
	file, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) && !strings.ContainsAny(name, "./") {
		return nil, nil, fmt.Errorf("trace: %q is neither a file nor one of the generators %s", name, strings.Join(Generators(), ", "))
	}
	if err != nil {
		return nil, nil, err
	}
	source, err := format(file, name)
	if err != nil {
		_ = file.Close() // it was only read from
		return nil, nil, fmt.Errorf("trace: %s: %w", name, err)
	}
	return source, file, nil
}

// format finds out what a file holds.
func format(file io.Reader, name string) (Source, error) {
	text := bufio.NewReaderSize(file, 64<<10)
	if plain, ok := strings.CutSuffix(name, ".gz"); ok {
		unpacked, err := gzip.NewReader(text)
		if err != nil {
			return nil, err
		}
		name, text = plain, bufio.NewReaderSize(unpacked, 64<<10)
	}
	if strings.HasSuffix(name, ".csv") {
		return Azure(text), nil
	}
	begin, err := text.Peek(4 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	first, _, _ := bytes.Cut(bytes.TrimSpace(begin), []byte("\n"))
	if bytes.Contains(first, []byte(`"hash_ids"`)) {
		return Mooncake(text), nil
	}
	return Own(text), nil
}
