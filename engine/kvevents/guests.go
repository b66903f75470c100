package kvevents

import (
	"net"
	"slices"
	"sync"
)

// guests are the connections to a bound endpoint, which anybody can make. It is safe for concurrent use; the zero value is
// empty.
type guests struct {
	mu   sync.Mutex
	list []guest // guarded by mu; the oldest first
}

type guest struct {
	id     uint64
	conn   net.Conn
	spoken bool // it has published something, and is an engine for all that can be known
}

func (g *guests) enter(id uint64, conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = append(g.list, guest{id: id, conn: conn})
}

func (g *guests) leave(id uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = slices.DeleteFunc(g.list, func(one guest) bool { return one.id == id })
}

func (g *guests) published(id uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.IndexFunc(g.list, func(one guest) bool { return one.id == id }); i >= 0 {
		g.list[i].spoken = true
	}
}

// closeIdle closes the oldest that has never published; false: there is none. It leaves by itself, soon.
func (g *guests) closeIdle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.list, func(one guest) bool { return !one.spoken })
	if i >= 0 {
		_ = g.list[i].conn.Close()
	}
	return i >= 0
}
