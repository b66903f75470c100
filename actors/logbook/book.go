package logbook

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"time"
)

// Config bounds a book.
type Config struct {
	Bytes int           // of lines that wait for the reader
	Flush time.Duration // what Close gives the reader to take the rest
}

// DefaultConfig holds a second of a busy log, some thousand lines.
func DefaultConfig() Config { return Config{Bytes: 256 << 10, Flush: 2 * time.Second} }

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	if c.Bytes < 1 || c.Flush <= 0 {
		return errors.New("logbook: Bytes and Flush must be above 0")
	}
	return nil
}

// Cause says why a line was dropped.
type Cause uint8

const (
	Full    Cause = iota // the reader is behind, and there is no room for more
	Failed               // the reader is gone, or the file cannot be written
	Unended              // it waited when the process ended

	NumCauses
)

// String returns the label used in metrics.
func (c Cause) String() string {
	switch c {
	case Full:
		return "full"
	case Failed:
		return "failed"
	case Unended:
		return "unended"
	case NumCauses:
	}
	return "unknown"
}

// Deps are what a book works with. All are required.
type Deps struct {
	To io.Writer
	// Dropped hears of lines that nobody reads. It must not block nor log.
	Dropped func(cause Cause, lines int)
	// Missing writes the line, if any is wanted, that stands in the place of so many that are missing. The book's goroutine calls it.
	Missing func(to io.Writer, lines int)
}

// Book is a log's queue. Its methods are safe for concurrent use.
type Book struct {
	cfg  Config
	deps Deps

	more chan struct{} // has a value while there may be something to write
	done chan struct{} // closed when the goroutine has written the last line

	mu struct {
		sync.Mutex
		waiting []byte // whole lines
		lines   int    // of waiting
		missed  int    // lines that came after waiting was full
		closed  bool
	}
	// The goroutine's own: the buffer that it has taken, lines that are missing at this place of the log, and what says so.
	taken []byte
	lost  int
	mark  bytes.Buffer
}

// Open returns a book whose goroutine runs until Close.
func Open(cfg Config, deps Deps) (*Book, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.To == nil || deps.Dropped == nil || deps.Missing == nil {
		return nil, errors.New("logbook: To, Dropped and Missing are required")
	}
	b := &Book{cfg: cfg, deps: deps, more: make(chan struct{}, 1), done: make(chan struct{})}
	go b.run()
	return b, nil
}

// Write takes a line, or drops it. It always succeeds: a handler has nobody to tell.
func (b *Book) Write(line []byte) (int, error) {
	b.mu.Lock()
	closed, full := b.mu.closed, len(b.mu.waiting)+len(line) > b.cfg.Bytes
	switch {
	case closed:
		b.mu.Unlock()
		b.deps.Dropped(Unended, 1)
		return len(line), nil
	case full:
		b.mu.missed++
		b.mu.Unlock()
		b.deps.Dropped(Full, 1)
		return len(line), nil
	}
	b.mu.waiting = append(b.mu.waiting, line...)
	b.mu.lines++
	b.mu.Unlock()
	select {
	case b.more <- struct{}{}:
	default: // it is told already
	}
	return len(line), nil
}

// batch is what is written at once.
type batch struct {
	text   []byte
	lines  int
	missed int  // lines that came behind them and had no room
	last   bool // nothing will come any more
}

// take returns what waits. The buffer that was taken before is free again.
func (b *Book) take() batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := batch{b.mu.waiting, b.mu.lines, b.mu.missed, b.mu.closed}
	b.mu.waiting, b.mu.lines, b.mu.missed = b.taken[:0], 0, 0
	b.taken = t.text
	return t
}

// run writes until the book is closed and empty.
func (b *Book) run() {
	defer close(b.done)
	for range b.more {
		for {
			t := b.take()
			b.write(t)
			if t.lines > 0 {
				continue // more may have come meanwhile
			}
			if t.last {
				return
			}
			break
		}
	}
}

// write writes lines, with a line in the place of those that are missing before and behind them.
func (b *Book) write(t batch) {
	if t.lines == 0 && t.missed == 0 {
		return
	}
	b.admit()
	n, err := b.deps.To.Write(t.text)
	if err != nil {
		unread := t.lines - bytes.Count(t.text[:min(max(n, 0), len(t.text))], []byte{'\n'})
		b.lost += unread
		b.deps.Dropped(Failed, unread)
	}
	b.lost += t.missed
	if err == nil {
		b.admit()
	}
}

// admit says how many lines are missing here, if any are.
func (b *Book) admit() {
	if b.lost == 0 {
		return
	}
	b.mark.Reset()
	b.deps.Missing(&b.mark, b.lost)
	if _, err := b.deps.To.Write(b.mark.Bytes()); err == nil {
		b.lost = 0
	}
}

// Close gives the reader Config.Flush to take what waits. Lines that come later, and those that nobody has taken by then, are
// dropped.
func (b *Book) Close() {
	b.mu.Lock()
	b.mu.closed = true
	b.mu.Unlock()
	select {
	case b.more <- struct{}{}:
	default:
	}
	late := time.NewTimer(b.cfg.Flush)
	defer late.Stop()
	select {
	case <-b.done:
	case <-late.C:
		b.mu.Lock()
		lines := b.mu.lines
		b.mu.Unlock()
		b.deps.Dropped(Unended, lines)
	}
}
