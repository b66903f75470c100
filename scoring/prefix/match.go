package prefix

import (
	"math/bits"
	"time"

	"plimsoll/scoring"
)

// Match appends to dst[:0], for every slot, how many leading blocks of keys the slot holds at now; free and void slots
// hold none. A block counts if the engine's events say so (or, on a Routed slot, the memory of what was routed there),
// or if a speculation covers it. That a full hit still recomputes the last block is for the caller to know.
func (ix *Index) Match(now time.Time, keys []Key, dst []Overlap) []Overlap {
	nano := ix.since(now)
	for {
		seen := ix.clock.Load()
		if seen >= nano || ix.clock.CompareAndSwap(seen, nano) {
			break
		}
	}
	f := ix.fleet.Load()
	dst = dst[:0]
	for range f.slots {
		dst = append(dst, Overlap{})
	}
	if len(keys) == 0 {
		return dst
	}
	for i, b := range f.banks {
		if nano >= b.expiry.Load() {
			ix.expire(i, nano)
		}
		b.mu.RLock()
		b.match(keys, dst[i*bankSlots:min((i+1)*bankSlots, len(dst))])
		b.mu.RUnlock()
	}
	return dst
}

// look is one look-up: how deep each slot of a bank goes along keys.
type look struct {
	b      *bank
	keys   []Key
	tier   Tier // up to which tiers count
	plain  bool // only plane 0 counts
	depths *[bankSlots]int32
}

// match fills in the overlaps of the bank's slots. The lock is held.
func (b *bank) match(keys []Key, dst []Overlap) {
	var depths [bankSlots]int32
	live := b.live &^ b.void & (^uint64(0) >> (bankSlots - len(dst)))
	l := look{b: b, keys: keys, plain: true, depths: &depths}
	l.slots(live &^ b.hybrid)
	if b.hybrid&live != 0 {
		l.plain = false
		l.slots(live & b.hybrid)
	}
	for w := live; w != 0; w &= w - 1 {
		col := bits.TrailingZeros64(w)
		dst[col].Device = scoring.Blocks(depths[col])
	}
	host, disk := live&b.tiers[Host], live&b.tiers[Disk]
	if host|disk == 0 {
		return
	}
	l.plain = false
	device := depths
	l.tier = Host
	l.slots(host)
	upTo := depths
	for w := host; w != 0; w &= w - 1 {
		col := bits.TrailingZeros64(w)
		dst[col].Host = scoring.Blocks(max(0, depths[col]-device[col]))
	}
	l.tier = Disk
	l.slots(disk)
	for w := disk; w != 0; w &= w - 1 {
		col := bits.TrailingZeros64(w)
		dst[col].Disk = scoring.Blocks(max(0, depths[col]-upTo[col]))
	}
}

// slots finds the depths of a set of slots.
func (l *look) slots(set uint64) {
	if set == 0 {
		return
	}
	for w := set; w != 0; w &= w - 1 {
		l.depths[bits.TrailingZeros64(w)] = 0
	}
	if sound := set &^ l.b.holed; sound != 0 {
		if first := l.at(0) & sound; first != 0 {
			last := len(l.keys) - 1
			all := l.at(last) & first
			l.settle(all, len(l.keys))
			if first != all {
				l.search(first&^all, 1, last)
			}
		}
	}
	if holed := set & l.b.holed; holed != 0 {
		l.walk(holed)
	}
	if l.b.hybrid&set != 0 {
		l.windows(set & l.b.hybrid)
	}
}

func (l *look) settle(set uint64, depth int) {
	for w := set; w != 0; w &= w - 1 {
		l.depths[bits.TrailingZeros64(w)] = int32(depth) //nolint:gosec // a prompt has fewer blocks
	}
}

// at returns the slots that have key i.
func (l *look) at(i int) uint64 { return l.have(l.b.find(l.keys[i])) }

// have returns the slots that have an entry as a hit needs it: claimed, or in every group that is needed from the start
// on, in a tier that counts.
func (l *look) have(id uint32) uint64 {
	b := l.b
	if id == 0 {
		return 0
	}
	if l.plain {
		return b.has(0, id)
	}
	w, needed := ^uint64(0), uint64(0)
	for i := range b.groups {
		full := b.groups[i].full
		needed |= full
		w &= l.in(i, id) | ^full
	}
	return w&needed | b.claims.word(id)
}

// in returns the slots that have an entry in a group, in a tier that counts.
func (l *look) in(groupIndex int, id uint32) uint64 {
	w := l.b.has(planeOf(groupIndex, Device), id)
	for t := Host; t <= l.tier; t++ {
		w |= l.b.content(planeOf(groupIndex, t), id)
	}
	return w
}

// fan is how many keys are looked up at once, so that their loads overlap.
const fan = 4

// search finds the depths of slots without holes, which all have low blocks and not more than high. Each look-up tells of
// all of them whether they go further; they part where their depths do.
func (l *look) search(set uint64, low, high int) {
	for low < high {
		// points[j] blocks: those that have key points[j]-1 go as far. At least one, at most high.
		var words [fan]uint64
		var points [fan]int
		width := high - low
		n := min(fan, width)
		for j := range n {
			points[j] = low + (width*(j+1)+n)/(n+1)
		}
		for j := range n {
			words[j] = l.at(points[j]-1) & set
		}
		// The words shrink from left to right. Of the parts between them all but the largest depth are searched apart.
		end := high
		for j := n - 1; j >= 0; j-- {
			if part := words[j]; part != 0 {
				l.search(part, points[j], end)
				set &^= part
				for i := range j {
					words[i] &^= part
				}
			}
			end = points[j] - 1
		}
		if set == 0 {
			return
		}
		high = end
	}
	l.settle(set, low)
}

// walk finds the depths of slots with holes: every key is looked at from the start on.
func (l *look) walk(set uint64) {
	id := uint32(0)
	for i, key := range l.keys {
		id = l.b.following(id, key)
		next := l.have(id) & set
		l.settle(set&^next, i)
		if set = next; set == 0 {
			return
		}
	}
	l.settle(set, len(l.keys))
}

// windows shortens the hits of hybrid models: one of k blocks needs in each sliding group those before k that the window
// touches. A missing one leaves the blocks before it as the next candidate.
func (l *look) windows(set uint64) {
	b := l.b
	for i := range b.groups {
		if b.groups[i].sliding&set != 0 {
			break
		}
		if i == len(b.groups)-1 {
			return
		}
	}
	for w := set; w != 0; w &= w - 1 {
		col := bits.TrailingZeros64(w)
		l.depths[col] = int32(l.windowed(col, int(l.depths[col]))) //nolint:gosec // it shrinks
	}
}

func (l *look) windowed(col, depth int) int {
	b, bit := l.b, uint64(1)<<col
again:
	if depth == 0 {
		return 0
	}
	last := b.find(l.keys[depth-1])
	for i := range b.groups {
		g := &b.groups[i]
		if g.sliding&bit == 0 {
			continue
		}
		id := last
		for at := depth - 1; at >= max(0, depth-int(g.windows[col])); at-- {
			if l.in(i, id)&bit == 0 {
				depth = at
				goto again
			}
			id = b.entry(id).parent
		}
	}
	return depth
}
