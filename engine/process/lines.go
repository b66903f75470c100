package process

import (
	"bytes"
	"strings"
)

// LineBytes bounds a line of output; what is longer becomes several.
const LineBytes = 1024

// Lines is a writer that cuts what is written into lines and hands each to a function, without its end. It holds one line at
// most and belongs to one goroutine.
type Lines struct {
	line func(string)
	rest []byte
}

// NewLines returns one that hands lines to a function.
func NewLines(line func(string)) *Lines { return &Lines{line: line} }

// Write implements io.Writer. It never fails.
func (l *Lines) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		part, whole := p, end >= 0
		if whole {
			part = p[:end]
		}
		if room := LineBytes - len(l.rest); len(part) > room {
			part, whole = part[:room], true
			end = room - 1
		}
		l.rest = append(l.rest, part...)
		if !whole {
			break
		}
		l.Flush()
		p = p[end+1:]
	}
	return n, nil
}

// Flush hands out a last line that has no end.
func (l *Lines) Flush() {
	if len(l.rest) > 0 {
		l.line(strings.ToValidUTF8(strings.TrimRight(string(l.rest), "\r"), "\uFFFD"))
	}
	l.rest = l.rest[:0]
}

// Tail keeps the last lines. It belongs to one goroutine.
type Tail struct {
	most  int
	lines []string
}

// NewTail keeps as many lines as said.
func NewTail(most int) *Tail { return &Tail{most: most} }

// Add takes a line.
func (t *Tail) Add(line string) {
	if len(t.lines) == t.most {
		t.lines = append(t.lines[:0], t.lines[1:]...)
	}
	t.lines = append(t.lines, line)
}

// String returns the lines, the oldest first.
func (t *Tail) String() string { return strings.Join(t.lines, "\n") }
