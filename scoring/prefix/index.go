package prefix

import (
	"math"
	"slices"
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
	// OffloadFactor times the capacity is how many block copies are kept of each tier below the device; what is stored there
	// beyond is ignored and counted, because some engines never tell of removals from them.
	OffloadFactor int
	// LingerFactor times the capacity is how many names a slot remembers of blocks whose last copy was removed, the latest to
	// go: stores in a tier below the device may come later than the removal from it. None are as long as the slot was told of
	// no such tier.
	LingerFactor int
}

// DefaultConfig is for blocks of 16 tokens.
func DefaultConfig() Config {
	return Config{BlockTokens: 16, OrphansMax: 4096, SpeculationsMax: 1024, OverflowFactor: 2, OffloadFactor: 16, LingerFactor: 1}
}

// Index says how many leading blocks of a prompt each replica holds. There is one per model and block size.
//
// Each slot has a single writer of events (its KV feed) and any number of readers; Speculate, Withdraw and Routed may
// come from elsewhere. All methods are safe for concurrent use.
type Index struct {
	cfg  Config
	base Key // seed of the model's plain namespace, the commonest

	mu    sync.Mutex // orders Add and Remove
	fleet atomic.Pointer[fleet]

	origin atomic.Pointer[time.Time] // the first time that was named, from which the index's clock counts; nil before
	clock  atomic.Int64              // the latest now that Match was asked for: old speculations are dropped by it
}

// fleet is the slots and their banks at one time; it is replaced, never changed.
type fleet struct {
	slots []*slot // nil for a free one
	banks []*bank // slot i is bit i%bankSlots of bank i/bankSlots
}

// of returns the slots of a bank.
func (f *fleet) of(bank int) []*slot {
	return f.slots[bank*bankSlots : min((bank+1)*bankSlots, len(f.slots))]
}

// NewIndex returns an index without slots. It panics if a bound of cfg is not positive.
func NewIndex(cfg Config) *Index {
	if min(cfg.BlockTokens, cfg.OrphansMax, cfg.SpeculationsMax, cfg.OverflowFactor, cfg.OffloadFactor, cfg.LingerFactor) <= 0 {
		panic("prefix: every bound of an index is positive")
	}
	ix := &Index{cfg: cfg, base: Namespace{Model: cfg.Model}.Seed()}
	ix.fleet.Store(&fleet{})
	ix.clock.Store(math.MinInt64)
	return ix
}

// since is a time in nanoseconds by the index's clock, which is monotonic as the callers' times are: where somebody sets the
// wall clock no speculation ends early or stays.
func (ix *Index) since(t time.Time) int64 {
	origin := ix.origin.Load()
	if origin == nil {
		first := t
		ix.origin.CompareAndSwap(nil, &first)
		origin = ix.origin.Load()
	}
	return int64(t.Sub(*origin))
}

// BlockTokens returns the block size the index was made for.
func (ix *Index) BlockTokens() int { return ix.cfg.BlockTokens }

// Add gives a replica the lowest free slot.
func (ix *Index) Add(cfg SlotConfig) Slot {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	old := ix.fleet.Load()
	next := fleet{slots: slices.Clone(old.slots), banks: slices.Clone(old.banks)}
	place := slices.Index(next.slots, nil)
	if place < 0 {
		place = len(next.slots)
		next.slots = append(next.slots, nil)
	}
	if place/bankSlots == len(next.banks) {
		next.banks = append(next.banks, newBank())
	}
	b, col := next.banks[place/bankSlots], place%bankSlots
	next.slots[place] = newSlot(b, col, cfg, ix.cfg.LingerFactor)
	b.mu.Lock()
	b.join(col)
	b.mu.Unlock()
	ix.fleet.Store(&next)
	return Slot(place)
}

// Remove frees a slot. Calls for it do nothing until Add hands it out again; its feed must have ended by then.
func (ix *Index) Remove(s Slot) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	sl := ix.slot(s)
	if sl == nil {
		return
	}
	old := ix.fleet.Load()
	next := fleet{slots: slices.Clone(old.slots), banks: old.banks}
	next.slots[s] = nil
	ix.fleet.Store(&next)
	sl.leave()
}

// slot returns a slot in use, or nil.
func (ix *Index) slot(s Slot) *slot {
	slots := ix.fleet.Load().slots
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

// Stats returns a slot's counters; those of a free slot are zero.
func (ix *Index) Stats(s Slot) Stats {
	sl := ix.slot(s)
	if sl == nil {
		return Stats{}
	}
	sl.mu.Lock()
	defer sl.mu.Unlock()
	return sl.snapshot()
}
