package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"
)

// lineMax bounds a line: 16 MiB name a million blocks.
const lineMax = 16 << 20

// lines reads a trace of one request a line.
type lines struct {
	scan   *bufio.Scanner
	number int // of the line read last, from 1 on
	parse  func(line []byte) (Request, error)
	given  uint64
	last   time.Duration
}

func newLines(r io.Reader, parse func([]byte) (Request, error)) *lines {
	scan := bufio.NewScanner(r)
	scan.Buffer(make([]byte, 0, 64<<10), lineMax)
	return &lines{scan: scan, parse: parse}
}

// Next implements [Source].
func (l *lines) Next() (Request, error) {
	for l.scan.Scan() {
		l.number++
		text := bytes.TrimSpace(l.scan.Bytes())
		if len(text) == 0 {
			continue
		}
		r, err := l.parse(text)
		if err == nil {
			err = follows(&r, &l.given, &l.last)
		}
		if err != nil {
			return Request{}, fmt.Errorf("trace: line %d: %w", l.number, err)
		}
		return r, nil
	}
	if err := l.scan.Err(); err != nil {
		return Request{}, fmt.Errorf("trace: after line %d: %w", l.number, err)
	}
	return Request{}, io.EOF
}

// follows checks a request, its order too, and numbers it.
func follows(r *Request, given *uint64, last *time.Duration) error {
	if err := r.check(); err != nil {
		return err
	}
	if *given > 0 && r.At < *last {
		return errors.New("it comes before the one in front of it")
	}
	r.Number, *last = *given, r.At
	*given++
	return nil
}
