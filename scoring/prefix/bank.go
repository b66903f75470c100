package prefix

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
)

// bankSlots is how many slots share a bank: one for each bit of a word.
const bankSlots = 64

// groupsMax bounds the cache groups of a hybrid model.
const groupsMax = 16

// bank is the shared tree of blocks of up to 64 slots: one entry a block, whoever holds it, and a bit a slot. mu guards
// everything; writers hold it for at most chunkBlocks blocks at a time, so no reader waits long.
//
// A slot's content is a set of entries for each plane, which is a tier of a cache group. What is claimed (see
// speculate.go) is a further set, the same for all groups of the device.
type bank struct {
	mu sync.RWMutex
	table

	groups []group
	planes []bitmap // by group and tier; that of plane 0 is in the entries
	claims bitmap
	late   bitmap // entries whose names linger
	double dict   // claims of an entry by a slot beyond the first
	// branches counts, for an entry with several children, those that a slot has in a plane. Of an only child its own bits
	// tell.
	branches dict
	holes    [][bankSlots]int32 // by plane: what a slot has there without the block before

	held [bankSlots][NumTiers]int // entries a slot holds there, those of each group counted

	live   uint64           // slots in use
	void   uint64           // slots of which nothing is known
	told   uint64           // slots whose groups are known; of the others the first group is assumed
	holed  uint64           // slots with holes in a plane that a hit needs from the start: they are walked, not bisected
	hybrid uint64           // slots that need more than plane 0
	tiers  [NumTiers]uint64 // slots that had blocks there since they were void

	sink    uint32       // see dict.touch
	wanting atomic.Int64 // buckets of the index that it will soon grow to, 0 if it need not
	expiry  atomic.Int64 // when the first claim of any slot ends, by the index's clock
}

// group is a cache group as the engines number it.
type group struct {
	number  int              // unnumbered as long as no event named one
	full    uint64           // slots that have it with full attention
	sliding uint64           // slots that have it with a window
	windows [bankSlots]int32 // blocks before the end of a hit that the window touches
}

const unnumbered = -1

// plane is a tier of a group.
type plane int

func planeOf(groupIndex int, t Tier) plane { return plane(groupIndex*int(NumTiers) + int(t)) }

func (p plane) tier() Tier { return Tier(int(p) % int(NumTiers)) } //nolint:gosec // below NumTiers

func (p plane) group() int { return int(p) / int(NumTiers) }

func newBank() *bank {
	b := &bank{table: newTable()}
	b.addGroup(unnumbered)
	b.expiry.Store(math.MaxInt64)
	return b
}

func (b *bank) addGroup(number int) {
	b.groups = append(b.groups, group{number: number})
	b.planes = append(b.planes, make([]bitmap, NumTiers)...)
	b.holes = append(b.holes, make([][bankSlots]int32, NumTiers)...)
}

// join makes a column a slot of which nothing is known but that its cache is empty.
func (b *bank) join(col int) {
	b.live |= 1 << col
	b.forgetGroups(col)
}

// forgetGroups is for a slot that holds nothing.
func (b *bank) forgetGroups(col int) {
	bit := uint64(1) << col
	for i := range b.groups {
		b.groups[i].full &^= bit
		b.groups[i].sliding &^= bit
	}
	for t := range b.tiers {
		b.tiers[t] &^= bit
	}
	b.groups[0].full |= bit
	b.told &^= bit
	b.hybrid &^= bit
	b.countHoled(col)
}

// bitmap has a word for each entry, in pages that are made when the first bit of theirs is set.
type bitmap struct {
	pages []*[pageSize]uint64
	count int // bits set
}

func (m *bitmap) word(id uint32) uint64 {
	if page := id >> pageBits; int(page) < len(m.pages) && m.pages[page] != nil {
		return m.pages[page][id%pageSize]
	}
	return 0
}

func (m *bitmap) set(id uint32, bit uint64) {
	for int(id>>pageBits) >= len(m.pages) {
		m.pages = append(m.pages, nil)
	}
	page := &m.pages[id>>pageBits]
	if *page == nil {
		*page = new([pageSize]uint64)
	}
	(*page)[id%pageSize] |= bit
	m.count++
}

func (m *bitmap) unset(id uint32, bit uint64) {
	m.pages[id>>pageBits][id%pageSize] &^= bit
	m.count--
}

// content returns the slots that hold an entry in a plane by what their engines said.
func (b *bank) content(p plane, id uint32) uint64 {
	if p == 0 {
		return b.entry(id).device
	}
	if b.planes[p].count == 0 {
		return 0
	}
	return b.planes[p].word(id)
}

// has returns the slots that have an entry in a plane: hold it there, or claim it, which counts as the device.
func (b *bank) has(p plane, id uint32) uint64 {
	w := b.content(p, id)
	if b.claims.count > 0 && p.tier() == Device {
		w |= b.claims.word(id)
	}
	return w
}

// groupIndex returns the index of a group by its number; false if no slot has it.
func (b *bank) groupIndex(number int) (int, bool) {
	for i := range b.groups {
		if b.groups[i].number == number {
			return i, true
		}
	}
	return 0, false
}

// learnGroup notes that a slot has a group and returns its index; false if there are too many groups. What was learned
// first stays until the slot is void.
func (b *bank) learnGroup(col int, e *Event, window int) (int, bool) {
	i, ok := b.groupIndex(e.Group)
	switch {
	case ok:
	case b.groups[0].number == unnumbered:
		b.groups[0].number = e.Group
	case len(b.groups) == groupsMax:
		return 0, false
	default:
		i = len(b.groups)
		b.addGroup(e.Group)
		b.countClaims(planeOf(i, Device))
	}
	g, bit := &b.groups[i], uint64(1)<<col
	if b.told&bit != 0 && (g.full|g.sliding)&bit != 0 {
		return i, true
	}
	if b.told&bit == 0 {
		b.groups[0].full &^= bit
		b.told |= bit
	}
	if e.Attention == SlidingWindow {
		g.sliding |= bit
		g.windows[col] = int32(min(window, math.MaxInt32)) //nolint:gosec // bounded
	} else {
		g.full |= bit
	}
	if i > 0 || e.Attention == SlidingWindow {
		b.hybrid |= bit
	}
	b.countHoled(col)
	return i, true
}

// countClaims counts in a new group's plane on the device what is claimed already.
func (b *bank) countClaims(p plane) {
	if b.claims.count == 0 {
		return
	}
	for page := range b.claims.pages {
		if b.claims.pages[page] == nil {
			continue
		}
		for i, w := range b.claims.pages[page] {
			id := uint32(page<<pageBits | i) //nolint:gosec // ids have 31 bits
			for ; w != 0; w &= w - 1 {
				b.gainedBehind(bits.TrailingZeros64(w), p, id)
			}
		}
	}
}

// stock makes what the index of keys will grow into, before the lock is taken: to empty so much memory takes a while.
func (b *bank) stock() {
	n := b.wanting.Load()
	if n == 0 || !b.wanting.CompareAndSwap(n, 0) {
		return
	}
	spare := make([]bucket, n)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spare = spare
}

// want asks for what stock makes, and gives up what is not needed any more. The lock is held.
func (b *bank) want() {
	switch {
	case b.full() && len(b.spare) < b.next():
		b.wanting.Store(int64(b.next()))
	case b.spare != nil && b.roomy():
		b.spare = nil
	}
}

// hold notes that a slot now holds an entry in a plane; it did not before.
func (b *bank) hold(col int, p plane, id uint32) {
	bit := uint64(1) << col
	claimed := p.tier() == Device && b.claims.count > 0 && b.claims.word(id)&bit != 0
	if p == 0 {
		b.entry(id).device |= bit
	} else {
		b.planes[p].set(id, bit)
	}
	b.tiers[p.tier()] |= bit
	b.held[col][p.tier()]++
	if !claimed {
		b.gained(col, p, id)
	}
}

// drop is the end of hold.
func (b *bank) drop(col int, p plane, id uint32) {
	bit := uint64(1) << col
	if p == 0 {
		b.entry(id).device &^= bit
	} else {
		b.planes[p].unset(id, bit)
	}
	b.held[col][p.tier()]--
	if p.tier() != Device || b.claims.count == 0 || b.claims.word(id)&bit == 0 {
		b.lost(col, p, id)
	}
	b.tidy(id)
}

// gained counts the holes that a slot closes and opens as it gets an entry in a plane.
func (b *bank) gained(col int, p plane, id uint32) {
	if b.entry(id).child != 0 {
		b.changeHoles(col, p, -b.children(col, p, id))
	}
	b.gainedBehind(col, p, id)
}

// gainedBehind is the part of gained that looks at the block before.
func (b *bank) gainedBehind(col int, p plane, id uint32) {
	parent := b.entry(id).parent
	if parent == 0 {
		return
	}
	if b.has(p, parent)>>col&1 == 0 {
		b.changeHoles(col, p, 1)
	}
	if b.entry(parent).child&branching != 0 {
		b.branches.add(branchWord(col, p, parent), 1)
	}
}

// lost is the end of gained: the entry's bit is not set any more.
func (b *bank) lost(col int, p plane, id uint32) {
	l := b.entry(id)
	if l.child != 0 {
		b.changeHoles(col, p, b.children(col, p, id))
	}
	if l.parent == 0 {
		return
	}
	if b.has(p, l.parent)>>col&1 == 0 {
		b.changeHoles(col, p, -1)
	}
	if b.entry(l.parent).child&branching != 0 {
		b.branches.add(branchWord(col, p, l.parent), -1)
	}
}

func (b *bank) changeHoles(col int, p plane, change int) {
	if change != 0 {
		b.holes[p][col] += int32(change) //nolint:gosec // fewer than entries
		b.countHoled(col)
	}
}

// countHoled says anew whether a slot must be walked.
func (b *bank) countHoled(col int) {
	bit := uint64(1) << col
	b.holed &^= bit
	for i := range b.groups {
		if b.groups[i].full&bit == 0 {
			continue
		}
		for t := range NumTiers {
			if b.holes[planeOf(i, t)][col] != 0 {
				b.holed |= bit
			}
		}
	}
}

// branchWord names an entry, a slot and a plane in one word.
func branchWord(col int, p plane, id uint32) uint64 {
	return uint64(id) | uint64(col)<<32 | uint64(p)<<38 //nolint:gosec // 32 bits, 6 bits and some
}

// children returns how many children of an entry a slot has in a plane.
func (b *bank) children(col int, p plane, id uint32) int {
	child := b.entry(id).child
	switch {
	case child == 0:
		return 0
	case child&branching == 0:
		return int(b.has(p, child) >> col & 1)
	default:
		return int(b.branches.get(branchWord(col, p, id)))
	}
}

// intern returns the entry of a key, a new one behind parent if there is none. Somebody must hold or claim a new one
// before the lock is given up.
func (b *bank) intern(key Key, parent uint32) uint32 {
	if parent != 0 {
		if child := b.entry(parent).child; child != 0 && child&branching == 0 && b.entry(child).key == key {
			return child
		}
	}
	if id := b.find(key); id != 0 {
		return id
	}
	id := b.take(key, parent)
	if parent != 0 {
		b.adoptChild(parent, id)
	}
	return id
}

// adoptChild hangs an entry that nobody has yet on its parent.
func (b *bank) adoptChild(parent, id uint32) {
	l := b.entry(parent)
	switch {
	case l.child == 0:
		l.child = id
	case l.child&branching != 0:
		l.child++
	default:
		for p := range plane(len(b.planes)) {
			for w := b.has(p, l.child); w != 0; w &= w - 1 {
				b.branches.set(branchWord(bits.TrailingZeros64(w), p, parent), 1)
			}
		}
		l.child = branching | 2
	}
}

// tidy frees an entry that nobody has or remembers and nothing hangs on, and those before it of which the same is then true.
func (b *bank) tidy(id uint32) {
	for id != 0 && b.entry(id).child == 0 && !b.wanted(id) {
		parent := b.entry(id).parent
		b.release(id)
		if parent != 0 {
			l := b.entry(parent)
			switch l.child {
			case id, branching | 1:
				l.child = 0
			default:
				l.child--
			}
		}
		id = parent
	}
}

func (b *bank) wanted(id uint32) bool {
	if b.entry(id).device != 0 || b.claims.count > 0 && b.claims.word(id) != 0 {
		return true
	}
	if b.late.count > 0 && b.late.word(id) != 0 {
		return true
	}
	for p := 1; p < len(b.planes); p++ {
		if b.planes[p].count > 0 && b.planes[p].word(id) != 0 {
			return true
		}
	}
	return false
}
