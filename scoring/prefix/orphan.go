package prefix

import "slices"

// orphan is a block that was reported and whose key is not known: its parent was not reported (then its own hash over its
// tokens is kept, so that the key follows as soon as the parent is), or it was named alone and is to be told of by another
// store. Orphans are rare; they live in plain maps.
type orphan struct {
	name   uint64 // the engine's
	told   bool   // parent and sum are known
	parent uint64 // the engine's name of the block before
	sum    uint64 // of the block's tokens alone
	copies []planeCopies
	age    uint64 // numbers them in the order in which they came
	place  int    // among those that wait for the same parent
}

type planeCopies struct {
	p plane
	n int
}

// orphans keeps them by their own and by their parent's name, and in order, oldest first.
type orphans struct {
	byName   map[uint64]*orphan
	byParent map[uint64][]*orphan
	order    []*orphan // some are dropped already
	ages     uint64
}

func (os *orphans) len() int { return len(os.byName) }

func (os *orphans) insert(o orphan) *orphan {
	if os.byName == nil {
		os.byName, os.byParent = map[uint64]*orphan{}, map[uint64][]*orphan{}
	}
	kept := &o
	kept.age = os.ages
	os.ages++
	os.byName[o.name] = kept
	if o.told {
		os.await(kept)
	}
	if len(os.order) > 2*len(os.byName)+16 {
		os.order = slices.DeleteFunc(os.order, func(o *orphan) bool { return os.byName[o.name] != o })
	}
	os.order = append(os.order, kept)
	return kept
}

// await has an orphan wait for its parent.
func (os *orphans) await(o *orphan) {
	siblings := os.byParent[o.parent]
	o.place = len(siblings)
	os.byParent[o.parent] = append(siblings, o)
}

// drop takes the same time however many wait for the same parent: where what all conversations begin with was stored before
// anybody listened, all orphans do.
func (os *orphans) drop(o *orphan) {
	delete(os.byName, o.name)
	if !o.told {
		return
	}
	siblings := os.byParent[o.parent]
	last := len(siblings) - 1
	if last == 0 {
		delete(os.byParent, o.parent)
		return
	}
	siblings[o.place] = siblings[last]
	siblings[o.place].place = o.place
	siblings[last] = nil
	os.byParent[o.parent] = siblings[:last]
}

// oldest returns the oldest one; there is one.
func (os *orphans) oldest() *orphan {
	for os.byName[os.order[0].name] != os.order[0] {
		os.order = os.order[1:]
	}
	return os.order[0]
}

// remove takes one copy of an orphan from a plane; false if there is none.
func (os *orphans) remove(p plane, name uint64) bool {
	o := os.byName[name]
	if o == nil {
		return false
	}
	i := slices.IndexFunc(o.copies, func(c planeCopies) bool { return c.p == p })
	if i < 0 {
		return false
	}
	if o.copies[i].n--; o.copies[i].n == 0 {
		o.copies = slices.Delete(o.copies, i, i+1)
	}
	if len(o.copies) == 0 {
		os.drop(o)
	}
	return true
}

// orphan keeps one copy of a block whose key is not known; false if its name is in use for other content. The oldest go
// where there are too many.
func (sl *slot) orphan(ix *Index, o orphan, p plane) bool {
	os := &sl.orphans
	kept := os.byName[o.name]
	switch {
	case kept == nil:
		kept = os.insert(o)
	case !o.told:
	case !kept.told:
		kept.told, kept.parent, kept.sum = true, o.parent, o.sum
		os.await(kept)
	case kept.parent != o.parent || kept.sum != o.sum:
		return false
	}
	i := slices.IndexFunc(kept.copies, func(c planeCopies) bool { return c.p == p })
	switch {
	case i < 0:
		kept.copies = append(kept.copies, planeCopies{p, 1})
	case sl.cfg.Copies == AsSet:
		return true
	default:
		kept.copies[i].n++
	}
	sl.tally[p.tier()]++
	for os.len() > ix.cfg.OrphansMax {
		sl.dropOrphan(os.oldest())
		sl.stats.OrphansDropped++
	}
	return true
}

// dropOrphan forgets an orphan and its copies.
func (sl *slot) dropOrphan(o *orphan) {
	sl.orphans.drop(o)
	for _, c := range o.copies {
		sl.tally[c.p.tier()] -= c.n
	}
}

// joining is a block that has become known, whose waiting children may now get their keys.
type joining struct {
	name uint64
	id   uint32
}

// adopt follows the appearance of a name: copies that waited under it join it, and those who wait for it are to be joined.
func (sl *slot) adopt(name uint64, id uint32, sum uint64) {
	if o := sl.orphans.byName[name]; o != nil {
		sl.dropOrphan(o)
		if o.told && o.sum != sum {
			sl.stats.Conflicts++
			for _, c := range o.copies {
				sl.tear(name, c.n)
			}
		} else {
			sl.addAll(name, id, o.copies)
		}
	}
	if len(sl.orphans.byParent[name]) > 0 {
		sl.joining = append(sl.joining, joining{name, id})
		sl.join(chunkBlocks)
	}
}

// addAll adds the copies of an orphan under a name that may be new.
func (sl *slot) addAll(name uint64, id uint32, copies []planeCopies) {
	sl.scratch.strayed = true
	for _, c := range copies {
		sl.names.reserve(1)
		at, v := sl.names.locate(name)
		sl.add(c.p, at, name, v, id, c.n)
	}
}

// join gives keys to the children of blocks that have become known, and so on, at most that many.
func (sl *slot) join(most int) {
	for len(sl.joining) > 0 {
		parent := sl.joining[len(sl.joining)-1]
		waiting := sl.orphans.byParent[parent.name]
		if len(waiting) == 0 || sl.names.get(parent.name)&^odd != parent.id || sl.torn[parent.name] > 0 {
			sl.joining = sl.joining[:len(sl.joining)-1]
			continue
		}
		if most == 0 {
			return
		}
		most--
		o := waiting[0]
		sl.dropOrphan(o)
		id := sl.bank.intern(chain(sl.bank.entry(parent.id).key, o.sum), parent.id)
		sl.addAll(o.name, id, o.copies)
		if len(sl.orphans.byParent[o.name]) > 0 {
			sl.joining = append(sl.joining, joining{o.name, id})
		}
	}
}
