package record

import (
	"errors"
	"fmt"
	"os"
	"strconv"
)

// File is a file that is put aside when it has grown: FILE becomes FILE.1, in place of the one before it, and a new FILE begins. So
// there is at most twice its size. Not safe for concurrent use.
type File struct {
	name string
	most int64
	size int64
	file *os.File
}

// OpenFile begins a file. A recording that is there already, FILE with its FILE.1, is kept: it becomes the first of FILE.run1,
// FILE.run2 and so on that is free, with FILE.run1.1.
func OpenFile(name string, most int64) (*File, error) {
	if most < 1 {
		return nil, fmt.Errorf("record: a file of %d bytes holds nothing", most)
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("record: %s is no regular file", name)
	}
	if err := keep(name); err != nil {
		return nil, err
	}
	f := &File{name: name, most: most}
	return f, f.begin()
}

// keep puts a recording out of the way of the next one.
func keep(name string) error {
	var parts []string // of the recording
	for _, part := range []string{"", ".1"} {
		if info, err := os.Stat(name + part); err == nil && info.Size() > 0 {
			parts = append(parts, part)
		}
	}
	if parts == nil {
		return nil
	}
	run := 1
	for taken(name+runMark+strconv.Itoa(run)) || taken(name+runMark+strconv.Itoa(run)+".1") {
		run++
	}
	for _, part := range parts {
		if err := move(name+part, name+runMark+strconv.Itoa(run)+part); err != nil {
			return err
		}
	}
	return nil
}

// move gives a file a name that is free. A link takes nobody's place, as a renamed file would where another process was quicker; a
// file system without links renames.
func move(from, to string) error {
	switch err := os.Link(from, to); {
	case errors.Is(err, os.ErrExist):
		return err
	case err != nil:
		return os.Rename(from, to)
	}
	return os.Remove(from)
}

// runMark stands before the number of an earlier run's recording.
const runMark = ".run"

func taken(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// begin begins a file where there is none, or one of which nothing counts. It is appended to, so that whoever empties it leaves no hole.
func (f *File) begin() (err error) {
	f.size = 0
	f.file, err = os.OpenFile(f.name, os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
	return err
}

// Write writes a line, in a new file if this one would become too large. A line that fails is not there in part, if that can be helped.
func (f *File) Write(line []byte) (int, error) {
	if f.file == nil { // a new one could not be begun
		if err := f.begin(); err != nil {
			return 0, err
		}
	}
	if f.size > 0 && f.size+int64(len(line)) > f.most {
		if err := os.Rename(f.name, f.name+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, err // what is in it stays, and the next line tries again
		}
		err := f.file.Close()
		f.file = nil
		if err != nil {
			return 0, err
		}
		if err := f.begin(); err != nil {
			f.file = nil
			return 0, err
		}
	}
	n, err := f.file.Write(line)
	if err != nil {
		return n, errors.Join(err, f.takeBack(n))
	}
	f.size += int64(n)
	return n, nil
}

// takeBack takes away the last n bytes.
func (f *File) takeBack(n int) error {
	if n == 0 {
		return nil
	}
	info, err := f.file.Stat()
	if err != nil {
		return err
	}
	return f.file.Truncate(max(0, info.Size()-int64(n)))
}

// Close ends it.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
