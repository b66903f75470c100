package prefix

import "math/bits"

// dict maps 64-bit words to 32-bit values other than 0. It is an open-addressed table of buckets, two cache lines each,
// which are loaded together: with half the places a fifth of the words would go past their bucket. What
// does not fit into its bucket goes into those behind, and each counts what went past it, so that a search knows when to
// stop. Removals move nothing: it is as fast after a million of them as when it was new. It never shrinks.
type dict struct {
	buckets []dictBucket
	used    int
	// expected is how many words there will be in the end, so that the table is not larger then than it must be; 0 says
	// nothing.
	expected int
}

type dictBucket struct {
	cells [dictPlaces]cell
	state uint32 // the lowest bits: cells in use; above them: words whose search goes past this bucket
	_     uint32 // to the end of the second line
}

// cell is one place. The word is cut in two so that a cell needs no padding.
type cell struct {
	low, high uint32
	val       uint32
}

func (c *cell) word() uint64 { return uint64(c.high)<<32 | uint64(c.low) }

// match returns a bit for the cell in use with a word; no branch depends on where it is.
func (b *dictBucket) match(word uint64) uint32 {
	var hits uint32
	for j := range b.cells {
		c := &b.cells[j]
		differs := (c.low ^ uint32(word)) | (c.high ^ uint32(word>>32)) //nolint:gosec // its halves
		hits |= uint32((uint64(differs)-1)>>63) << j                    //nolint:gosec // one bit
	}
	return hits & b.state
}

const (
	dictPlaces = 10
	dictLeast  = 2  // buckets of the smallest table
	dictLoaded = 13 // sixteenths of the places in use before it grows
	inUse      = 1<<dictPlaces - 1
	past       = 1 << dictPlaces // one word more whose search goes past
)

// spot is a place of a dict: a bucket and a cell of it. It stays what it is until the dict grows.
type spot struct {
	bucket, place int
}

// home is the bucket where a word's search begins. Words may be small numbers, so they are spread first.
func (d *dict) home(word uint64) int {
	at, _ := bits.Mul64((word^word>>32)*multiplier, uint64(len(d.buckets)))
	return int(at) //nolint:gosec // below len(d.buckets)
}

// reserve makes room for n more words, so that as many put calls do not move the table.
func (d *dict) reserve(n int) {
	need := (d.used+n)*16/(dictLoaded*dictPlaces) + 1
	if need <= len(d.buckets) {
		return
	}
	old := d.buckets
	size := len(old) + len(old)/2
	if exact := d.expected*16/(dictLoaded*dictPlaces) + 1; len(old) < exact {
		size = min(size, exact)
	} else {
		size = len(old) + len(old)/8
	}
	d.buckets = make([]dictBucket, max(dictLeast, need, size))
	d.used = 0
	for i := range old {
		for used := old[i].state & inUse; used != 0; used &= used - 1 {
			c := &old[i].cells[bits.TrailingZeros32(used)]
			at, _ := d.locate(c.word())
			d.put(at, c.word(), c.val)
		}
	}
}

// locate returns a word's spot and value; value 0 says that it is absent and the spot is where put may put it.
func (d *dict) locate(word uint64) (at spot, val uint32) {
	if len(d.buckets) == 0 {
		return spot{}, 0
	}
	free := spot{place: -1}
	home := d.home(word)
	for i := home; ; {
		b := &d.buckets[i]
		if hit := b.match(word); hit != 0 {
			place := bits.TrailingZeros32(hit)
			return spot{i, place}, b.cells[place].val
		}
		if room := ^b.state & inUse; room != 0 && free.place < 0 {
			free = spot{i, bits.TrailingZeros32(room)}
		}
		if b.state < past && free.place >= 0 {
			return free, 0
		}
		if i++; i == len(d.buckets) {
			i = 0
		}
		if i == home { // in a small table something may have gone past every bucket
			return free, 0
		}
	}
}

// at returns what is at a spot; value 0 is nothing.
func (d *dict) at(s spot) (val uint32, word uint64) {
	c := &d.buckets[s.bucket].cells[s.place]
	return c.val, c.word()
}

func (d *dict) get(word uint64) uint32 {
	if d.used == 0 {
		return 0
	}
	_, val := d.locate(word)
	return val
}

// put writes a new word at the spot that locate gave for it; room was reserved before.
func (d *dict) put(at spot, word uint64, val uint32) {
	for i := d.home(word); i != at.bucket; {
		d.buckets[i].state += past
		if i++; i == len(d.buckets) {
			i = 0
		}
	}
	b := &d.buckets[at.bucket]
	b.cells[at.place] = cell{low: uint32(word), high: uint32(word >> 32), val: val} //nolint:gosec // its halves
	b.state |= 1 << at.place
	d.used++
}

// setAt changes the value of a word at its spot.
func (d *dict) setAt(at spot, val uint32) { d.buckets[at.bucket].cells[at.place].val = val }

// set gives a word a value other than 0.
func (d *dict) set(word uint64, val uint32) {
	d.reserve(1)
	at, old := d.locate(word)
	if old != 0 {
		d.setAt(at, val)
		return
	}
	d.put(at, word, val)
}

// add changes a word's number, which is 0 while it is absent, and returns the new one.
func (d *dict) add(word uint64, change int) uint32 {
	d.reserve(1)
	at, val := d.locate(word)
	next := uint32(int(val) + change) //nolint:gosec // callers never take what they did not add
	switch {
	case next == 0:
		if val != 0 {
			d.removeAt(at)
		}
	case val == 0:
		d.put(at, word, next)
	default:
		d.setAt(at, next)
	}
	return next
}

// remove forgets a word, if it is there.
func (d *dict) remove(word uint64) {
	if d.used == 0 {
		return
	}
	if at, val := d.locate(word); val != 0 {
		d.removeAt(at)
	}
}

// removeAt empties a spot in use.
func (d *dict) removeAt(at spot) {
	b := &d.buckets[at.bucket]
	for i := d.home(b.cells[at.place].word()); i != at.bucket; {
		d.buckets[i].state -= past
		if i++; i == len(d.buckets) {
			i = 0
		}
	}
	b.cells[at.place].val = 0
	b.state &^= 1 << at.place
	d.used--
}

// touch loads the place where a word's search begins, so that the searches of many words wait for memory together. The
// result means nothing.
func (d *dict) touch(word uint64) uint32 {
	if len(d.buckets) == 0 {
		return 0
	}
	return d.buckets[d.home(word)].state
}

// clear forgets all words and keeps the room.
func (d *dict) clear() {
	clear(d.buckets)
	d.used = 0
}
