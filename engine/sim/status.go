package sim

import "plimsoll/scoring/prefix"

// Status is what the engine's metrics say.
type Status struct {
	Alive        bool
	Life         uint64 // 1 for the first
	Running      int    // sequences in the batch
	Waiting      int
	UsedBlocks   int // held by running sequences
	CachedBlocks int // with content that can be hit, held or free
	HostBlocks   int // kept in the host's memory
	Steps        uint64
	Preemptions  uint64
}

// Status describes the moment after the last Step.
func (m *Machine) Status() Status {
	s := Status{Alive: m.alive, Life: m.life}
	if !m.alive {
		return s
	}
	s.Running, s.Waiting = len(m.running), len(m.waiting)
	s.UsedBlocks, s.CachedBlocks = m.pool.used(), m.pool.cached
	s.HostBlocks = m.pool.host.used.Len()
	s.Steps, s.Preemptions = m.step-m.lifeStep, m.preemptions
	return s
}

// HeldBlocks returns how many blocks a request holds, shared ones included; false if the engine does not know it. A
// waiting request holds none.
func (m *Machine) HeldBlocks(id string) (int, bool) {
	s, ok := m.byID[id]
	if !ok {
		return 0, false
	}
	return len(s.blocks), true
}

// Snapshot describes all that the cache holds as stores, parents before children where both are cached. It includes
// what a Flush or the end of the pass would report: take it right after Flush.
func (m *Machine) Snapshot() []prefix.Event {
	if !m.alive {
		return nil
	}
	return m.pool.snapshot()
}
