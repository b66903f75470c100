package prefix

// approximate remembers what was routed to a replica that reports nothing: an LRU of as many blocks as its cache
// holds. A touched sequence becomes the most recent with its first block in front, so a block is never dropped before
// those behind it and the content is closed under prefixes.
type approximate struct {
	stats    *Stats
	capacity int
	places   map[Key]int32
	nodes    []node // a ring through nodes[0], which is no block: next of it is the most recent, prev the least
}

type node struct {
	key        Key
	prev, next int32
}

func newApproximate(stats *Stats, capacity int) *approximate {
	return &approximate{stats: stats, capacity: capacity, places: map[Key]int32{}, nodes: make([]node, 1)}
}

func (a *approximate) len() int { return len(a.places) }

func (a *approximate) holds(k Key) bool {
	_, ok := a.places[k]
	return ok
}

// run returns how many leading keys are held.
func (a *approximate) run(keys []Key) int {
	return bisect(0, len(keys), func(i int) bool { return a.holds(keys[i]) })
}

// touch makes a sequence the most recent. Of one longer than the capacity only the beginning is kept.
func (a *approximate) touch(keys []Key) {
	keys = keys[:min(len(keys), a.capacity)]
	known := a.run(keys)
	for i := known - 1; i >= 0; i-- { // first, lest room for the new ones is made by dropping the known ones
		a.toFront(a.places[keys[i]])
	}
	for i := len(keys) - 1; i >= known; i-- {
		at := a.free()
		a.nodes[at].key = keys[i]
		a.places[keys[i]] = at
		a.linkFront(at)
	}
	for i := known - 1; i >= 0; i-- {
		a.toFront(a.places[keys[i]])
	}
}

// free returns an unlinked node: a new one, or at the capacity that of the least recent block, which is dropped.
func (a *approximate) free() int32 {
	if len(a.places) < a.capacity {
		a.nodes = append(a.nodes, node{})
		return int32(len(a.nodes) - 1)
	}
	at := a.nodes[0].prev
	a.unlink(at)
	delete(a.places, a.nodes[at].key)
	a.stats.Evictions++
	return at
}

func (a *approximate) toFront(at int32) {
	a.unlink(at)
	a.linkFront(at)
}

func (a *approximate) unlink(at int32) {
	n := a.nodes[at]
	a.nodes[n.prev].next = n.next
	a.nodes[n.next].prev = n.prev
}

func (a *approximate) linkFront(at int32) {
	first := a.nodes[0].next
	a.nodes[at].prev, a.nodes[at].next = 0, first
	a.nodes[first].prev = at
	a.nodes[0].next = at
}
