package prefix

import (
	"container/list"
	"slices"
)

// orphan is a reported block whose parent is not known: its own hash over its tokens is kept, so that its key follows as
// soon as the parent is reported.
type orphan struct {
	hash   uint64 // the engine's
	parent uint64 // the engine's hash of the block before
	sum    uint64 // of the block's tokens alone
	copies int32
	place  *list.Element
}

// orphans keeps them by their own and by their parent's hash, oldest first.
type orphans struct {
	byHash   map[uint64]*orphan
	byParent map[uint64][]*orphan
	order    *list.List // of *orphan, oldest in front
}

func newOrphans() *orphans {
	return &orphans{byHash: map[uint64]*orphan{}, byParent: map[uint64][]*orphan{}, order: list.New()}
}

func (os *orphans) len() int { return len(os.byHash) }

func (os *orphans) insert(o orphan) {
	kept := &o
	kept.place = os.order.PushBack(kept)
	os.byHash[o.hash] = kept
	os.byParent[o.parent] = append(os.byParent[o.parent], kept)
}

func (os *orphans) drop(o *orphan) {
	os.order.Remove(o.place)
	delete(os.byHash, o.hash)
	siblings := os.byParent[o.parent]
	siblings = slices.DeleteFunc(siblings, func(s *orphan) bool { return s == o })
	if len(siblings) == 0 {
		delete(os.byParent, o.parent)
	} else {
		os.byParent[o.parent] = siblings
	}
}

func (os *orphans) oldest() *orphan {
	front := os.order.Front()
	if front == nil {
		return nil
	}
	o, _ := front.Value.(*orphan)
	return o
}

// removeCopy takes one copy of an orphan; false if there is none.
func (os *orphans) removeCopy(h uint64) bool {
	o := os.byHash[h]
	if o == nil {
		return false
	}
	o.copies--
	if o.copies == 0 {
		os.drop(o)
	}
	return true
}

// addOrphan keeps one copy of a block whose parent is unknown; false if its hash is in use for other content. The
// oldest orphans go where there are too many.
func (x *exact) addOrphan(ix *Index, o orphan) bool {
	if known := x.orphans.byHash[o.hash]; known != nil {
		if known.parent != o.parent || known.sum != o.sum {
			return false
		}
		known.copies++
		x.copies++
		return true
	}
	o.copies = 1
	x.orphans.insert(o)
	x.copies++
	for x.orphans.len() > ix.cfg.OrphansMax {
		old := x.orphans.oldest()
		x.copies -= int(old.copies)
		x.orphans.drop(old)
		x.stats.OrphansDropped++
	}
	return true
}

// adopt follows the appearance of a block: copies of it that waited as an orphan join it, and the orphans that waited
// for it, and those that waited for these, get their keys.
func (x *exact) adopt(h uint64, key Key, sum uint64) {
	if o := x.orphans.byHash[h]; o != nil {
		x.orphans.drop(o)
		x.copies -= int(o.copies)
		if o.sum == sum {
			b := x.blocks[key]
			x.add(h, key, b.parent, b.root, o.copies)
		} else {
			x.stats.Conflicts++
		}
	}
	type parent struct {
		hash uint64
		key  Key
	}
	for pending := []parent{{h, key}}; len(pending) > 0; {
		p := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		for _, o := range slices.Clone(x.orphans.byParent[p.hash]) {
			x.orphans.drop(o)
			x.copies -= int(o.copies)
			child := chain(p.key, o.sum)
			x.add(o.hash, child, p.key, false, o.copies)
			pending = append(pending, parent{o.hash, child})
		}
	}
}
