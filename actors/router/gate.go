package router

import "sync"

// Gate limits how many inputs the whole node tokenizes at once. It is safe for concurrent use and never blocks: who finds
// it closed is called when a slot is free again.
type Gate struct {
	mu      sync.Mutex
	free    int
	waiters map[string]func() // by router: each waits at most once
}

// NewGate returns a gate of that many slots.
func NewGate(slots int) *Gate { return &Gate{free: slots, waiters: map[string]func(){}} }

// TryAcquire takes a slot. If there is none, wake is called once after the next release; it must not block.
func (g *Gate) TryAcquire(who string, wake func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.free == 0 {
		g.waiters[who] = wake
		return false
	}
	g.free--
	return true
}

// Release gives a slot back and wakes all who wait: one of them gets it.
func (g *Gate) Release() {
	g.mu.Lock()
	g.free++
	waiters := g.waiters
	g.waiters = map[string]func(){}
	g.mu.Unlock()
	for _, wake := range waiters {
		wake()
	}
}

// Free is the number of free slots.
func (g *Gate) Free() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.free
}
