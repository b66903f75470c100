package live

import (
	"sync"

	"plimsoll/engine"
)

// call is one running Generate: a mailbox that the loop fills and Generate empties. It holds no more than the request
// may generate.
type call struct {
	wake  chan struct{} // capacity 1: something was put or the call has ended
	ended chan struct{} // closed by the loop when the machine knows the request no more

	mu     sync.Mutex
	events []engine.Event // guarded by mu
	err    error          // guarded by mu; why the call ended without a finish
}

func newCall() *call {
	return &call{wake: make(chan struct{}, 1), ended: make(chan struct{})}
}

func (c *call) put(e engine.Event) {
	c.mu.Lock()
	c.events = append(c.events, e)
	c.mu.Unlock()
	c.notify()
}

// end is called once, by the loop; nothing is put after it.
func (c *call) end(err error) {
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
	close(c.ended)
	c.notify()
}

func (c *call) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// take empties the mailbox into a slice that the reader gives back, and tells why the call ended, if it failed.
func (c *call) take(empty []engine.Event) ([]engine.Event, error) {
	clear(empty)
	c.mu.Lock()
	defer c.mu.Unlock()
	events := c.events
	c.events = empty[:0]
	return events, c.err
}
