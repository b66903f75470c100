package sim

import (
	"encoding/binary"
	"slices"

	"github.com/zeebo/xxh3"

	"plimsoll/scoring/prefix"
)

// none ends the lists of blocks; block 0 is the null block and never in a list.
const none int32 = 0

// namespace keeps what must not share blocks apart.
type namespace struct {
	lora, salt string
}

// identity says which block of which sequence it is.
type identity struct {
	hasParent bool
	depth     int32 // place in its sequence, 0 first
	hash      uint64
	parent    uint64
	space     namespace
}

// block is one physical block. While it is cached it also knows what it holds.
type block struct {
	identity
	refs        int32
	cached      bool
	prev, next  int32 // free queue
	prior, foll int32 // copies of the same hash, oldest first
}

// copies are the physical blocks of one hash.
type copies struct {
	first, last int32
}

// pool is the paged KV cache: who holds a block, what is cached in it, and which free one is taken next.
//
// Invariants: a block is in the free queue exactly if refs is 0; refs counts the sequences that list the block;
// a block is in the list of its hash exactly if it is cached; a taken block is not cached.
type pool struct {
	blockTokens int
	blocks      []block
	tokens      []uint32 // content of cached blocks, blockTokens each
	byHash      map[uint64]copies
	head, tail  int32
	free        int
	cached      int
	host        hostTier
	seed        uint64
	scratch     []byte
	events      []prefix.Event // what has happened since they were last taken
}

func newPool(cfg Config, seed uint64) *pool {
	p := &pool{
		blockTokens: cfg.BlockTokens,
		blocks:      make([]block, cfg.KVBlocks),
		tokens:      make([]uint32, cfg.KVBlocks*cfg.BlockTokens),
		byHash:      make(map[uint64]copies),
		host:        newHostTier(cfg.HostBlocks),
		seed:        seed,
		scratch:     make([]byte, 8+4*cfg.BlockTokens),
	}
	for id := int32(1); int(id) < cfg.KVBlocks; id++ {
		p.enqueue(id)
	}
	return p
}

// chain is the engine's hash of a block: over its parent's hash, or the namespace at the start, and its tokens.
// The adapter enters every block as it does in vLLM; the salt only the first.
func (p *pool) chain(parent *uint64, ids []uint32, space namespace) uint64 {
	root := uint64(0)
	if parent != nil {
		root = *parent
	} else if space.salt != "" {
		root = xxh3.HashStringSeed(space.salt, p.seed+1)
	}
	if space.lora != "" {
		root ^= xxh3.HashStringSeed(space.lora, p.seed+2)
	}
	binary.LittleEndian.PutUint64(p.scratch, root)
	for i, id := range ids {
		binary.LittleEndian.PutUint32(p.scratch[8+4*i:], id)
	}
	return xxh3.HashSeed(p.scratch, p.seed)
}

// hits returns how many of the hashes are cached from the start on.
func (p *pool) hits(hashes []uint64) int {
	for i, h := range hashes {
		if _, ok := p.byHash[h]; !ok {
			return i
		}
	}
	return len(hashes)
}

// idle counts the blocks of the hits that nobody holds: holding them takes them from the free queue.
func (p *pool) idle(hits []uint64) int {
	n := 0
	for _, h := range hits {
		if p.blocks[p.byHash[h].first].refs == 0 {
			n++
		}
	}
	return n
}

// hold takes a reference on the oldest copy of each hash and appends the blocks to held.
func (p *pool) hold(hits []uint64, held []int32) []int32 {
	for _, h := range hits {
		id := p.byHash[h].first
		if p.blocks[id].refs == 0 {
			p.unqueue(id)
		}
		p.blocks[id].refs++
		held = append(held, id)
	}
	return held
}

// take appends n blocks from the head of the free queue to held; what they held is evicted, to the host if it has a tier.
// The caller has looked at free.
func (p *pool) take(n int, held []int32) []int32 {
	var removed []uint64
	var moved []prefix.Event
	for range n {
		id := p.head
		p.unqueue(id)
		if p.blocks[id].cached {
			removed = append(removed, p.blocks[id].hash)
			p.evict(id)
			moved = p.offload(id, moved)
		}
		p.blocks[id].refs = 1
		held = append(held, id)
	}
	if len(removed) > 0 {
		p.events = append(p.events, prefix.Event{Kind: prefix.Removed, Hashes: removed})
	}
	p.events = append(p.events, moved...)
	return held
}

// release drops a reference on each block, last first, so that the end of a sequence is evicted before its start.
// Blocks without content that can be hit go to the head: they are taken before anything is evicted.
func (p *pool) release(held []int32) {
	for _, id := range slices.Backward(held) {
		p.blocks[id].refs--
		if p.blocks[id].refs == 0 {
			p.enqueue(id)
		}
	}
}

// store publishes the blocks from..to-1 of a sequence, which are full, and reports them as one event. The event shares
// the sequence's memory, which nobody writes to again.
func (p *pool) store(s *sequence, from, to int) {
	var parent *uint64
	if from > 0 {
		parent = &s.hashes[from-1]
	}
	event := prefix.Event{
		Kind: prefix.Stored, Hashes: s.hashes[from:to:to], Parent: parent, BlockTokens: p.blockTokens,
		Tokens: s.ids[from*p.blockTokens : to*p.blockTokens : to*p.blockTokens],
		LoRA:   s.space.lora, Salt: s.space.salt,
	}
	for i := from; i < to; i++ {
		id := s.blocks[i]
		b := &p.blocks[id]
		b.cached, b.hash, b.depth, b.space = true, s.hashes[i], int32(i), s.space
		b.hasParent = i > 0
		if i > 0 {
			b.parent = s.hashes[i-1]
		}
		copy(p.content(id), s.ids[i*p.blockTokens:(i+1)*p.blockTokens])
		p.link(id)
	}
	p.cached += to - from
	p.events = append(p.events, event)
}

// clear forgets all content of the device, as vLLM's resets do, not the host's. It reports false and does nothing while a
// block is held.
func (p *pool) clear() bool {
	if p.free != len(p.blocks)-1 {
		return false
	}
	for i := range p.blocks {
		p.blocks[i].cached = false
		p.blocks[i].prior, p.blocks[i].foll = none, none
	}
	clear(p.byHash)
	p.cached = 0
	p.events = append(p.events, prefix.Event{Kind: prefix.Cleared})
	return true
}

func (p *pool) used() int { return len(p.blocks) - 1 - p.free }

func (p *pool) content(id int32) []uint32 {
	at := int(id) * p.blockTokens
	return p.tokens[at : at+p.blockTokens]
}

// enqueue makes the block free: the last to be taken if it is cached, else the next.
func (p *pool) enqueue(id int32) {
	b := &p.blocks[id]
	if b.cached {
		b.prev, b.next = p.tail, none
	} else {
		b.prev, b.next = none, p.head
	}
	if b.prev == none {
		p.head = id
	} else {
		p.blocks[b.prev].next = id
	}
	if b.next == none {
		p.tail = id
	} else {
		p.blocks[b.next].prev = id
	}
	p.free++
}

func (p *pool) unqueue(id int32) {
	b := &p.blocks[id]
	if b.prev == none {
		p.head = b.next
	} else {
		p.blocks[b.prev].next = b.next
	}
	if b.next == none {
		p.tail = b.prev
	} else {
		p.blocks[b.next].prev = b.prev
	}
	b.prev, b.next = none, none
	p.free--
}

// link makes the block the newest copy of its hash.
func (p *pool) link(id int32) {
	b := &p.blocks[id]
	c, ok := p.byHash[b.hash]
	b.prior, b.foll = c.last, none
	if ok {
		p.blocks[c.last].foll = id
	} else {
		c.first = id
	}
	c.last = id
	p.byHash[b.hash] = c
}

// evict takes the block out of the cache.
func (p *pool) evict(id int32) {
	b := &p.blocks[id]
	c := p.byHash[b.hash]
	if b.prior == none {
		c.first = b.foll
	} else {
		p.blocks[b.prior].foll = b.foll
	}
	if b.foll == none {
		c.last = b.prior
	} else {
		p.blocks[b.foll].prior = b.prior
	}
	if c.first == none {
		delete(p.byHash, b.hash)
	} else {
		p.byHash[b.hash] = c
	}
	b.prior, b.foll = none, none
	b.cached = false
	p.cached--
}
