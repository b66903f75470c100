package record

import (
	"errors"
	"fmt"
	"os"
)

// File is a file that is put aside when it has grown: FILE becomes FILE.1, in place of the one before it, and a new FILE begins. So
// there is at most twice its size. Not safe for concurrent use.
type File struct {
	name string
	most int64
	size int64
	file *os.File
}

// OpenFile begins a file. One that is there already, and is not empty, is put aside: its times may be later than the new ones.
func OpenFile(name string, most int64) (*File, error) {
	if most < 1 {
		return nil, fmt.Errorf("record: a file of %d bytes holds nothing", most)
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("record: %s is no regular file", name)
	} else if err == nil && info.Size() > 0 {
		if err := os.Rename(name, name+".1"); err != nil {
			return nil, err
		}
	}
	f := &File{name: name, most: most}
	return f, f.begin()
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
