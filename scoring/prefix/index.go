package prefix

import (
	"sync"
	"sync/atomic"
	"time"

	"plimsoll/scoring"
)

// Slot is a replica's place in an [Index]: dense from 0, used again after Remove.
type Slot int

// Source says what a slot's content comes from.
type Source uint8

// Sources of a slot.
const (
	Events Source = iota // the engine's own cache events: exact
	Routed               // what was routed to the replica, least recently used dropped at its capacity: a guess

	NumSources
)

// Copies says how an engine counts a block that it stores again.
type Copies uint8

// Ways of counting.
const (
	Counted Copies = iota // every store is a copy, and every copy has a removal (vLLM)
	AsSet                 // a block is there or not (SGLang)

	NumCopies
)

// SlotConfig says what a slot is of.
type SlotConfig struct {
	Source Source
	Copies Copies
	// CapacityBlocks is what the replica's device cache holds, at least 1: the size of a Routed slot's memory, and the base of
	// an Events slot's bound.
	CapacityBlocks scoring.Blocks
}

// Overlap is how many leading blocks of a prompt a replica holds, tier by tier: the first Device ones are on the device, the
// next Host ones in the host's memory or the device, the next Disk ones anywhere.
type Overlap struct {
	Device, Host, Disk scoring.Blocks
}

// Config bounds an index and says what it is for.
type Config struct {
	Model       string // part of every namespace
	BlockTokens int    // tokens a block; events of another size are skipped and counted
	// OrphansMax bounds the blocks kept per slot whose parent was never reported; the oldest go first.
	OrphansMax int
	// SpeculationsMax bounds the speculations kept per slot; the oldest go first.
	SpeculationsMax int
	// OverflowFactor times the capacity is how many block copies a slot may be told of before its feed is taken for
	// broken (removals lost) and the slot is voided.
	OverflowFactor int
}

// DefaultConfig is for blocks of 16 tokens.
func DefaultConfig() Config {
	return Config{BlockTokens: 16, OrphansMax: 4096, SpeculationsMax: 1024, OverflowFactor: 2}
}

// Index says how many leading blocks of a prompt each replica holds. There is one per model and block size.
//
// Each slot has a single writer of events (its KV feed) and any number of readers; Speculate, Withdraw and Routed may
// come from elsewhere. All methods are safe for concurrent use.
type Index struct {
	cfg  Config
	base Key // seed of the model's plain namespace, the commonest

	mu    sync.Mutex // orders Add and Remove
	slots atomic.Pointer[[]*slot]

	clock atomic.Int64 // the latest now that Match was asked for, in Unix nanoseconds: old speculations are dropped by it
}

// NewIndex returns an index without slots. It panics if a bound of cfg is not positive.
func NewIndex(cfg Config) *Index {
	if cfg.BlockTokens <= 0 || cfg.OrphansMax <= 0 || cfg.SpeculationsMax <= 0 || cfg.OverflowFactor <= 0 {
		panic("prefix: every bound of an index is positive")
	}
	ix := &Index{cfg: cfg, base: Namespace{Model: cfg.Model}.Seed()}
	ix.slots.Store(&[]*slot{})
	return ix
}

// BlockTokens returns the block size the index was made for.
func (ix *Index) BlockTokens() int { return ix.cfg.BlockTokens }

// Add gives a replica the lowest free slot.
func (ix *Index) Add(cfg SlotConfig) Slot {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	old := *ix.slots.Load()
	place := len(old)
	for i, s := range old {
		if s == nil {
			place = i
			break
		}
	}
	next := make([]*slot, max(len(old), place+1))
	copy(next, old)
	next[place] = newSlot(cfg.Source, max(1, int(cfg.CapacityBlocks)))
	ix.slots.Store(&next)
	return Slot(place)
}

// Remove frees a slot. Calls for it do nothing until Add hands it out again; its feed must have ended by then.
func (ix *Index) Remove(s Slot) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	old := *ix.slots.Load()
	if int(s) < 0 || int(s) >= len(old) {
		return
	}
	next := make([]*slot, len(old))
	copy(next, old)
	next[s] = nil
	ix.slots.Store(&next)
}

// slot returns a slot in use, or nil.
func (ix *Index) slot(s Slot) *slot {
	slots := *ix.slots.Load()
	if int(s) < 0 || int(s) >= len(slots) {
		return nil
	}
	return slots[s]
}

// seed returns the parent of an event's first block.
func (ix *Index) seed(e *Event) Key {
	if e.LoRA == "" && e.Salt == "" {
		return ix.base
	}
	return Namespace{Model: ix.cfg.Model, LoRA: e.LoRA, Salt: e.Salt}.Seed()
}

// lockedBlocks is how many blocks of events are applied before readers get a turn.
const lockedBlocks = 512

// Apply applies a feed's events in order. Only one goroutine may do so for a slot. Events of a Routed slot are ignored.
// A reader sees every event wholly or not at all. A batch without events is the feed's word too: what is known of a
// void slot is then that it holds nothing.
func (ix *Index) Apply(s Slot, events []Event) {
	sl := ix.slot(s)
	if sl == nil || sl.exact == nil {
		return
	}
	sl.mu.Lock()
	sl.void = false
	sl.mu.Unlock()
	for len(events) > 0 {
		n, blocks := 0, 0
		for n < len(events) && blocks < lockedBlocks {
			blocks += 1 + len(events[n].Hashes)
			n++
		}
		sl.mu.Lock()
		for i := range events[:n] {
			ix.applyOne(sl, &events[i])
		}
		sl.confirm()
		sl.mu.Unlock()
		events = events[n:]
	}
}

// applyOne applies one event under the slot's lock.
func (ix *Index) applyOne(sl *slot, e *Event) {
	sl.void = false // an event before it may have overflowed the slot
	sl.exact.apply(ix, e)
	if sl.exact.copies > sl.capacity*ix.cfg.OverflowFactor {
		sl.stats.Overflows++
		sl.clear()
	}
}

// Void forgets a slot's content: its overlap is 0 until its feed (or Routed) tells something new. Speculations go too.
// It takes the same short time whatever the slot holds.
func (ix *Index) Void(s Slot) {
	if sl := ix.slot(s); sl != nil {
		sl.mu.Lock()
		defer sl.mu.Unlock()
		sl.stats.Voids++
		sl.clear()
	}
}

// Routed tells a Routed slot that a sequence with these keys is now, most recently, cached there. An Events slot
// ignores it.
func (ix *Index) Routed(s Slot, keys []Key) {
	sl := ix.slot(s)
	if sl == nil || sl.approximate == nil {
		return
	}
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.void = false
	sl.approximate.touch(keys)
	sl.confirm()
}

// Match appends to dst[:0], for every slot, how many leading blocks of keys the slot holds at now; free and void slots
// hold none. A block counts if the engine's events say so (or, on a Routed slot, the memory of what was routed there),
// or if a speculation covers it. That a full hit still recomputes the last block is for the caller to know.
func (ix *Index) Match(now time.Time, keys []Key, dst []Overlap) []Overlap {
	nano := now.UnixNano()
	for {
		seen := ix.clock.Load()
		if seen >= nano || ix.clock.CompareAndSwap(seen, nano) {
			break
		}
	}
	slots := *ix.slots.Load()
	dst = dst[:0]
	for _, sl := range slots {
		n := 0
		if sl != nil && len(keys) > 0 {
			sl.mu.RLock()
			n = sl.match(now, keys)
			sl.mu.RUnlock()
		}
		dst = append(dst, Overlap{Device: scoring.Blocks(n)})
	}
	return dst
}

// Stats returns a slot's counters; those of a free slot are zero.
func (ix *Index) Stats(s Slot) Stats {
	sl := ix.slot(s)
	if sl == nil {
		return Stats{}
	}
	sl.mu.RLock()
	defer sl.mu.RUnlock()
	return sl.snapshot()
}
