package prefix

import (
	"math"
	"slices"
	"time"

	"plimsoll/scoring"
)

// speculation is a sequence just routed to a replica. It claims keys[from:to]; the part before was seen in the content,
// which alone speaks for it from then on. Claims are bits in the bank, so Match looks at them and not at speculations.
type speculation struct {
	ticket   scoring.Ticket
	keys     []Key
	until    int64 // by the index's clock
	from, to int
	first    uint32 // entry of keys[from]
	settled  bool   // nobody but confirm works on it
}

// Speculate counts keys, a sequence from its first block on, as held on a slot's device: it was just routed there, and its
// blocks will be reported in a moment. Each block counts until the content has shown it and those before it, until passes,
// or the ticket is withdrawn. It stands beside the content and never alters it. A second call for a ticket replaces the
// first. keys is retained and must not be changed.
func (ix *Index) Speculate(s Slot, t scoring.Ticket, keys []Key, until time.Time) {
	sl := ix.slot(s)
	if sl == nil || len(keys) == 0 {
		return
	}
	sl.speculating.Lock()
	defer sl.speculating.Unlock()
	clock := ix.clock.Load()
	sl.withdraw(func(sp *speculation) bool { return sp.ticket == t || sp.until <= clock })
	for {
		oldest := sl.inTheWay(ix, len(keys))
		if oldest == nil {
			break
		}
		sl.withdraw(func(sp *speculation) bool { return sp == oldest })
	}
	if ends := ix.since(until); ends > clock {
		sl.speculate(&speculation{ticket: t, keys: keys, until: ends})
	}
}

// inTheWay returns the oldest sequence if it must go to make room for another one, else nil. One always has room. The
// feed's goroutine may drop what it confirms at any moment, so the question and its answer are under one lock.
func (sl *slot) inTheWay(ix *Index, blocks int) *speculation {
	sl.bank.mu.RLock()
	defer sl.bank.mu.RUnlock()
	n := len(sl.speculations)
	if n == 0 || n < ix.cfg.SpeculationsMax && sl.claimed+blocks <= sl.capacity*ix.cfg.OverflowFactor {
		return nil
	}
	return sl.speculations[0]
}

// Withdraw takes a speculation back: the attempt failed before its first token. Without one it does nothing.
func (ix *Index) Withdraw(s Slot, t scoring.Ticket) {
	if sl := ix.slot(s); sl != nil {
		sl.speculating.Lock()
		defer sl.speculating.Unlock()
		sl.withdraw(func(sp *speculation) bool { return sp.ticket == t })
	}
}

// speculate claims what the content does not show, a chunk at a time. speculating is held.
func (sl *slot) speculate(sp *speculation) {
	b := sl.bank
	b.mu.Lock()
	sl.skipShown(sp)
	if sp.from == len(sp.keys) || sl.gone {
		b.mu.Unlock()
		return
	}
	sl.speculations = append(sl.speculations, sp)
	b.expiry.Store(min(b.expiry.Load(), sp.until))
	parent := uint32(0)
	if sp.from > 0 {
		parent = b.find(sp.keys[sp.from-1]) // the content holds it: the lock was not given up since
	}
	for sp.to = sp.from; ; {
		end := min(sp.to+chunkBlocks, len(sp.keys))
		for _, key := range sp.keys[sp.to:end] {
			b.sink += b.touch(key)
		}
		for ; sp.to < end; sp.to++ {
			parent = b.intern(sp.keys[sp.to], parent)
			if sp.to == sp.from {
				sp.first = parent
			}
			sl.claim(parent)
		}
		if sp.to == len(sp.keys) {
			break
		}
		b.mu.Unlock() // nobody else moves an unsettled speculation: its last entry stays
		b.mu.Lock()
	}
	sp.settled = true
	sl.shown = true
	for sl.shown {
		sl.confirm(chunkBlocks)
		b.mu.Unlock()
		b.mu.Lock()
	}
	b.mu.Unlock()
}

// skipShown moves from past the leading blocks that the content shows. The lock is held at the end as at the start, and
// given up between.
func (sl *slot) skipShown(sp *speculation) {
	b := sl.bank
	for id, steps := uint32(0), 1; sp.from < len(sp.keys); steps++ {
		if steps%chunkBlocks == 0 {
			b.mu.Unlock()
			b.mu.Lock()
			id = 0
			if sp.from > 0 {
				id = b.find(sp.keys[sp.from-1])
			}
			if sp.from > 0 && (id == 0 || !sl.shows(id)) {
				sp.from, id = 0, 0 // evicted in the meantime: begin again
			}
		}
		if id = b.following(id, sp.keys[sp.from]); id == 0 || !sl.shows(id) {
			return
		}
		sp.from++
	}
}

// following returns the entry of a key whose block comes after entry id; 0 if there is none.
func (b *bank) following(id uint32, key Key) uint32 {
	if id != 0 {
		if child := b.entry(id).child; child != 0 && child&branching == 0 && b.entry(child).key == key {
			return child
		}
	}
	return b.find(key)
}

// shows says whether the slot's content has an entry in every group that a hit needs from the start. That of a void slot,
// which may not be swept yet, shows nothing.
func (sl *slot) shows(id uint32) bool {
	b, bit := sl.bank, sl.bit()
	if b.void&bit != 0 {
		return false
	}
	if b.hybrid&bit == 0 {
		return b.entry(id).device&bit != 0
	}
	shown := false
	for i := range b.groups {
		if b.groups[i].full&bit != 0 {
			if b.content(planeOf(i, Device), id)&bit == 0 {
				return false
			}
			shown = true
		}
	}
	return shown
}

// claim adds a claim of an entry.
func (sl *slot) claim(id uint32) {
	b, bit := sl.bank, sl.bit()
	sl.claimed++
	if b.claims.count > 0 && b.claims.word(id)&bit != 0 {
		b.double.add(branchWord(sl.col, 0, id), 1)
		return
	}
	b.claims.set(id, bit)
	for i := range b.groups {
		if p := planeOf(i, Device); b.content(p, id)&bit == 0 {
			b.gained(sl.col, p, id)
		}
	}
}

// unclaim is the end of claim. The entry may be gone afterwards.
func (sl *slot) unclaim(id uint32) {
	b, bit := sl.bank, sl.bit()
	sl.claimed--
	if word := branchWord(sl.col, 0, id); b.double.get(word) > 0 {
		b.double.add(word, -1)
		return
	}
	b.claims.unset(id, bit)
	for i := range b.groups {
		if p := planeOf(i, Device); b.content(p, id)&bit == 0 {
			b.lost(sl.col, p, id)
		}
	}
	b.tidy(id)
}

// confirm moves claims past the leading blocks that the content shows by now, at most that many, and drops speculations
// that it shows wholly. The bank is locked; shown tells whether something is left.
func (sl *slot) confirm(most int) {
	if !sl.shown {
		return
	}
	sl.shown = false
	done := false
	for _, sp := range sl.speculations {
		for sp.settled && sp.from < sp.to && sl.shows(sp.first) {
			if most == 0 {
				sl.shown = true
				return
			}
			most--
			id := sp.first
			if sp.from++; sp.from < sp.to {
				sp.first = sl.bank.following(id, sp.keys[sp.from])
			}
			sl.unclaim(id)
		}
		done = done || sp.settled && sp.from == sp.to
	}
	if done {
		sl.speculations = slices.DeleteFunc(sl.speculations, func(sp *speculation) bool {
			return sp.settled && sp.from == sp.to
		})
	}
}

// withdraw drops the speculations that match, last block first, a chunk at a time. speculating is held.
func (sl *slot) withdraw(match func(*speculation) bool) {
	b := sl.bank
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		i := slices.IndexFunc(sl.speculations, match)
		if i < 0 {
			return
		}
		sp := sl.speculations[i]
		sl.speculations = slices.Delete(sl.speculations, i, i+1)
		for steps := 1; sp.from < sp.to; steps++ {
			sp.to--
			sl.unclaim(b.find(sp.keys[sp.to]))
			if steps%chunkBlocks == 0 {
				b.mu.Unlock()
				b.mu.Lock()
			}
		}
	}
}

// withdrawAll is for a slot that is void.
func (sl *slot) withdrawAll() {
	sl.speculating.Lock()
	defer sl.speculating.Unlock()
	sl.withdraw(func(*speculation) bool { return true })
}

// expire drops the speculations of a bank's slots whose time is over.
func (ix *Index) expire(bank int, now int64) {
	f := ix.fleet.Load()
	for _, sl := range f.of(bank) {
		if sl != nil {
			sl.speculating.Lock()
			sl.withdraw(func(sp *speculation) bool { return sp.until <= now })
			sl.speculating.Unlock()
		}
	}
	b := f.banks[bank]
	b.mu.Lock()
	defer b.mu.Unlock()
	next := int64(math.MaxInt64)
	for _, sl := range ix.fleet.Load().of(bank) { // a slot may have been added meanwhile, and told of a speculation
		if sl != nil {
			for _, sp := range sl.speculations {
				next = min(next, sp.until)
			}
		}
	}
	b.expiry.Store(next)
}
