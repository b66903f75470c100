package sse

import (
	"bytes"
	"fmt"
	"io"
)

// Limits bounds what a Reader holds in memory.
type Limits struct {
	LineBytes  int // longest line, its end not counted
	EventBytes int // longest data of one event, over all its data lines
}

// DefaultLimits lets frames pass that repeat a prompt of a million tokens.
func DefaultLimits() Limits {
	return Limits{LineBytes: 16 << 20, EventBytes: 16 << 20}
}

// Event is one event of a stream.
type Event struct {
	Name string // the event field; "" where there is none (the standard calls that "message")
	Data []byte // data lines joined by \n; valid until the next call of Next
	ID   string // the last id field up to here
}

// LimitError says that a line or an event is longer than its limit. The stream cannot be read any further.
type LimitError struct {
	What  string // "line" or "event"
	Bytes int    // the limit
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("sse: %s longer than %d bytes", e.What, e.Bytes)
}

// firstBufferBytes holds most frames of a token stream whole.
const firstBufferBytes = 4096

// emptyReadsMax bounds how often a source may return neither bytes nor an error before it counts as broken.
const emptyReadsMax = 100

// Reader splits a byte stream into events.
type Reader struct {
	src    io.Reader
	limits Limits

	buf      []byte // buf[head:] is read and not yet consumed
	head     int
	scanned  int   // buf[head:scanned] holds no line end
	err      error // what the source ended with, once it has
	started  bool  // the first line, and a byte order mark with it, is behind
	skipLF   bool  // the last line ended in \r: a \n right after it belongs to it
	comments uint64

	data     []byte // data lines of the event being read, each with its \n
	hasData  bool
	name     string
	lastName string // the name of the last event that had one, kept so that repeating it allocates nothing
	id       string
}

// NewReader reads events from src.
func NewReader(src io.Reader, limits Limits) *Reader {
	return &Reader{src: src, limits: limits}
}

// Comments returns how many comment lines were passed over so far. They show that the peer's connection is alive, not
// that its work goes on.
func (r *Reader) Comments() uint64 { return r.comments }

// Next returns the next event. It returns io.EOF at a clean end, whatever other error the source ended with
// unchanged (io.ErrUnexpectedEOF for a body cut inside a chunk), or a [*LimitError]. Errors are final.
func (r *Reader) Next() (Event, error) {
	r.data, r.hasData, r.name = r.data[:0], false, ""
	for {
		line, err := r.line()
		if err != nil {
			return Event{}, err
		}
		if len(line) > 0 {
			if err := r.field(line); err != nil {
				return Event{}, err
			}
			continue
		}
		if r.hasData {
			return Event{Name: r.name, Data: r.data[:len(r.data)-1], ID: r.id}, nil
		}
		r.name = ""
	}
}

// field takes one line that is not empty. Fields that the standard does not know, and retry, are passed over.
func (r *Reader) field(line []byte) error {
	key, value, _ := bytes.Cut(line, []byte{':'})
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(key) {
	case "":
		r.comments++
	case "data":
		if len(r.data)+len(value) > r.limits.EventBytes {
			r.err = &LimitError{What: "event", Bytes: r.limits.EventBytes}
			r.buf, r.head, r.scanned = nil, 0, 0
			return r.err
		}
		r.data = append(append(r.data, value...), '\n')
		r.hasData = true
	case "event":
		if r.lastName != string(value) {
			r.lastName = string(value)
		}
		r.name = r.lastName
	case "id":
		if r.id != string(value) && bytes.IndexByte(value, 0) < 0 {
			r.id = string(value)
		}
	}
	return nil
}

// line returns the next line without its end (\n, \r\n or \r). A line that the end of the stream cuts is none.
func (r *Reader) line() ([]byte, error) {
	for {
		if r.skipLF && r.head < len(r.buf) {
			if r.buf[r.head] == '\n' {
				r.head++
			}
			r.skipLF = false
			r.scanned = r.head
		}
		if at := lineEnd(r.buf[r.scanned:]); at >= 0 {
			end := r.scanned + at
			line := r.buf[r.head:end]
			r.skipLF = r.buf[end] == '\r'
			r.head, r.scanned = end+1, end+1
			if len(line) > r.limits.LineBytes+r.markBytes(line) {
				return nil, r.tooLong()
			}
			line = line[r.markBytes(line):]
			r.started = true
			return line, nil
		}
		r.scanned = len(r.buf)
		if len(r.buf)-r.head > r.limits.LineBytes+len(byteOrderMark) {
			return nil, r.tooLong()
		}
		if r.err != nil {
			return nil, r.err
		}
		r.fill()
	}
}

const byteOrderMark = "\xef\xbb\xbf"

// markBytes returns how many bytes at the start of line are the stream's byte order mark.
func (r *Reader) markBytes(line []byte) int {
	if !r.started && bytes.HasPrefix(line, []byte(byteOrderMark)) {
		return len(byteOrderMark)
	}
	return 0
}

func (r *Reader) tooLong() error {
	r.err = &LimitError{What: "line", Bytes: r.limits.LineBytes}
	r.buf, r.head, r.scanned = nil, 0, 0
	return r.err
}

// lineEnd returns the place of the first \n or \r in b, or -1.
func lineEnd(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf >= 0 {
		b = b[:lf]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

// fill reads once more from the source, after making room.
func (r *Reader) fill() {
	switch {
	case r.buf == nil:
		r.buf = make([]byte, 0, firstBufferBytes)
	case r.head == len(r.buf):
		r.buf, r.head, r.scanned = r.buf[:0], 0, 0
	case len(r.buf) == cap(r.buf) && r.head >= cap(r.buf)/2:
		n := copy(r.buf, r.buf[r.head:])
		r.buf, r.scanned, r.head = r.buf[:n], r.scanned-r.head, 0
	case len(r.buf) == cap(r.buf):
		grown := make([]byte, len(r.buf)-r.head, 2*cap(r.buf))
		copy(grown, r.buf[r.head:])
		r.buf, r.scanned, r.head = grown, r.scanned-r.head, 0
	}
	for range emptyReadsMax {
		n, err := r.src.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+n]
		if err != nil {
			r.err = err
			return
		}
		if n > 0 {
			return
		}
	}
	r.err = io.ErrNoProgress
}
