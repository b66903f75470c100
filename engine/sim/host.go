package sim

import (
	"container/list"
	"slices"

	"plimsoll/scoring/prefix"
)

// hostBlock is a block whose content lies in the host's memory.
type hostBlock struct {
	identity
	tokens []uint32
}

// hostTier keeps what left the device last; the least recently used goes first. What is loaded back stays too.
//
// Invariants: at most max blocks, each hash once.
type hostTier struct {
	max    int // 0: there is no such tier
	byHash map[uint64]*list.Element
	used   *list.List // of hostBlock, most recently used first
}

func newHostTier(blocksMax int) hostTier {
	return hostTier{max: blocksMax, byHash: make(map[uint64]*list.Element), used: list.New()}
}

// hits returns how many of the hashes are kept, from the first on.
func (h hostTier) hits(hashes []uint64) int {
	for i, hash := range hashes {
		if h.byHash[hash] == nil {
			return i
		}
	}
	return len(hashes)
}

// touch makes a block the most recently used; it reports false if it is not kept.
func (h hostTier) touch(hash uint64) bool {
	at := h.byHash[hash]
	if at != nil {
		h.used.MoveToFront(at)
	}
	return at != nil
}

// put keeps a block that is not kept, and drops one for it if there is no room.
func (h hostTier) put(b hostBlock) (dropped uint64, full bool) {
	if full = h.used.Len() == h.max; full {
		dropped = h.used.Remove(h.used.Back()).(hostBlock).hash
		delete(h.byHash, dropped)
	}
	h.byHash[b.hash] = h.used.PushFront(b)
	return dropped, full
}

// offload moves the content of a block that was evicted to the host, unless it is there or another copy is on the device.
// It appends what there is to tell: hashes only, as vLLM's connectors do.
func (p *pool) offload(id int32, events []prefix.Event) []prefix.Event {
	b := &p.blocks[id]
	if _, onDevice := p.byHash[b.hash]; onDevice || p.host.max == 0 || p.host.touch(b.hash) {
		return events
	}
	if dropped, full := p.host.put(hostBlock{b.identity, slices.Clone(p.content(id))}); full {
		events = tellHost(events, prefix.Removed, dropped)
	}
	return tellHost(events, prefix.Stored, b.hash)
}

// tellHost adds a hash to the last event if that is of the kind.
func tellHost(events []prefix.Event, kind prefix.EventKind, hash uint64) []prefix.Event {
	if last := len(events) - 1; last >= 0 && events[last].Kind == kind {
		events[last].Hashes = append(events[last].Hashes, hash)
		return events
	}
	return append(events, prefix.Event{Kind: kind, Hashes: []uint64{hash}, Tier: prefix.Host})
}

// load brings n blocks of a sequence that the host keeps back to the device, behind those that the sequence holds. The
// caller has looked at free.
func (p *pool) load(s *sequence, n int) {
	from := len(s.blocks)
	for _, hash := range slices.Backward(s.hashes[from : from+n]) {
		p.host.touch(hash)
	}
	s.blocks = p.take(n, s.blocks)
	p.store(s, from, from+n)
}
