package prefix

// place is where in the tree of sequences the next block goes: at a root or behind a block, which is known by its entry
// or, as long as nobody told of it, by the engine's name alone.
type place struct {
	id   uint32 // the parent's entry, 0 at a root
	key  Key    // the parent's, or the namespace's seed
	name uint64 // the engine's name of the parent, where it is not known
	kind placeKind
}

type placeKind uint8

const (
	known placeKind = iota
	unknown
	torn // the parent's name is in use for several contents
)

// behind returns the place behind the block that the engine calls name.
func (sl *slot) behind(name uint64) place {
	v := sl.names.get(name)
	switch {
	case sl.torn[name] > 0:
		return place{kind: torn}
	case v == 0:
		return place{name: name, kind: unknown}
	default:
		return place{id: v &^ odd, key: sl.bank.entry(v &^ odd).key}
	}
}

// store adds a copy of each described block of a part, under the bank's lock. It reports false if the rest of the event is
// to be left out: it is a report, or a name is in use for other content.
func (sl *slot) store(ix *Index, part *part) bool {
	if sl.isReport(ix, part) {
		sl.stats.Reports++
		return false
	}
	e, hashes := part.event, part.hashes()
	at := place{}
	switch {
	case part.from > 0:
		at = sl.behind(e.Hashes[part.from-1])
	case e.Parent != nil:
		if at = sl.behind(*e.Parent); at.kind == unknown {
			sl.stats.UnknownParents++
		}
	default:
		at.key = ix.seed(e)
	}
	sums := sl.scratch.sums[part.at:]
	if at.kind == known && len(hashes) > 1 {
		key := at.key
		for _, sum := range sums[:len(hashes)] {
			key = chain(key, sum)
			sl.scratch.sink += sl.bank.touch(key)
		}
	}
	for i := range hashes {
		if at.kind == torn || !sl.storeBlock(ix, part, i, &at, sums[i]) {
			sl.stats.Conflicts += uint64(len(hashes) - i)
			for _, name := range e.Hashes[part.from+i : part.of] {
				sl.tear(name, 1)
			}
			return false
		}
	}
	return true
}

// storeBlock adds one copy of a part's i-th block and moves at behind it. It reports false if its name is in use for other
// content.
func (sl *slot) storeBlock(ix *Index, part *part, i int, at *place, sum uint64) bool {
	b, p, name := sl.bank, part.p, part.event.Hashes[part.from+i]
	spot, v := sl.spot(part.at+i, name)
	id := v &^ odd
	if at.kind == unknown {
		// A further copy of a known block whose parent was evicted meanwhile: its place in the tree is known.
		if v != 0 && !b.follows(id, sum) {
			if !sl.discard(spot, name) {
				return false
			}
			v = 0
		}
		if v == 0 {
			parent := at.name
			at.name = name
			return sl.orphan(ix, orphan{name: name, parent: parent, sum: sum, told: true}, p)
		}
	} else {
		key := chain(at.key, sum)
		if v != 0 && b.entry(id).key != key {
			if !sl.discard(spot, name) {
				return false
			}
			v = 0
		}
		if v == 0 {
			id = b.intern(key, at.id)
		}
		at.key = key
	}
	sl.add(p, spot, name, v, id, 1)
	*at = place{id: id, key: b.entry(id).key}
	if v == 0 && sl.orphans.len() > 0 {
		sl.adopt(name, id, sum)
	}
	return true
}

// follows says whether an entry is that of a block with such tokens behind its parent.
func (b *bank) follows(id uint32, sum uint64) bool {
	parent := b.entry(id).parent
	return parent != 0 && chain(b.entry(parent).key, sum) == b.entry(id).key
}

// attach adds a copy of a block that was told of before, by its name alone. One that is told of later is kept until then
// if it may come; else it is ignored.
func (sl *slot) attach(ix *Index, part *part, name uint64, at spot, v uint32) {
	switch {
	case sl.torn[name] > 0:
		sl.stats.Conflicts++
	case v != 0:
		sl.add(part.p, at, name, v, v&^odd, 1)
	case part.form == awaited:
		sl.orphan(ix, orphan{name: name}, part.p)
	default:
		sl.stats.UnknownNames++
	}
}

// tear notes copies of a name that are of other content than the one it is known for, or whose place is not known because
// they are behind such a one. What was first stays: every removal of the name takes a copy of it first, so it is never claimed
// for longer than it is held. But what comes behind the name may belong to either, until the engine has removed as many.
func (sl *slot) tear(name uint64, copies int) {
	if sl.torn == nil {
		sl.torn = map[uint64]int{}
	}
	sl.torn[name] += copies
}

// mend is the end of one copy that tear noted; false if there is none.
func (sl *slot) mend(name uint64) bool {
	n := sl.torn[name]
	if n == 1 {
		delete(sl.torn, name)
	} else if n > 1 {
		sl.torn[name] = n - 1
	}
	return n > 0
}
