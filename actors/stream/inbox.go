package stream

import "sync"

// inbox takes messages of actors without ever blocking them. What it holds is bounded by the protocol: a few answers of
// the router, one restart at a time.
type inbox struct {
	mu       sync.Mutex
	messages []any
	closed   bool
	wake     chan struct{} // capacity 1
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// put adds a message; false says that nobody reads any more and the message is the caller's to deal with.
func (b *inbox) put(message any) bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	b.messages = append(b.messages, message)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return true
}

// close refuses what comes from now on and returns what had come.
func (b *inbox) close() []any {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.messages
	b.messages, b.closed = nil, true
	return taken
}

func (b *inbox) take() []any {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.messages
	b.messages = nil
	return taken
}
