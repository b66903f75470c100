package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// LogFile is a file of bounded size to which an engine's output goes. When it is full, and at each Rotate, what it holds
// moves to FILE.1, in whose place that of the time before was. It belongs to one goroutine.
type LogFile struct {
	path  string
	most  int64
	file  *os.File
	bytes int64
}

// OpenLogFile opens a file of at most that many bytes, to append to it. It is made if it is not there, its folder is not.
func OpenLogFile(path string, most int64) (*LogFile, error) {
	l := &LogFile{path: path, most: most}
	return l, l.open()
}

func (l *LogFile) open() error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("the engine's log cannot be opened: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("the engine's log cannot be read: %w", err), file.Close())
	}
	l.file, l.bytes = file, info.Size()
	return nil
}

// Rotate begins anew, unless there is nothing in it.
func (l *LogFile) Rotate() error {
	if l.bytes == 0 {
		return nil
	}
	closed, moved := l.file.Close(), os.Rename(l.path, l.path+".1")
	if errors.Is(moved, fs.ErrNotExist) {
		moved = nil // somebody has taken it away
	}
	return errors.Join(closed, moved, l.open())
}

// Write implements io.Writer.
func (l *LogFile) Write(p []byte) (int, error) {
	if l.bytes > 0 && l.bytes+int64(len(p)) > l.most {
		if err := l.Rotate(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.bytes += int64(n)
	return n, err
}

// Close closes the file.
func (l *LogFile) Close() error { return l.file.Close() }
