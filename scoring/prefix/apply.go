package prefix

import "slices"

// chunk is what a slot works on under one hold of its bank's lock.
type chunk struct {
	parts [chunkBlocks]part
	n     int
	sums  [chunkBlocks]uint64 // of the tokens of blocks that are described
	spots [chunkBlocks]spot   // where names had each block's name when the chunk began
	words [chunkBlocks]uint64 // scratch
	// strayed: a name may have been put elsewhere than where find saw room for it.
	strayed bool
	sink    uint32
}

// part is a run of hashes of one event.
type part struct {
	event *Event
	form  form
	p     plane
	from  int // index of the first hash
	n     int
	of    int // hashes of the event that count
	at    int // index of the first one's sum and spot
}

// form is how an event tells of its blocks.
type form uint8

const (
	skipped   form = iota
	described      // by their tokens
	named          // by names that are known from elsewhere
	awaited        // by names that may be told of later
	removed
)

// cursor is how far a batch is applied.
type cursor struct {
	events []Event
	at     int
	off    int // hashes of events[at] that are done
	form   form
	p      plane
	blocks int // of events[at] that count
}

func (c *cursor) next() { c.at, c.off = c.at+1, 0 }

// Apply applies a feed's events in order. Only one goroutine may do so for a slot. Events of a Routed slot are ignored.
// A reader sees the blocks of an event appear and disappear in the event's order. A batch without events is the feed's
// word too: what is known of a void slot is then that it holds nothing. If the slot is voided meanwhile, what is left of
// the batch is dropped: it belongs to the life before.
func (ix *Index) Apply(s Slot, events []Event) {
	sl := ix.slot(s)
	if sl == nil || sl.routed != nil {
		return
	}
	sl.mu.Lock()
	defer sl.mu.Unlock()
	life, ok := sl.revive()
	if !sl.lingering.wanted {
		sl.noteTiers(events)
	}
	rest := false // the last chunk left something to be done
	for c := (cursor{events: events}); ok && sl.life == life && (c.at < len(events) || rest); {
		if c.at < len(events) && events[c.at].Kind == Cleared {
			sl.cleared()
			c.next()
			continue
		}
		sl.gather(ix, &c)
		sl.names.reserve(chunkBlocks)
		sl.find()
		sl.bank.stock()
		sl.bank.mu.Lock()
		sl.work(ix, &c)
		sl.join(chunkBlocks)
		sl.confirm(chunkBlocks)
		sl.bank.want()
		rest = len(sl.joining) > 0 || sl.shown
		sl.bank.mu.Unlock()
		clear(sl.scratch.parts[:sl.scratch.n]) // they keep the batch alive
		if max(sl.tally[Device], len(sl.torn)) > sl.capacity*ix.cfg.OverflowFactor {
			sl.stats.Overflows++
			sl.forget()
		}
		if c.at < len(events) {
			sl.breathe()
		}
	}
}

// breathe lets those who wait for the slot have it.
func (sl *slot) breathe() {
	sl.mu.Unlock()
	sl.mu.Lock()
}

// gather takes the next chunk of a batch, hashes its tokens and loads where its names are, all before the bank is locked.
func (sl *slot) gather(ix *Index, c *cursor) {
	k := &sl.scratch
	k.n, k.strayed = 0, false
	for blocks := 0; c.at < len(c.events) && k.n < chunkBlocks && blocks < chunkBlocks; {
		e := &c.events[c.at]
		if e.Kind == Cleared {
			return
		}
		if c.off == 0 {
			sl.begin(ix, c, e)
		}
		n := min(c.blocks-c.off, chunkBlocks-blocks)
		if c.form == skipped || n <= 0 {
			c.next()
			continue
		}
		k.parts[k.n] = part{event: e, form: c.form, p: c.p, from: c.off, n: n, of: c.blocks, at: blocks}
		k.n++
		hashes := e.Hashes[c.off : c.off+n]
		for _, h := range hashes {
			k.sink += sl.names.touch(h)
		}
		if c.form == described {
			sl.hash(ix, e, c.off, k.sums[blocks:blocks+n])
		}
		blocks += n
		if c.off += n; c.off == c.blocks {
			c.next()
		}
	}
}

// begin says how an event is to be taken.
func (sl *slot) begin(ix *Index, c *cursor, e *Event) {
	c.form, c.blocks = skipped, len(e.Hashes)
	switch e.Kind {
	case Removed:
		if i, ok := sl.index(e.Group); ok {
			c.form, c.p = removed, planeOf(i, e.Tier)
		} else if !slices.Contains(sl.ignored, e.Group) {
			sl.stats.UnknownRemovals += uint64(len(e.Hashes))
		}
	case Stored:
		c.form, c.blocks = sl.formOf(ix, e)
		if c.form == skipped {
			return
		}
		var ok bool
		if c.p, ok = sl.learn(e, ix.cfg.BlockTokens); !ok {
			sl.stats.Malformed++
			c.form = skipped
		} else if e.Tier != Device && sl.tally[e.Tier]+c.blocks > sl.capacity*ix.cfg.OffloadFactor {
			sl.stats.OffloadFull += uint64(c.blocks)
			c.form = skipped
		}
	case Cleared, NumEventKinds:
	}
}

// formOf says how a store tells of its blocks, and of how many; what cannot be used is counted.
func (sl *slot) formOf(ix *Index, e *Event) (form, int) {
	size := ix.cfg.BlockTokens
	full := len(e.Tokens) / size
	partial := (len(e.Tokens) + size - 1) / size
	switch {
	case e.Tier >= NumTiers || e.Attention >= NumAttentions:
		sl.stats.Malformed++
	case e.Attention == OtherAttention:
		sl.stats.OtherAttention++
		if !slices.Contains(sl.ignored, e.Group) && len(sl.ignored) < groupsMax {
			sl.ignored = append(sl.ignored, e.Group)
		}
	case e.Parent != nil && slices.Contains(e.Hashes, *e.Parent):
		sl.stats.Malformed++ // a block cannot come before itself
	case len(e.Tokens) == 0 && e.BlockTokens == 0:
		if _, ok := sl.index(e.Group); ok {
			return named, len(e.Hashes)
		}
		sl.stats.UnknownNames += uint64(len(e.Hashes))
	case e.BlockTokens != size:
		sl.stats.OtherBlockSize++
	case e.Extras != nil && len(e.Extras) < full:
		sl.stats.Malformed++
	case len(e.Hashes) == full || len(e.Hashes) == partial:
		return described, full // a partial last block is left out
	case e.Attention == SlidingWindow && len(e.Hashes) < full:
		return awaited, len(e.Hashes)
	default:
		sl.stats.Malformed++ // no telling which hash belongs to which tokens
	}
	return skipped, 0
}

// isReport says whether a store names again what is there: engines in report mode do so from a sequence's start on, and it
// is no new copy.
func (sl *slot) isReport(ix *Index, part *part) bool {
	if part.from > 0 || part.event.Parent != nil || sl.cfg.Copies != Counted {
		return false
	}
	for _, h := range part.event.Hashes[:part.of] {
		if !sl.holdsName(part.p, h) {
			return false
		}
	}
	key := ix.seed(part.event)
	for i, h := range part.event.Hashes[:part.n] {
		key = chain(key, sl.scratch.sums[part.at+i])
		if sl.bank.entry(sl.names.get(h)&^odd).key != key {
			return false // a name for other content
		}
	}
	return true
}

// hash computes the sums of a run of an event's blocks.
func (sl *slot) hash(ix *Index, e *Event, from int, sums []uint64) {
	size := ix.cfg.BlockTokens
	for i := range sums {
		sums[i] = blockSum(e.Tokens[(from+i)*size : (from+i+1)*size])
	}
	if e.Extras != nil {
		for i := range sums {
			sums[i] = withExtra(sums[i], e.Extras[from+i])
		}
	}
}

// find locates the names of the chunk, before the bank is locked.
func (sl *slot) find() {
	k := &sl.scratch
	for i := range k.parts[:k.n] {
		part := &k.parts[i]
		for j, h := range part.hashes() {
			k.spots[part.at+j], _ = sl.names.locate(h)
		}
	}
}

// spot returns a name's spot and value. What find saw is still true if the name is there, or if nothing is there and no
// name went elsewhere than find saw since then: one that did may be this one.
func (sl *slot) spot(at int, name uint64) (spot, uint32) {
	k := &sl.scratch
	switch v, word := sl.names.at(k.spots[at]); {
	case v != 0 && word == name, v == 0 && !k.strayed:
		return k.spots[at], v
	default:
		k.strayed = true
		return sl.names.locate(name)
	}
}

func (p *part) hashes() []uint64 { return p.event.Hashes[p.from : p.from+p.n] }

// work applies the chunk under the bank's lock.
func (sl *slot) work(ix *Index, c *cursor) {
	k := &sl.scratch
	sl.lookAhead()
	for i := range k.parts[:k.n] {
		part := &k.parts[i]
		switch part.form {
		case removed:
			for j, h := range part.hashes() {
				at, v := sl.spot(part.at+j, h)
				sl.remove(part.p, h, at, v)
			}
		case described:
			if !sl.store(ix, part) && i == k.n-1 && c.off > 0 {
				c.next()
			}
		case named, awaited:
			for j, h := range part.hashes() {
				at, v := sl.spot(part.at+j, h)
				sl.attach(ix, part, h, at, v)
			}
		case skipped:
		}
	}
}

// lookAhead loads the entries of the blocks that the chunk removes, then their places in the index of keys.
func (sl *slot) lookAhead() {
	k, b, n := &sl.scratch, sl.bank, 0
	for i := range k.parts[:k.n] {
		part := &k.parts[i]
		if part.form != removed {
			continue
		}
		for j, h := range part.hashes() {
			if v, word := sl.names.at(k.spots[part.at+j]); v != 0 && word == h {
				k.words[n] = uint64(v &^ odd)
				n++
			}
		}
	}
	if n < 2 {
		return
	}
	for _, id := range k.words[:n] {
		k.sink += b.entry(uint32(id)).parent //nolint:gosec // an entry's number
	}
	for _, id := range k.words[:n] {
		e := b.entry(uint32(id)) //nolint:gosec // an entry's number
		if e.device&(e.device-1) == 0 {
			k.sink += b.touch(e.key) // it is the last to hold it
		}
	}
}
