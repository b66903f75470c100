package dst

import (
	"time"

	"plimsoll/scoring/prefix"
)

// slotModel is what the cache of one replica may be said to hold: a naive account of what its feed has said, by names of
// our own. It remembers when what is gone went, because a decision shows only some moments after it was taken.
type slotModel struct {
	blockTokens int
	routed      bool

	blocks   map[uint64]*blockModel // by name
	named    map[uint64]uint64      // the engine's hash: our name
	orphans  map[uint64][]prefix.Event
	former   map[uint64]*blockModel // what was known before the last void
	voidedAt time.Duration
	claims   []claimed
}

type blockModel struct {
	copies int
	gone   time.Duration // when the last copy went
}

// claimed is a prompt that was sent there a moment ago.
type claimed struct {
	ticket uint64
	names  []uint64
	at     time.Duration
	until  time.Duration // when it was withdrawn, or its time is up
}

func (m *slotModel) void(now time.Duration) {
	m.former = m.blocks
	m.blocks, m.named, m.orphans = map[uint64]*blockModel{}, map[uint64]uint64{}, nil
	m.voidedAt = now
	for i := range m.claims {
		m.claims[i].until = min(m.claims[i].until, now)
	}
}

// root names the empty sequence of a salt.
func root(salt string) uint64 {
	n := uint64(0x51ab)
	for _, c := range []byte(salt) {
		n = (n ^ uint64(c)) * 0x9e3779b97f4a7c15
	}
	return n
}

// name names a block by all that precedes it.
func name(parent uint64, tokens []uint32) uint64 {
	n := parent
	for _, t := range tokens {
		n = (n ^ n>>29 ^ uint64(t)) * 0xbf58476d1ce4e5b9
	}
	return n ^ n>>32
}

// names are those of a sequence's full blocks.
func names(salt string, tokens []uint32, blockTokens int) []uint64 {
	out := make([]uint64, 0, len(tokens)/blockTokens)
	n := root(salt)
	for ; len(tokens) >= blockTokens; tokens = tokens[blockTokens:] {
		n = name(n, tokens[:blockTokens])
		out = append(out, n)
	}
	return out
}

func (m *slotModel) apply(now time.Duration, events []prefix.Event) {
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case prefix.Stored:
			m.store(e)
		case prefix.Removed:
			for _, h := range e.Hashes {
				n, ok := m.named[h]
				if !ok {
					continue
				}
				if b := m.blocks[n]; b != nil && b.copies > 0 {
					if b.copies--; b.copies == 0 {
						b.gone = now
					}
				}
			}
		case prefix.Cleared:
			m.void(now)
		case prefix.NumEventKinds:
		}
	}
}

func (m *slotModel) store(e *prefix.Event) {
	n := root(e.Salt)
	if e.Parent != nil {
		var ok bool
		if n, ok = m.named[*e.Parent]; !ok {
			if m.orphans == nil {
				m.orphans = map[uint64][]prefix.Event{}
			}
			m.orphans[*e.Parent] = append(m.orphans[*e.Parent], *e)
			return
		}
	}
	for i, h := range e.Hashes {
		n = name(n, e.Tokens[i*m.blockTokens:(i+1)*m.blockTokens])
		m.named[h] = n
		b := m.blocks[n]
		if b == nil {
			b = &blockModel{}
			m.blocks[n] = b
		}
		b.copies++
		if waiting, ok := m.orphans[h]; ok {
			delete(m.orphans, h)
			for j := range waiting {
				m.store(&waiting[j])
			}
		}
	}
}

// routedTo notes a sequence where no events tell.
func (m *slotModel) routedTo(_ time.Duration, salt string, tokens []uint32) {
	for _, n := range names(salt, tokens, m.blockTokens) {
		m.blocks[n] = &blockModel{copies: 1}
	}
}

// speculate notes a prompt that is on its way there.
func (m *slotModel) speculate(now time.Duration, ticket uint64, names []uint64, ttl time.Duration) {
	kept := m.claims[:0]
	for _, c := range m.claims {
		if now-c.until < time.Second {
			kept = append(kept, c)
		}
	}
	m.claims = append(kept, claimed{ticket, names, now, now + ttl})
}

// withdraw ends a speculation.
func (m *slotModel) withdraw(now time.Duration, ticket uint64) {
	for i := range m.claims {
		if m.claims[i].ticket == ticket {
			m.claims[i].until = min(m.claims[i].until, now)
		}
	}
}

// most is the longest overlap that anybody may have counted at some moment since.
func (m *slotModel) most(since time.Duration, names []uint64) int {
	for i, n := range names {
		if !m.had(since, n) && !m.claimed(since, i, n) {
			return i
		}
	}
	return len(names)
}

// held is the overlap that the events alone show now.
func (m *slotModel) held(names []uint64) int {
	for i, n := range names {
		if b := m.blocks[n]; b == nil || b.copies == 0 {
			return i
		}
	}
	return len(names)
}

func (m *slotModel) had(since time.Duration, n uint64) bool {
	if b := m.blocks[n]; b != nil && (b.copies > 0 || b.gone >= since) {
		return true
	}
	if m.voidedAt < since {
		return false
	}
	b := m.former[n]
	return b != nil && (b.copies > 0 || b.gone >= since)
}

func (m *slotModel) claimed(since time.Duration, at int, n uint64) bool {
	for i := range m.claims {
		c := &m.claims[i]
		if c.until >= since && at < len(c.names) && c.names[at] == n {
			return true
		}
	}
	return false
}
