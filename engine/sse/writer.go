package sse

import (
	"bytes"
	"errors"
	"io"
	"strings"
)

// ErrLineBreak says that what was to be written holds \n or \r and would break its frame. JSON never does: its encoders
// escape both.
var ErrLineBreak = errors.New("sse: content with a line break")

// Writer writes events, each with one call of the underlying Write. It neither flushes nor keeps alive: the owner of
// the connection does.
type Writer struct {
	dst io.Writer
	buf []byte
}

// NewWriter writes events to dst.
func NewWriter(dst io.Writer) *Writer {
	return &Writer{dst: dst}
}

// Data writes an event without a name.
func (w *Writer) Data(payload []byte) error { return w.Event("", payload) }

// Event writes an event; an empty name is left out. It returns [ErrLineBreak], with nothing written, if name or
// payload holds a line break, else the error of the underlying Write.
func (w *Writer) Event(name string, payload []byte) error {
	frame, err := AppendEvent(w.buf[:0], name, payload)
	return w.write(frame, err)
}

// Comment writes a comment, which every reader passes over: a sign that the connection lives.
func (w *Writer) Comment(text string) error {
	frame, err := AppendComment(w.buf[:0], text)
	return w.write(frame, err)
}

func (w *Writer) write(frame []byte, err error) error {
	w.buf = frame
	if err != nil {
		return err
	}
	_, err = w.dst.Write(frame)
	return err
}

// AppendEvent appends an event's frame to dst, for callers that send several frames in one write. With [ErrLineBreak] it
// returns dst as it was.
func AppendEvent(dst []byte, name string, payload []byte) ([]byte, error) {
	if strings.ContainsAny(name, "\r\n") || bytes.IndexByte(payload, '\n') >= 0 || bytes.IndexByte(payload, '\r') >= 0 {
		return dst, ErrLineBreak
	}
	if name != "" {
		dst = append(append(append(dst, "event: "...), name...), '\n')
	}
	dst = append(append(dst, "data: "...), payload...)
	return append(dst, "\n\n"...), nil
}

// AppendComment appends a comment's frame to dst. With [ErrLineBreak] it returns dst as it was.
func AppendComment(dst []byte, text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") {
		return dst, ErrLineBreak
	}
	return append(append(append(dst, ": "...), text...), "\n\n"...), nil
}
