package replica

import (
	"sync"
	"sync/atomic"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
)

// Subscription is one run of the engine's feed into a slot of its own, of which it is the only writer. Take and End belong to
// the goroutine that listens; its feed gives the slot back once that has ended.
type Subscription struct {
	run     uint64
	life    tune
	indexes *Indexes
	copies  prefix.Copies

	figures *fleet.FeedFigures
	// hidden: nobody looks at the slot yet, and the feed wants to hear of every batch with events.
	hidden atomic.Bool

	mu     sync.Mutex
	place  *fleet.Place   // guarded by mu
	former []*fleet.Place // guarded by mu; slots of other block sizes, not given back yet

	// The goroutine's own.
	told      bool // the feed has heard of a batch
	state     engine.KVState
	confirmed bool // a block of place's size was stored
	// strange is how much was stored in smaller blocks since the last one of place's size.
	strange scoring.Tokens
}

// settle gives the subscription a slot in the index of a block size.
func (s *Subscription) settle(blockTokens scoring.Tokens) {
	p := newPlace(s.indexes, s.life, blockTokens, prefix.Events, s.copies)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.place != nil {
		s.former = append(s.former, s.place)
	}
	s.place = p
}

// now returns the slot that is written to.
func (s *Subscription) now() *fleet.Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.place
}

// takeFormer returns the slots that are not written to any more, once.
func (s *Subscription) takeFormer() []*fleet.Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	former := s.former
	s.former = nil
	return former
}

// Take applies a batch to the slot. It returns news for [Feed.Message]; nil: there is none.
func (s *Subscription) Take(now time.Time, b engine.KVBatch) (news any) {
	s.figures.Came(now)
	moved := s.resize(b.Events)
	p := s.now()
	if b.Reset {
		p.Index.Void(p.Slot)
	}
	p.Index.Apply(p.Slot, b.Events)
	if s.told && !moved && !b.Reset && b.State == s.state && (!s.hidden.Load() || len(b.Events) == 0) {
		return nil
	}
	s.told, s.state = true, b.State
	return fed{run: s.run, state: b.State, events: len(b.Events) > 0, anew: b.Reset, moved: moved}
}

// End says that the engine's feed has ended by itself, and why. It returns news for [Feed.Message].
func (s *Subscription) End(err error) (news any) { return feedEnded{s.run, err} }

// resize moves to the index of the block size that the events show, if it is another one than was told: the size is that of
// full attention's blocks, and the largest one where partial blocks are reported too. What was stored before it was seen is
// of another size, and no index holds it. Once as much as the whole cache holds was stored in smaller blocks alone, nothing
// of the larger size is left, if it ever was one.
func (s *Subscription) resize(events []prefix.Event) (moved bool) {
	size, stored := 0, 0
	for i := range events {
		e := &events[i]
		if e.Kind == prefix.Stored && e.Tier == prefix.Device && e.Attention == prefix.FullAttention && len(e.Tokens) >= e.BlockTokens {
			size = max(size, e.BlockTokens)
			stored += len(e.Tokens)
		}
	}
	if size == 0 {
		return false
	}
	p := s.now()
	known := int(p.BlockTokens)
	switch {
	case size == known:
		s.confirmed, s.strange = true, 0
		return false
	case size < known && s.confirmed:
		if s.strange += scoring.Tokens(stored); s.strange < s.life.capacity {
			return false
		}
	}
	s.confirmed, s.strange = true, 0
	s.settle(scoring.Tokens(size))
	return true
}
