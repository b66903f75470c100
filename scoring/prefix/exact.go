package prefix

import "slices"

// exact follows an engine's cache through its events. It counts copies, because an engine may hold several of one block
// (a repeated full hit recomputes the last one) and reports the end of each. See design.md.
type exact struct {
	stats   *Stats
	blocks  map[Key]block
	engine  map[uint64]reported // the engine's hashes of held blocks
	orphans *orphans

	held   int // blocks with copies
	holes  int // held blocks whose parent is not held; without any the held set is closed under prefixes
	copies int // of held blocks and orphans
}

// block is one block of the tree of sequences: held, or kept without copies because held children name it.
type block struct {
	parent   Key
	copies   int32
	children int32 // held blocks whose parent this is
	root     bool  // first of a sequence: its parent is a namespace's seed
}

// reported is one engine hash of a held block. Two hashes may name one block; the copies of each end on their own.
type reported struct {
	key    Key
	copies int32
}

func newExact(stats *Stats) *exact {
	return &exact{stats: stats, blocks: map[Key]block{}, engine: map[uint64]reported{}, orphans: newOrphans()}
}

func (x *exact) holds(k Key) bool { return x.blocks[k].copies > 0 }

// run returns how many leading keys are held. Without holes the held set is closed under prefixes and bisection is
// exact; with one, a block may be held beyond a block that is not, so every key is looked at.
func (x *exact) run(keys []Key) int {
	if len(keys) == 0 || !x.holds(keys[0]) {
		return 0
	}
	if x.holes == 0 {
		return bisect(1, len(keys), func(i int) bool { return x.holds(keys[i]) })
	}
	n := 1
	for n < len(keys) && x.holds(keys[n]) {
		n++
	}
	return n
}

// apply applies one event of the engine.
func (x *exact) apply(ix *Index, e *Event) {
	switch e.Kind {
	case Stored:
		x.store(ix, e)
	case Removed:
		for _, h := range e.Hashes {
			x.remove(h)
		}
	case Cleared:
		*x = *newExact(x.stats)
	case NumEventKinds:
	}
}

// store adds a copy of each block that an event names. A partial last block, with or without a hash, is left out.
func (x *exact) store(ix *Index, e *Event) {
	size := ix.cfg.BlockTokens
	if e.BlockTokens != size {
		x.stats.OtherBlockSize++
		return
	}
	full := len(e.Tokens) / size
	partial := (len(e.Tokens) + size - 1) / size
	if len(e.Hashes) != full && len(e.Hashes) != partial {
		x.stats.Malformed++ // no telling which hash belongs to which tokens
		return
	}
	if e.Parent != nil && slices.Contains(e.Hashes, *e.Parent) {
		x.stats.Malformed++ // a block cannot come before itself
		return
	}
	at := place{root: true}
	if e.Parent == nil {
		at.key = ix.seed(e)
	} else {
		at = x.after(*e.Parent)
		if !at.known() {
			x.stats.UnknownParents++
		}
	}
	var hasher blockHasher
	for i, h := range e.Hashes[:full] {
		sum := hasher.sum(e.Tokens[i*size : (i+1)*size])
		if !x.storeBlock(ix, at, h, sum) {
			x.stats.Conflicts += uint64(full - i)
			return
		}
		at = x.after(h)
	}
}

// place is where in the tree of sequences the next block goes: at a root or behind a block, which is known by its key
// or, as long as nobody reported it, by its engine hash alone.
type place struct {
	key     Key    // the parent's, or the namespace's seed
	root    bool   // key is a seed
	unknown bool   // the parent was not reported: key means nothing
	hash    uint64 // the parent's engine hash, unless root
}

func (p place) known() bool { return !p.unknown }

// after returns the place behind the block that the engine calls h.
func (x *exact) after(h uint64) place {
	r, ok := x.engine[h]
	return place{key: r.key, unknown: !ok, hash: h}
}

// storeBlock adds one copy of the block with engine hash h and token hash sum. It reports false if h is in use for
// other content.
func (x *exact) storeBlock(ix *Index, at place, h, sum uint64) bool {
	r, reportedBefore := x.engine[h]
	switch {
	case at.known():
		key := chain(at.key, sum)
		if reportedBefore && r.key != key {
			return false
		}
		x.add(h, key, at.key, at.root, 1)
		if !reportedBefore {
			x.adopt(h, key, sum)
		}
		return true
	case reportedBefore:
		// A further copy of a known block whose parent was evicted in the meantime: its place in the tree is known.
		b := x.blocks[r.key]
		x.add(h, r.key, b.parent, b.root, 1)
		return true
	default:
		return x.addOrphan(ix, orphan{hash: h, parent: at.hash, sum: sum})
	}
}

// add adds copies of a block under one of its engine hashes.
func (x *exact) add(h uint64, key, parent Key, root bool, copies int32) {
	r := x.engine[h]
	r.key = key
	r.copies += copies
	x.engine[h] = r
	x.copies += int(copies)

	b := x.blocks[key]
	if b.copies == 0 {
		b.parent, b.root = parent, root
		x.held++
		x.holes -= int(b.children)
		if !root {
			p := x.blocks[parent]
			p.children++
			if p.copies == 0 {
				x.holes++
			}
			x.blocks[parent] = p
		}
	}
	b.copies += copies
	x.blocks[key] = b
}

// remove takes one copy of the block that the engine calls h.
func (x *exact) remove(h uint64) {
	r, ok := x.engine[h]
	if !ok {
		if x.orphans.removeCopy(h) {
			x.copies--
		} else {
			x.stats.UnknownRemovals++
		}
		return
	}
	x.copies--
	r.copies--
	if r.copies == 0 {
		delete(x.engine, h)
	} else {
		x.engine[h] = r
	}
	b := x.blocks[r.key]
	b.copies--
	if b.copies > 0 {
		x.blocks[r.key] = b
		return
	}
	x.held--
	x.holes += int(b.children)
	if b.children == 0 {
		delete(x.blocks, r.key)
	} else {
		x.blocks[r.key] = b
	}
	if !b.root {
		x.lostChild(b.parent)
	}
}

// lostChild notes that a held child of a block is gone, and forgets the block if it was kept only for that.
func (x *exact) lostChild(parent Key) {
	p := x.blocks[parent]
	p.children--
	if p.copies > 0 {
		x.blocks[parent] = p
		return
	}
	x.holes--
	if p.children == 0 {
		delete(x.blocks, parent)
	} else {
		x.blocks[parent] = p
	}
}
