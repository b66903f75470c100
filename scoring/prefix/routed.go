package prefix

// routed remembers what was routed to a replica that reports nothing: an LRU of as many blocks as its cache holds. A
// touched sequence becomes the most recent with its first block in front, so a block is never dropped before those behind
// it and the content is closed under prefixes.
type routed struct {
	capacity int
	places   dict   // key to number of node
	nodes    []node // a ring through nodes[0], which is no block: next of it is the most recent, prev the least
}

type node struct {
	id         uint32 // the block's entry
	prev, next uint32
}

func newRouted(capacity int) *routed {
	return &routed{capacity: capacity, places: dict{expected: capacity}, nodes: make([]node, 1)}
}

// Routed tells a Routed slot that a sequence with these keys is now, most recently, cached there. An Events slot
// ignores it. Of a sequence longer than the capacity only the beginning is kept.
func (ix *Index) Routed(s Slot, keys []Key) {
	sl := ix.slot(s)
	if sl == nil || sl.routed == nil {
		return
	}
	sl.mu.Lock()
	defer sl.mu.Unlock()
	life, ok := sl.revive()
	if !ok {
		return
	}
	r := sl.routed
	keys = keys[:min(len(keys), r.capacity)]
	known := 0
	for known < len(keys) && r.places.get(uint64(keys[known])) != 0 {
		known++
	}
	r.toFront(keys[:known]) // first, lest room for the new ones is made by dropping the known ones
	for at := known; at < len(keys); {
		end := min(at+chunkBlocks, len(keys))
		sl.addRouted(keys, at, end)
		at = end
		sl.breathe()
		if sl.life != life {
			return
		}
	}
	r.toFront(keys)
	sl.settle()
}

// settle confirms claims until nothing is left to be confirmed.
func (sl *slot) settle() {
	b := sl.bank
	b.mu.Lock()
	defer b.mu.Unlock()
	for sl.shown {
		sl.confirm(chunkBlocks)
		b.mu.Unlock()
		b.mu.Lock()
	}
}

// toFront makes a known sequence the most recent, its first block foremost.
func (r *routed) toFront(keys []Key) {
	for i := len(keys) - 1; i >= 0; i-- {
		at := r.places.get(uint64(keys[i]))
		r.unlink(at)
		r.linkFront(at)
	}
}

// addRouted adds keys[from:to], which are not there, behind those before them. Each is the most recent for a moment: what
// is dropped to make room is none of the sequence, which fits as a whole.
func (sl *slot) addRouted(keys []Key, from, to int) {
	r, b := sl.routed, sl.bank
	r.places.reserve(to - from)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range keys[from:to] {
		b.sink += b.touch(key)
	}
	parent := uint32(0)
	if from > 0 {
		parent = b.find(keys[from-1])
	}
	for _, key := range keys[from:to] {
		at := r.room(sl)
		parent = b.intern(key, parent)
		r.nodes[at].id = parent
		r.linkFront(at)
		r.places.set(uint64(key), at)
		sl.gainName(0, parent)
	}
}

// room returns an unlinked node: a new one, or at the capacity that of the least recent block, which is dropped.
func (r *routed) room(sl *slot) uint32 {
	if r.places.used < r.capacity {
		r.nodes = append(r.nodes, node{})
		return uint32(len(r.nodes) - 1) //nolint:gosec // fewer than entries
	}
	at := r.nodes[0].prev
	r.unlink(at)
	id := r.nodes[at].id
	r.places.remove(uint64(sl.bank.entry(id).key))
	sl.stats.Evictions++
	sl.loseName(0, id)
	return at
}

func (r *routed) unlink(at uint32) {
	n := r.nodes[at]
	r.nodes[n.prev].next = n.next
	r.nodes[n.next].prev = n.prev
}

func (r *routed) linkFront(at uint32) {
	first := r.nodes[0].next
	r.nodes[at].prev, r.nodes[at].next = 0, first
	r.nodes[first].prev = at
	r.nodes[0].next = at
}
