package prefix

import "math/bits"

// dict maps 64-bit words to 32-bit values other than 0, 12 bytes a place: an open-addressed table with linear probing
// whose deletions close the gap, so that it is as fast after a million deletions as when it was new. It grows by a quarter
// and never shrinks.
type dict struct {
	cells []cell
	used  int
}

// cell is one place; val 0 is an empty one. The word is cut in two so that a cell needs no padding.
type cell struct {
	low, high uint32
	val       uint32
}

func (c *cell) word() uint64 { return uint64(c.high)<<32 | uint64(c.low) }

const (
	dictLeast  = 16 // places of the smallest table
	dictLoaded = 13 // sixteenths of the places in use before it grows
)

// home is where a word's search begins. Words may be small numbers, so they are spread first.
func (d *dict) home(word uint64) int {
	at, _ := bits.Mul64((word^word>>32)*multiplier, uint64(len(d.cells)))
	return int(at) //nolint:gosec // below len(d.cells)
}

// reserve makes room for n more words, so that as many set calls do not move the table.
func (d *dict) reserve(n int) {
	need := (d.used + n + 1) * 16 / dictLoaded
	if need < len(d.cells) {
		return
	}
	old := d.cells
	d.cells = make([]cell, max(dictLeast, need+1, len(old)+len(old)/4))
	for i := range old {
		if c := &old[i]; c.val != 0 {
			at, _ := d.locate(c.word())
			d.cells[at] = *c
		}
	}
}

// locate returns a word's place and value; value 0 says that it is absent and the place is where it would go.
func (d *dict) locate(word uint64) (at int, val uint32) {
	if len(d.cells) == 0 {
		return 0, 0
	}
	low, high := uint32(word), uint32(word>>32) //nolint:gosec // its halves
	for at = d.home(word); ; {
		c := &d.cells[at]
		if c.val == 0 || c.low == low && c.high == high {
			return at, c.val
		}
		if at++; at == len(d.cells) {
			at = 0
		}
	}
}

func (d *dict) get(word uint64) uint32 {
	if d.used == 0 {
		return 0
	}
	_, val := d.locate(word)
	return val
}

// put writes a new word at the place that locate gave for it; room was reserved before.
func (d *dict) put(at int, word uint64, val uint32) {
	d.cells[at] = cell{low: uint32(word), high: uint32(word >> 32), val: val} //nolint:gosec // its halves
	d.used++
}

// set gives a word a value other than 0.
func (d *dict) set(word uint64, val uint32) {
	d.reserve(1)
	at, old := d.locate(word)
	if old != 0 {
		d.cells[at].val = val
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
		d.cells[at].val = next
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

// removeAt empties a place in use and moves back those behind it whose search would now end there.
func (d *dict) removeAt(at int) {
	d.used--
	n := len(d.cells)
	for next := at; ; {
		if next++; next == n {
			next = 0
		}
		c := d.cells[next]
		if c.val == 0 {
			break
		}
		// c may fill the gap unless its home lies behind the gap, seen from c backwards.
		home := d.home(c.word())
		fromHome, fromGap := next-home, next-at
		if fromHome < 0 {
			fromHome += n
		}
		if fromGap < 0 {
			fromGap += n
		}
		if fromHome >= fromGap {
			d.cells[at] = c
			at = next
		}
	}
	d.cells[at].val = 0
}

// touch loads the place where a word's search begins, so that the searches of many words wait for memory together. The
// result means nothing.
func (d *dict) touch(word uint64) uint32 {
	if len(d.cells) == 0 {
		return 0
	}
	return d.cells[d.home(word)].val
}

// clear forgets all words and keeps the room.
func (d *dict) clear() {
	clear(d.cells)
	d.used = 0
}
