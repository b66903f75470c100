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

	blocks   map[prefix.Key]*blockModel
	named    map[uint64]prefix.Key // by the engine's hash
	orphans  map[uint64][]prefix.Event
	former   map[prefix.Key]*blockModel // what was known before the last void
	voidedAt time.Duration
	claims   []claimed
	key      []prefix.Key // scratch
}

type blockModel struct {
	copies int
	again  bool          // stored again from its sequence's start on: that may be a copy, or a report of what is there
	gone   time.Duration // when the last copy went
}

// claimed is a prompt that was sent there a moment ago.
type claimed struct {
	ticket uint64
	names  []prefix.Key
	whole  bool          // it ends with a whole block, which its claim does not share and the router counts all the same
	until  time.Duration // when it was withdrawn, or its time is up
}

func (m *slotModel) void(now time.Duration) {
	m.former = m.blocks
	m.blocks, m.named, m.orphans = map[prefix.Key]*blockModel{}, map[uint64]prefix.Key{}, nil
	m.voidedAt = now
	for i := range m.claims {
		m.claims[i].until = min(m.claims[i].until, now)
	}
}

// root is the parent of a sequence's first block.
func root(salt string) prefix.Key { return prefix.Namespace{Model: modelName, Salt: salt}.Seed() }

// names are those of a sequence's full blocks.
func names(salt string, tokens []uint32, blockTokens int) []prefix.Key {
	return prefix.AppendKeys(nil, root(salt), tokens, blockTokens)
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
	again := e.Parent == nil
	for _, h := range e.Hashes {
		b := m.blocks[m.named[h]]
		again = again && b != nil && b.copies > 0
	}
	for i, h := range e.Hashes {
		m.key = prefix.AppendKeys(m.key[:0], n, e.Tokens[i*m.blockTokens:(i+1)*m.blockTokens], m.blockTokens)
		n = m.key[0]
		m.named[h] = n
		b := m.blocks[n]
		if b == nil {
			b = &blockModel{}
			m.blocks[n] = b
		}
		b.copies++
		b.again = b.again || again
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
func (m *slotModel) speculate(now time.Duration, ticket uint64, names []prefix.Key, whole bool, ttl time.Duration) {
	kept := m.claims[:0]
	for _, c := range m.claims {
		if now-c.until < time.Second {
			kept = append(kept, c)
		}
	}
	m.claims = append(kept, claimed{ticket, names, whole, now + ttl})
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
func (m *slotModel) most(since time.Duration, names []prefix.Key) int {
	for i, n := range names {
		if !m.had(since, n) && !m.claimed(since, i, n) {
			return i
		}
	}
	return len(names)
}

// sure is the overlap that the index must know of what is in truth so long: not what may be gone with one of two copies.
func (m *slotModel) sure(names []prefix.Key, truth int) int {
	for i, n := range names[:truth] {
		if b := m.blocks[n]; b != nil && b.again {
			return i
		}
	}
	return truth
}

// held is the overlap that the events alone show now.
func (m *slotModel) held(names []prefix.Key) int {
	for i, n := range names {
		if b := m.blocks[n]; b == nil || b.copies == 0 {
			return i
		}
	}
	return len(names)
}

func (m *slotModel) had(since time.Duration, n prefix.Key) bool {
	if b := m.blocks[n]; b != nil && (b.copies > 0 || b.gone >= since) {
		return true
	}
	if m.voidedAt < since {
		return false
	}
	b := m.former[n]
	return b != nil && (b.copies > 0 || b.gone >= since)
}

func (m *slotModel) claimed(since time.Duration, at int, n prefix.Key) bool {
	for i := range m.claims {
		c := &m.claims[i]
		if c.until >= since && (at < len(c.names) && c.names[at] == n || at == len(c.names) && c.whole) {
			return true
		}
	}
	return false
}
