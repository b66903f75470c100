package prefix

// Void forgets a slot's content: its overlap is 0 until its feed (or Routed) tells something new. Speculations go too.
// Readers see it at once and it takes a short time whatever the slot holds: what remains of the content is swept, in
// slices, by the slot's next writer.
func (ix *Index) Void(s Slot) {
	sl := ix.slot(s)
	if sl == nil {
		return
	}
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if sl.gone {
		return // its bit may be another one's by now
	}
	sl.stats.Voids++
	sl.forget()
}

// forget makes the slot void.
func (sl *slot) forget() {
	sl.life++
	b := sl.bank
	b.mu.Lock()
	b.void |= sl.bit()
	b.mu.Unlock()
	sl.abandon()
	sl.groups, sl.ignored = nil, nil
	sl.withdrawAll()
}

// abandon leaves the content to be swept and starts with empty tables.
func (sl *slot) abandon() {
	switch {
	case sl.old.names.used > 0: // the slot was not written to since
	case sl.routed != nil:
		sl.old = leftover{names: sl.routed.places, nodes: sl.routed.nodes}
		sl.routed = newRouted(sl.capacity)
	default:
		sl.old = leftover{names: sl.names}
		sl.names = dict{expected: sl.capacity + chunkBlocks}
	}
	for p := range sl.copies {
		sl.copies[p] = dict{}
	}
	clear(sl.aliases)
	clear(sl.torn)
	sl.orphans = orphans{}
	sl.lingering.reset()
	sl.joining = nil
	sl.tally = [NumTiers]int{}
}

// revive sweeps what is left of a void slot, makes it one of which is known that it holds nothing, and returns its life.
// It reports false if the slot is not in use any more.
func (sl *slot) revive() (life uint64, ok bool) {
	life = sl.life
	b := sl.bank
	if !sl.gone && b.isVoid(sl.bit()) && sl.sweep(life) && !sl.gone {
		b.mu.Lock()
		b.forgetGroups(sl.col)
		b.void &^= sl.bit()
		b.mu.Unlock()
	}
	return life, !sl.gone && sl.life == life
}

func (b *bank) isVoid(bit uint64) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.void&bit != 0
}

// cleared takes AllBlocksCleared: the content goes, in all tiers and groups; speculations and what is known of the groups
// stay. While it is swept the slot answers 0.
func (sl *slot) cleared() {
	b, life := sl.bank, sl.life
	b.mu.Lock()
	b.void |= sl.bit()
	b.mu.Unlock()
	sl.abandon()
	if sl.sweep(life) {
		b.mu.Lock()
		b.void &^= sl.bit()
		b.mu.Unlock()
	}
}

// sweep takes the slot's bit from the entries of what it held before, a chunk at a time. It reports false if the slot was
// voided meanwhile.
func (sl *slot) sweep(life uint64) bool {
	for sl.old.names.used > 0 {
		sl.sweepChunk()
		sl.breathe()
		if sl.life != life {
			return false
		}
	}
	return true
}

func (sl *slot) sweepChunk() {
	b, k, old := sl.bank, &sl.scratch, &sl.old
	n := 0
	for ; n+dictPlaces <= chunkBlocks && old.at < len(old.names.buckets); old.at++ {
		for _, c := range old.names.buckets[old.at].cells {
			id := c.val
			if id == 0 {
				continue
			}
			if old.nodes != nil {
				id = old.nodes[id].id
			}
			k.words[n] = uint64(id &^ odd)
			n++
		}
	}
	b.mu.Lock()
	for _, id := range k.words[:n] {
		k.sink += b.entry(uint32(id)).parent //nolint:gosec // an entry's number
	}
	for _, id := range k.words[:n] {
		k.sink += b.touch(b.entry(uint32(id)).key) //nolint:gosec // an entry's number
	}
	for _, word := range k.words[:n] {
		id := uint32(word) //nolint:gosec // an entry's number
		if b.late.count > 0 && b.late.word(id)&sl.bit() != 0 {
			b.late.unset(id, sl.bit())
			b.tidy(id)
		}
		for p := range plane(len(b.planes)) {
			if b.content(p, id)&sl.bit() != 0 {
				b.drop(sl.col, p, id)
			}
		}
	}
	b.mu.Unlock()
	if old.at < len(old.names.buckets) {
		return
	}
	if sl.routed == nil && len(sl.names.buckets) == 0 {
		old.names.clear()
		sl.names = old.names // the room is used again
	}
	sl.old = leftover{}
}

// leave empties a slot that is not in use any more, so that its bit can be given to another one. Who found the slot while it
// was in use sees that it is gone before it begins to empty.
func (sl *slot) leave() {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	b := sl.bank
	b.mu.Lock()
	sl.gone = true
	b.mu.Unlock()
	sl.forget()
	for sl.old.names.used > 0 {
		sl.sweepChunk()
		sl.breathe()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live &^= sl.bit()
	b.void &^= sl.bit()
}
