package kvmodel

import (
	"math/rand/v2"
	"slices"

	"plimsoll/scoring/prefix"
)

// Config is the shape of an engine.
type Config struct {
	DeviceBlocks int
	HostBlocks   int // 0: no host tier
	Copies       prefix.Copies
	RunningMax   int // sequences served at once
}

// physical is a block of device memory. free ones with content are on a ring, in the order in which they are taken.
type physical struct {
	node       Node // none: no content
	pins       int32
	prev, next int32
}

// Engine is a random engine and the truth about its cache.
type Engine struct {
	lib *Library
	cfg Config
	rng *rand.Rand

	blocks  []physical // blocks[0] is the ring's head and no block
	device  map[Node][]int32
	host    map[Node]uint64 // by when it was last used
	clock   uint64
	running [][]int32
	path    []Node

	events []prefix.Event
}

// New returns an engine with an empty cache.
func New(lib *Library, cfg Config, rng *rand.Rand) *Engine {
	e := &Engine{lib: lib, cfg: cfg, rng: rng}
	e.Restart()
	return e
}

// Restart begins a new life: the cache is empty and nothing is said about it.
func (e *Engine) Restart() {
	e.blocks = make([]physical, e.cfg.DeviceBlocks+1)
	e.device, e.host, e.running, e.events = map[Node][]int32{}, map[Node]uint64{}, nil, nil
	for i := range e.blocks {
		e.blocks[i].node = none
		if i > 0 {
			e.free(int32(i))
		} else {
			e.blocks[0].prev, e.blocks[0].next = 0, 0
		}
	}
}

// Step serves or ends a sequence, or copies blocks to the host, and returns what the engine says about it: nil if nothing.
func (e *Engine) Step() []prefix.Event {
	e.events = nil
	switch {
	case len(e.running) >= e.cfg.RunningMax, len(e.running) > 0 && e.rng.IntN(2) == 0:
		e.end()
	default:
		e.Serve(e.text())
	}
	if e.cfg.HostBlocks > 0 && e.rng.IntN(2) == 0 {
		e.offload()
	}
	return e.events
}

// text draws what is served next. A text of one block would be stored again whole when it is hit, and on the wire a second
// copy of a first block looks like a report of what is there (wire contract, A.1.5), which an index has to take it for.
func (e *Engine) text() Node {
	n := Node(e.rng.IntN(e.lib.Len()))
	if e.lib.depth[n] == 0 && len(e.device[n]) > 0 {
		return e.text()
	}
	return n
}

// Reset drops the whole cache. It is refused, as by real engines, while sequences run.
func (e *Engine) Reset() []prefix.Event {
	if len(e.running) > 0 {
		return nil
	}
	e.Restart()
	return []prefix.Event{{Kind: prefix.Cleared}}
}

// Serve computes a text as far as the cache has room. What it says is appended to what Step returns.
func (e *Engine) Serve(n Node) {
	e.path = e.lib.Path(e.path[:0], n)
	held := 0
	var sequence []int32
	for held < len(e.path) && len(e.device[e.path[held]]) > 0 {
		held++
	}
	if held == len(e.path) && e.cfg.Copies == prefix.Counted {
		held-- // the last block is always computed, into a block of its own
	}
	for _, node := range e.path[:held] {
		at := e.device[node][0]
		if e.blocks[at].pins == 0 {
			e.unlink(at)
		}
		e.blocks[at].pins++
		sequence = append(sequence, at)
	}
	computed := e.path[held:]
	for i, node := range computed {
		at := e.blocks[0].next
		if at == 0 {
			computed = computed[:i]
			break
		}
		e.unlink(at)
		e.evict(at)
		e.blocks[at].node, e.blocks[at].pins = node, 1
		sequence = append(sequence, at)
	}
	e.store(computed)
	for i, node := range computed {
		e.device[node] = append(e.device[node], sequence[held+i])
	}
	e.running = append(e.running, sequence)
}

// store says that blocks were computed, in chunks as a prefill is.
func (e *Engine) store(nodes []Node) {
	for len(nodes) > 0 {
		if e.cfg.Copies == prefix.AsSet && len(e.device[nodes[0]]) > 0 {
			nodes = nodes[1:] // it is there, and said only once
			continue
		}
		n := min(len(nodes), 1+e.rng.IntN(4))
		for i := 1; i < n && e.cfg.Copies == prefix.AsSet; i++ {
			if len(e.device[nodes[i]]) > 0 {
				n = i
			}
		}
		e.events = append(e.events, e.stored(nodes[:n]))
		nodes = nodes[n:]
	}
}

func (e *Engine) stored(nodes []Node) prefix.Event {
	first := nodes[0]
	space := e.lib.space[first]
	ev := prefix.Event{Kind: prefix.Stored, BlockTokens: e.lib.BlockTokens, LoRA: space.LoRA}
	if parent := e.lib.parent[first]; parent != none {
		h := e.hash(parent)
		ev.Parent = &h
	} else {
		ev.Salt = space.Salt
	}
	for _, n := range nodes {
		ev.Hashes = append(ev.Hashes, e.hash(n))
		ev.Tokens = append(ev.Tokens, e.lib.Tokens(n)...)
	}
	return ev
}

// evict takes a block's content away.
func (e *Engine) evict(at int32) {
	node := e.blocks[at].node
	if node == none {
		return
	}
	copies := e.device[node]
	i := slices.Index(copies, at)
	copies = slices.Delete(copies, i, i+1)
	e.device[node] = copies
	if len(copies) == 0 {
		delete(e.device, node)
	} else if e.cfg.Copies == prefix.AsSet {
		return // the others keep it there
	}
	e.events = append(e.events, prefix.Event{Kind: prefix.Removed, Hashes: []uint64{e.hash(node)}})
}

// end frees a running sequence, its last block first, so that this one is taken first.
func (e *Engine) end() {
	i := e.rng.IntN(len(e.running))
	sequence := e.running[i]
	e.running = slices.Delete(e.running, i, i+1)
	for _, at := range slices.Backward(sequence) {
		if e.blocks[at].pins--; e.blocks[at].pins == 0 {
			e.free(at)
		}
	}
}

// offload copies some of what is on the device to the host, which makes room by dropping what was used least recently.
func (e *Engine) offload() {
	n := Node(e.rng.IntN(e.lib.Len()))
	e.path = e.lib.Path(e.path[:0], n)
	var hashes, dropped []uint64
	for _, node := range e.path {
		if len(e.device[node]) == 0 {
			break
		}
		e.clock++
		if _, known := e.host[node]; !known {
			if len(e.host) >= e.cfg.HostBlocks {
				dropped = append(dropped, e.hash(e.dropHost()))
			}
			hashes = append(hashes, e.hash(node))
		}
		e.host[node] = e.clock
	}
	if len(dropped) > 0 {
		e.events = append(e.events, prefix.Event{Kind: prefix.Removed, Hashes: dropped, Tier: prefix.Host})
	}
	if len(hashes) > 0 {
		e.events = append(e.events, prefix.Event{Kind: prefix.Stored, Hashes: hashes, Tier: prefix.Host})
	}
}

func (e *Engine) dropHost() Node {
	oldest, at := none, uint64(0)
	for node, used := range e.host {
		if oldest == none || used < at {
			oldest, at = node, used
		}
	}
	delete(e.host, oldest)
	return oldest
}

// free puts a block at the end of the ring.
func (e *Engine) free(at int32) {
	last := e.blocks[0].prev
	e.blocks[at].prev, e.blocks[at].next = last, 0
	e.blocks[last].next = at
	e.blocks[0].prev = at
}

func (e *Engine) unlink(at int32) {
	b := e.blocks[at]
	e.blocks[b.prev].next = b.next
	e.blocks[b.next].prev = b.prev
}

// hash is what the engine calls a block. Real engines give the same names in every process and every life.
func (e *Engine) hash(n Node) uint64 {
	h := (uint64(n) + 1) * 0xbf58476d1ce4e5b9
	return h ^ h>>29
}

// Blocks returns how many distinct blocks are on the device.
func (e *Engine) Blocks() int { return len(e.device) }

// Copies returns how many blocks of the device have content.
func (e *Engine) Copies() int {
	n := 0
	for _, copies := range e.device {
		n += len(copies)
	}
	return n
}

// Running returns how many sequences are being served.
func (e *Engine) Running() int { return len(e.running) }

// Overlap is the truth about the text that ends with n.
func (e *Engine) Overlap(n Node) prefix.Overlap {
	var o prefix.Overlap
	path := e.lib.Path(nil, n)
	for len(path) > 0 && len(e.device[path[0]]) > 0 {
		o.Device++
		path = path[1:]
	}
	for ; len(path) > 0; path = path[1:] {
		if _, held := e.host[path[0]]; !held && len(e.device[path[0]]) == 0 {
			break
		}
		o.Host++
	}
	return o
}
