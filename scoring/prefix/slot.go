package prefix

import (
	"sync"
	"time"

	"plimsoll/scoring"
)

// slot is what is known of one replica's cache. mu guards everything below it.
type slot struct {
	capacity int // blocks the replica's cache holds

	mu           sync.RWMutex
	void         bool
	exact        *exact       // Events slots
	approximate  *approximate // Routed slots
	speculations []speculation
	stats        Stats // the counters; the gauges are filled in by snapshot
}

func newSlot(src Source, capacity int) *slot {
	sl := &slot{capacity: capacity}
	switch src {
	case Routed:
		sl.approximate = newApproximate(&sl.stats, capacity)
	case Events, NumSources:
		sl.exact = newExact(&sl.stats)
	}
	return sl
}

// clear forgets the content. Fresh tables are made and the old ones left to the collector, so it takes no time.
func (sl *slot) clear() {
	if sl.exact != nil {
		sl.exact = newExact(&sl.stats)
	} else {
		sl.approximate = newApproximate(&sl.stats, sl.capacity)
	}
	sl.speculations = nil
	sl.void = true
}

// match returns how many leading keys are held or speculated. Content and speculations alternate until neither goes
// further, so the answer is that of their union.
func (sl *slot) match(now time.Time, keys []Key) int {
	if sl.void {
		return 0
	}
	n := sl.heldFrom(0, keys)
	for {
		m := sl.speculatedFrom(now, n, keys)
		if m == n {
			return n
		}
		n = sl.heldFrom(m, keys)
	}
}

// heldFrom returns the end of the run of held keys that starts at from.
func (sl *slot) heldFrom(from int, keys []Key) int {
	if sl.exact != nil {
		return from + sl.exact.run(keys[from:])
	}
	return from + sl.approximate.run(keys[from:])
}

func (sl *slot) holds(k Key) bool {
	if sl.exact != nil {
		return sl.exact.holds(k)
	}
	return sl.approximate.holds(k)
}

func (sl *slot) snapshot() Stats {
	st := sl.stats
	st.Void, st.Speculations = sl.void, len(sl.speculations)
	if sl.exact != nil {
		st.Blocks, st.Copies = sl.exact.held, sl.exact.copies
		st.Orphans, st.Holes = sl.exact.orphans.len(), sl.exact.holes
	} else {
		st.Blocks = sl.approximate.len()
		st.Copies = st.Blocks
	}
	return st
}

// speculation is a sequence just routed to a replica. It claims keys[from:]; the part before was seen in the content,
// which alone speaks for it from then on.
type speculation struct {
	ticket scoring.Ticket
	keys   []Key
	from   int
	until  time.Time
}

// Speculate counts keys, a sequence from its first block on, as held by a slot: it was just routed there, and its blocks
// will be reported in a moment. Each block counts until the content has shown it and those before it, until passes, or
// the ticket is withdrawn. It stands beside the content and never alters it. A second call for a ticket replaces the
// first. keys is retained and must not be changed.
func (ix *Index) Speculate(s Slot, t scoring.Ticket, keys []Key, until time.Time) {
	sl := ix.slot(s)
	if sl == nil || len(keys) == 0 {
		return
	}
	clock := ix.clock.Load()
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.keepSpeculations(func(sp *speculation) bool { return sp.ticket != t && sp.until.UnixNano() > clock })
	if over := len(sl.speculations) + 1 - ix.cfg.SpeculationsMax; over > 0 {
		sl.speculations = append(sl.speculations[:0], sl.speculations[over:]...)
	}
	sl.speculations = append(sl.speculations, speculation{ticket: t, keys: keys, until: until})
	sl.confirm()
}

// Withdraw takes a speculation back: the attempt failed before its first token. Without one it does nothing.
func (ix *Index) Withdraw(s Slot, t scoring.Ticket) {
	if sl := ix.slot(s); sl != nil {
		sl.mu.Lock()
		defer sl.mu.Unlock()
		sl.keepSpeculations(func(sp *speculation) bool { return sp.ticket != t })
	}
}

// keepSpeculations drops those that keep refuses, in place.
func (sl *slot) keepSpeculations(keep func(*speculation) bool) {
	kept := sl.speculations[:0]
	for i := range sl.speculations {
		if keep(&sl.speculations[i]) {
			kept = append(kept, sl.speculations[i])
		}
	}
	clear(sl.speculations[len(kept):])
	sl.speculations = kept
}

// confirm moves every claim past the leading blocks that the content shows by now, and drops those it shows wholly.
func (sl *slot) confirm() {
	sl.keepSpeculations(func(sp *speculation) bool {
		for sp.from < len(sp.keys) && sl.holds(sp.keys[sp.from]) {
			sp.from++
		}
		return sp.from < len(sp.keys)
	})
}

// speculatedFrom returns how far the claims of one speculation reach from n on. Keys are chained: two sequences that
// agree in one place agree in all before it, so one comparison rejects a speculation and bisection finds its end.
func (sl *slot) speculatedFrom(now time.Time, n int, keys []Key) int {
	best := n
	for i := range sl.speculations {
		sp := &sl.speculations[i]
		end := min(len(keys), len(sp.keys))
		if sp.from > n || best >= end || sp.keys[best] != keys[best] || !now.Before(sp.until) {
			continue
		}
		best = bisect(best+1, end, func(j int) bool { return sp.keys[j] == keys[j] })
	}
	return best
}

// bisect returns the first index in [low, high) for which ok is false, else high; ok must not turn true again. It
// gallops from the far end first: a prompt that hits at all usually hits wholly or nearly so.
func bisect(low, high int, ok func(int) bool) int {
	if low < high && ok(high-1) {
		return high
	}
	for low < high {
		mid := int(uint(low+high) >> 1)
		if ok(mid) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}
