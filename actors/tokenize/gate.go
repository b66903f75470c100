package tokenize

import "sync"

// Gate limits how many steps of each lane the whole node runs at once. It is safe for concurrent use and never blocks: who finds
// a lane closed is called when a slot of it is free again.
type Gate struct {
	n int

	mu      sync.Mutex
	free    [NumLanes]int
	waiters [NumLanes]map[string]func() // by pool: each waits at most once a lane
}

// NewGate returns a gate for n short inputs at once.
func NewGate(n int) *Gate {
	g := &Gate{n: n, free: slots(n)}
	for i := range g.waiters {
		g.waiters[i] = map[string]func(){}
	}
	return g
}

// TryAcquire takes a slot of a lane. If there is none, wake is called once after the next release; it must not block.
func (g *Gate) TryAcquire(lane Lane, who string, wake func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.free[lane] == 0 {
		g.waiters[lane][who] = wake
		return false
	}
	g.free[lane]--
	return true
}

// Release gives a slot back and wakes all who wait for that lane: one of them gets it.
func (g *Gate) Release(lane Lane) {
	g.mu.Lock()
	g.free[lane]++
	waiters := g.waiters[lane]
	g.waiters[lane] = map[string]func(){}
	g.mu.Unlock()
	for _, wake := range waiters {
		wake()
	}
}

// Idle says whether all slots are free.
func (g *Gate) Idle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.free == slots(g.n)
}
