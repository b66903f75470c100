package sim

import (
	"errors"
	"fmt"
)

// Audit recounts everything that the machine keeps count of.
func (m *Machine) Audit() error {
	if !m.alive {
		return nil
	}
	refs := make([]int32, len(m.pool.blocks))
	for _, s := range m.byID {
		for _, id := range s.blocks {
			refs[id]++
		}
		if want := m.blocksFor(s.computed + s.scheduled); len(s.blocks) != want {
			return fmt.Errorf("%s holds %d blocks for %d tokens", s.request.ID, len(s.blocks), s.computed+s.scheduled)
		}
		if s.stored != (s.computed+s.scheduled)/m.cfg.BlockTokens {
			return fmt.Errorf("%s: %d blocks stored of %d tokens", s.request.ID, s.stored, s.computed+s.scheduled)
		}
		for i := range s.stored {
			if b := m.pool.blocks[s.blocks[i]]; !b.cached || b.hash != s.hashes[i] {
				return fmt.Errorf("%s: a held block was evicted", s.request.ID)
			}
		}
	}
	if len(m.byID) != len(m.running)+len(m.waiting) {
		return errors.New("a request is in no queue, or in two")
	}
	if len(m.byID) > 0 && !m.stepping {
		return errors.New("work but no pass")
	}
	return m.pool.audit(refs)
}

func (p *pool) audit(refs []int32) error {
	free, cached, copies := 0, 0, 0
	queued := make([]bool, len(p.blocks))
	for id := p.head; id != none; id = p.blocks[id].next {
		queued[id] = true
		if free++; free > len(p.blocks) {
			return errors.New("the free queue is a circle")
		}
	}
	for h, c := range p.byHash {
		for id := c.first; id != none; id = p.blocks[id].foll {
			if copies++; p.blocks[id].hash != h || !p.blocks[id].cached {
				return fmt.Errorf("block %d is a copy of a hash it has not", id)
			}
		}
	}
	for id := 1; id < len(p.blocks); id++ {
		b := p.blocks[id]
		if b.refs != refs[id] || queued[id] != (b.refs == 0) {
			return fmt.Errorf("block %d: %d references, counted %d, in the free queue: %t", id, b.refs, refs[id], queued[id])
		}
		if b.cached {
			cached++
		}
	}
	if kept := p.host.used.Len(); kept != len(p.host.byHash) || kept > p.host.max {
		return fmt.Errorf("the host keeps %d blocks of %d, counted %d", kept, p.host.max, len(p.host.byHash))
	}
	if free != p.free || p.used()+p.free != len(p.blocks)-1 {
		return fmt.Errorf("%d blocks are free, counted %d", p.free, free)
	}
	if cached != p.cached || cached != copies {
		return fmt.Errorf("%d blocks are cached, counted %d, %d copies", p.cached, cached, copies)
	}
	return nil
}
