package prefix

import "sync"

// chunkBlocks is how many blocks a writer works on before readers get a turn: some microseconds.
const chunkBlocks = 64

// slot is what one replica's engine calls its blocks, and how many copies it has of each; which blocks it has stands in
// its bank. mu is taken before the bank's, and never held for more than a chunk either.
type slot struct {
	bank     *bank
	col      int // its bit in the bank
	cfg      SlotConfig
	capacity int // blocks the replica's device cache holds

	mu    sync.Mutex
	life  uint64 // grows when the slot is voided, so that an Apply that is under way notices
	names dict   // the engine's hash of a block to its entry, odd or not
	// copies counts, by plane, the copies of odd names. A name that is not odd has one copy, in plane 0.
	copies    []dict
	aliases   map[planeEntry]int // names of an entry with copies in a plane, or lingering, where there are several
	torn      map[uint64]int     // copies of names that are left out because they may be of several contents, see tear
	tally     [NumTiers]int      // copies by tier, orphans included
	orphans   orphans
	lingering lingering
	joining   []joining // blocks whose waiting children are to be joined
	groups    []groupOf
	ignored   []int    // groups whose blocks say nothing about hits
	old       leftover // what a void or cleared slot held, until it is swept
	routed    *routed  // of Routed slots
	stats     Stats    // the counters; the gauges are filled in by snapshot
	scratch   chunk

	// Guarded by the bank's mu; speculating also serialises all who change the list but confirm, which only takes from it.
	speculating  sync.Mutex
	speculations []*speculation
	claimed      int  // blocks of all speculations
	gone         bool // the slot is not in use any more; also read under the slot's own mu
	shown        bool // a claimed block was stored since claims were last compared with the content
}

// odd marks a name whose copies are counted in copies; a lingering one has none.
const odd = 1 << 31

// planeEntry is an entry in a plane.
type planeEntry struct {
	id uint32
	p  plane
}

// groupOf is the index of a group in the slot's bank.
type groupOf struct {
	number, index int
}

// leftover is what a slot held before it was voided or cleared, while its entries still have the slot's bits.
type leftover struct {
	names dict
	nodes []node // of a Routed slot: what the table's values are numbers of
	at    int    // buckets of names that are swept
}

func newSlot(b *bank, col int, cfg SlotConfig, lingerFactor int) *slot {
	sl := &slot{bank: b, col: col, cfg: cfg, capacity: max(1, int(cfg.CapacityBlocks))}
	sl.names.expected = sl.capacity + chunkBlocks
	sl.lingering.max = sl.capacity * lingerFactor
	switch cfg.Source {
	case Routed:
		sl.routed = newRouted(sl.capacity)
	case Events, NumSources:
	}
	return sl
}

// bit is the slot's in its bank's words.
func (sl *slot) bit() uint64 { return 1 << sl.col }

// index returns the index of a group that the slot was told of.
func (sl *slot) index(number int) (int, bool) {
	for _, g := range sl.groups {
		if g.number == number {
			return g.index, true
		}
	}
	return 0, false
}

// learn returns the plane of a store; false if there are too many groups.
func (sl *slot) learn(e *Event, blockTokens int) (plane, bool) {
	i, ok := sl.index(e.Group)
	if !ok {
		window := (max(1, e.WindowTokens) - 1 + blockTokens - 1) / blockTokens
		sl.bank.mu.Lock()
		i, ok = sl.bank.learnGroup(sl.col, e, window)
		sl.bank.mu.Unlock()
		if !ok {
			return 0, false
		}
		sl.groups = append(sl.groups, groupOf{e.Group, i})
		for len(sl.copies) < (i+1)*int(NumTiers) {
			sl.copies = append(sl.copies, dict{})
		}
	}
	return planeOf(i, e.Tier), true
}

// add adds copies of a block, under the bank's lock. at is where names has the name, or would have it; v is its value
// there, 0 if it is new. Room for a new name was reserved.
func (sl *slot) add(p plane, at spot, name uint64, v, id uint32, copies int) {
	switch {
	case v == 0 && p == 0 && copies == 1:
		sl.names.put(at, name, id)
		sl.gainName(p, id)
	case v == 0:
		sl.names.put(at, name, id|odd)
		sl.copies[p].set(name, uint32(copies)) //nolint:gosec // at least 1
		sl.gainName(p, id)
	case v&odd == 0 && p == 0 && sl.cfg.Copies == AsSet:
		return
	case v&odd != 0 && sl.resume(name, id):
		if p == 0 && copies == 1 {
			sl.names.setAt(at, id)
		} else {
			sl.copies[p].set(name, uint32(copies)) //nolint:gosec // at least 1
		}
		sl.gainName(p, id)
	default:
		if v&odd == 0 {
			sl.names.setAt(at, id|odd)
			sl.copies[0].set(name, 1)
		}
		had := sl.copies[p].get(name)
		if had > 0 && sl.cfg.Copies == AsSet {
			return
		}
		sl.copies[p].set(name, had+uint32(copies)) //nolint:gosec // at least 1
		if had == 0 {
			sl.gainName(p, id)
		}
	}
	sl.tally[p.tier()] += copies
}

// gainName notes that one more name of an entry has copies in a plane.
func (sl *slot) gainName(p plane, id uint32) {
	if sl.bank.content(p, id)&sl.bit() == 0 {
		sl.bank.hold(sl.col, p, id)
		if sl.bank.claims.count > 0 && sl.bank.claims.word(id)&sl.bit() != 0 {
			sl.shown = true
		}
		return
	}
	sl.gainAlias(p, id)
}

// gainAlias counts one more name of an entry in a plane that has one already.
func (sl *slot) gainAlias(p plane, id uint32) {
	if sl.aliases == nil {
		sl.aliases = map[planeEntry]int{}
	}
	sl.aliases[planeEntry{id, p}] = max(1, sl.aliases[planeEntry{id, p}]) + 1
}

// loseAlias is the end of gainAlias; false if there is one name only.
func (sl *slot) loseAlias(p plane, id uint32) bool {
	n := sl.aliases[planeEntry{id, p}]
	switch n {
	case 0:
		return false
	case 2:
		delete(sl.aliases, planeEntry{id, p})
	default:
		sl.aliases[planeEntry{id, p}] = n - 1
	}
	return true
}

// loseName is the end of gainName. The entry may be gone afterwards.
func (sl *slot) loseName(p plane, id uint32) {
	if !sl.loseAlias(p, id) {
		sl.bank.drop(sl.col, p, id)
	}
}

// remove takes one copy of the block that the engine calls name from a plane, under the bank's lock. at and v are what
// names has of it.
func (sl *slot) remove(p plane, name uint64, at spot, v uint32) {
	switch {
	case v == 0:
		if !sl.orphans.remove(p, name) {
			if !sl.mend(name) {
				sl.stats.UnknownRemovals++
			}
			return
		}
	case v&odd == 0:
		if p != 0 {
			sl.stats.UnknownRemovals++
			return
		}
		sl.retire(at, name, v)
		sl.loseName(0, v)
	case !sl.removeOdd(p, at, name, v&^odd):
		sl.stats.UnknownRemovals++
		return
	}
	sl.tally[p.tier()]--
}

// removeOdd is remove for an odd name.
func (sl *slot) removeOdd(p plane, at spot, name uint64, id uint32) bool {
	had := sl.copies[p].get(name)
	if had == 0 {
		return false
	}
	left := sl.copies[p].add(name, -1)
	elsewhere := false
	for q := range sl.copies {
		elsewhere = elsewhere || q != 0 && sl.copies[q].get(name) > 0
	}
	switch onDevice := sl.copies[0].get(name); {
	case !elsewhere && onDevice == 0:
		sl.retire(at, name, id)
	case !elsewhere && onDevice == 1:
		sl.copies[0].remove(name)
		sl.names.setAt(at, id)
	}
	if left == 0 {
		sl.loseName(p, id)
	}
	return true
}

// holdsName says whether a name has copies in a plane.
func (sl *slot) holdsName(p plane, name uint64) bool {
	switch v := sl.names.get(name); {
	case v == 0:
		return false
	case v&odd == 0:
		return p == 0
	default:
		return sl.copies[p].get(name) > 0
	}
}

func (sl *slot) snapshot() Stats {
	st := sl.stats
	st.Orphans, st.Lingering = sl.orphans.len(), sl.lingering.places.used
	for _, n := range sl.tally {
		st.Copies += n
	}
	b := sl.bank
	b.mu.RLock()
	defer b.mu.RUnlock()
	st.Speculations = len(sl.speculations)
	if st.Void = b.void&sl.bit() != 0; st.Void {
		return st // what is not swept yet is not held
	}
	for p := range b.holes {
		if b.groups[plane(p).group()].sliding&sl.bit() == 0 {
			st.Holes += int(b.holes[p][sl.col])
		}
	}
	st.Blocks, st.HostBlocks, st.DiskBlocks = b.held[sl.col][Device], b.held[sl.col][Host], b.held[sl.col][Disk]
	return st
}
