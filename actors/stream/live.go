package stream

import (
	"context"
	"sync"
)

// Live is the register of running calls of a node. It is safe for concurrent use.
type Live struct {
	mu    sync.Mutex
	calls map[*Call]struct{}
	empty chan struct{} // closed when the last call leaves; nil if nobody waits
	all   sync.WaitGroup
}

// NewLive returns an empty register.
func NewLive() *Live { return &Live{calls: map[*Call]struct{}{}} }

func (l *Live) enter(c *Call) (done func()) {
	l.mu.Lock()
	l.calls[c] = struct{}{}
	l.mu.Unlock()
	l.all.Add(1)
	return l.all.Done
}

// leave takes a call out: what is told to all from now on does not reach it.
func (l *Live) leave(c *Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, c)
	if len(l.calls) == 0 && l.empty != nil {
		close(l.empty)
		l.empty = nil
	}
}

// Len is the number of running calls.
func (l *Live) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls)
}

// Tell gives a message to every running call and returns how many got it.
func (l *Live) Tell(message any) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.calls {
		c.Tell(message)
	}
	return len(l.calls)
}

// TellModel gives a message to every running call of a model.
func (l *Live) TellModel(model string, message any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.calls {
		if c.Request.Model == model {
			c.Tell(message)
		}
	}
}

// Drained waits until no call runs or ctx ends.
func (l *Live) Drained(ctx context.Context) error {
	for {
		l.mu.Lock()
		if len(l.calls) == 0 {
			l.mu.Unlock()
			return nil
		}
		if l.empty == nil {
			l.empty = make(chan struct{})
		}
		empty := l.empty
		l.mu.Unlock()
		select {
		case <-empty:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Wait returns when every call's goroutine has ended. Nothing may be started meanwhile.
func (l *Live) Wait() { l.all.Wait() }
