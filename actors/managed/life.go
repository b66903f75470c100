package managed

import (
	"context"
	"strconv"
	"sync"

	"plimsoll/engine"
)

// life is one start of the process, as those see it who call the engine.
type life struct {
	start  int
	engine engine.Engine // the adapter for this start's port
	over   func()        // ends the calls that only watch the engine
	onOver func(f func()) (stop func() bool)

	mu      sync.Mutex
	calls   int
	retired bool // takes no new calls; the last one to end closes the adapter
	closed  bool
	// The adapter's own evidence of an incarnation: the first that it gave, and the last. An answer may give none.
	first, last string
}

func newLife(start int, adapter engine.Engine) *life {
	ctx, over := context.WithCancel(context.Background())
	return &life{start: start, engine: adapter, over: over, onOver: func(f func()) func() bool { return context.AfterFunc(ctx, f) }}
}

// watching returns a context for a call that is of no use when the life is over.
func (l *life) watching(ctx context.Context) (call context.Context, done func()) {
	call, cancel := context.WithCancel(ctx)
	stop := l.onOver(cancel)
	return call, func() {
		stop()
		cancel()
	}
}

// enter begins a call, false if the life is over. Who was let in calls leave.
func (l *life) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retired {
		return false
	}
	l.calls++
	return true
}

func (l *life) leave() {
	l.mu.Lock()
	l.calls--
	l.mu.Unlock()
	l.closeIfUnused()
}

// retire lets no new call in. Answers that run end when the process has closed their connections.
func (l *life) retire() {
	l.over()
	l.mu.Lock()
	l.retired = true
	l.mu.Unlock()
	l.closeIfUnused()
}

func (l *life) closeIfUnused() {
	l.mu.Lock()
	unused := l.retired && l.calls == 0 && !l.closed
	l.closed = l.closed || unused
	l.mu.Unlock()
	if unused {
		_ = l.engine.Close() // nothing of it is in use any more
	}
}

// cut ends the running calls too.
func (l *life) cut() error {
	l.over()
	l.mu.Lock()
	closed := l.closed
	l.retired, l.closed = true, true
	l.mu.Unlock()
	if closed {
		return nil
	}
	return l.engine.Close()
}

// evidence of the incarnation is the start's number, and what the adapter sees change within it: a command may restart its
// server by itself.
func (l *life) evidence(own string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if own != "" {
		l.last = own
		if l.first == "" {
			l.first = own
		}
	}
	text := l.name()
	if l.last != l.first {
		text += ":" + l.last
	}
	return text
}

func (l *life) name() string { return "start:" + strconv.Itoa(l.start) }

// owns says whether an incarnation's evidence is of this life as it is now.
func (l *life) owns(evidence string) bool { return evidence == l.evidence("") }
