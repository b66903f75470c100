package prefix

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// entry is one block of the tree of sequences, as long as a slot holds or claims it or another entry hangs on it. Entries
// are named by numbers from 1 on; 0 is none.
type entry struct {
	key    Key
	device uint64 // slots of the bank that hold it on the device in the bank's first group
	parent uint32 // 0 for the first block of a sequence; the next free one for a free entry
	child  uint32 // 0, the only child, or branching and the number of children
}

// branching marks an entry's child as the number of children.
const branching = 1 << 31

const (
	pageBits = 12
	pageSize = 1 << pageBits // entries a page: tables grow by pages, so growing moves nothing
)

// table holds the entries of a bank and finds them by their keys. Freed entries are used again, the last one first, so
// that a sequence which takes the place of another one lies together too.
type table struct {
	entries []*[pageSize]entry
	top     uint32 // entries ever used, entry 0 included
	free    uint32 // the first free one, 0 if none
	live    int

	buckets []bucket // the index of keys
	old     []bucket // what it was before it grew, as far as it is not moved yet
	moved   int      // buckets of old that are
	spare   []bucket // what it is to grow into, made before the bank was locked
	spread  uint64   // odd, and not to be foreseen: clients choose the texts, not which of them meet in a bucket
}

func newTable() table {
	return table{
		top: 1, entries: []*[pageSize]entry{new([pageSize]entry)}, buckets: make([]bucket, bucketsLeast),
		spread: maphash.Bytes(maphash.MakeSeed(), nil) | 1,
	}
}

func (t *table) entry(id uint32) *entry { return &t.entries[id>>pageBits][id%pageSize] }

// take returns an unused entry with that key, which find finds from now on.
func (t *table) take(key Key, parent uint32) uint32 {
	id := t.free
	if id == 0 {
		id = t.top
		t.top++
		if id>>pageBits == uint32(len(t.entries)) { //nolint:gosec // ids have 31 bits
			t.entries = append(t.entries, new([pageSize]entry))
		}
	}
	e := t.entry(id)
	if id == t.free {
		t.free = e.parent
	}
	*e = entry{key: key, parent: parent}
	t.live++
	t.enter(key, id)
	return id
}

// release makes an entry free.
func (t *table) release(id uint32) {
	e := t.entry(id)
	t.forget(e.key, id)
	e.parent = t.free
	t.free = id
	t.live--
}

// A bucket is a cache line of 12 places, each a tag (8 bits of the key) and an entry's number. What does not fit goes into
// the buckets behind; each counts what went past it, so that a search knows when to stop, and removals move nothing.
type bucket struct {
	tags   [bucketPlaces]byte // 0 is an empty place
	passed uint32             // entries whose search goes past this bucket
	ids    [bucketPlaces]uint32
}

const (
	bucketPlaces = 12
	bucketsLeast = 64
	firstTags    = 8 // tags that are compared in one word; the rest in half a word
	lanes        = 0x0101010101010101
	laneTops     = 0x8080808080808080
	gather       = 0x0102040810204080
)

func tagOf(key Key) byte { return max(1, byte(key)) }

// home is the bucket where the search for a key begins.
func (t *table) home(key Key, buckets []bucket) int {
	at, _ := bits.Mul64(uint64(key)*t.spread, uint64(len(buckets)))
	return int(at) //nolint:gosec // below the number of buckets
}

// matches returns a bit for each place that has a tag, the lowest for the first place. The lowest bit set is always right;
// one above another may be wrong.
func (b *bucket) matches(tag byte) uint32 {
	x := binary.LittleEndian.Uint64(b.tags[:firstTags]) ^ uint64(tag)*lanes
	y := uint64(binary.LittleEndian.Uint32(b.tags[firstTags:])) ^ uint64(tag)*(lanes>>32)
	x, y = (x-lanes)&^x&laneTops, (y-lanes>>32)&^y&(laneTops>>32)
	// The multiplication brings the top bits of eight bytes together.
	return uint32((x>>7)*gather>>56 | (y>>7)*gather>>56<<firstTags) //nolint:gosec // 12 bits
}

// find returns the entry with a key, 0 if there is none.
func (t *table) find(key Key) uint32 {
	id := t.findIn(t.buckets, key)
	if id == 0 && t.old != nil {
		id = t.findIn(t.old, key)
	}
	return id
}

func (t *table) findIn(buckets []bucket, key Key) uint32 {
	home := t.home(key, buckets)
	for at := home; ; {
		b := &buckets[at]
		for hits := b.matches(tagOf(key)); hits != 0; hits &= hits - 1 {
			if id := b.ids[bits.TrailingZeros32(hits)]; t.entry(id).key == key {
				return id
			}
		}
		if b.passed == 0 {
			return 0
		}
		if at++; at == len(buckets) {
			at = 0
		}
		if at == home { // something has gone past every bucket
			return 0
		}
	}
}

// touch loads the bucket of a key; see dict.touch.
func (t *table) touch(key Key) uint32 { return t.buckets[t.home(key, t.buckets)].passed }

// The index grows when its places are used to 208/256; a little before that it is full, and a little below it is roomy again.
func (t *table) full() bool { return t.old == nil && t.usedBeyond(207) }

func (t *table) roomy() bool { return !t.usedBeyond(205) }

func (t *table) usedBeyond(of256 int) bool { return t.live*256 > len(t.buckets)*bucketPlaces*of256 }

// enter makes find know an entry; its key is not known yet. A growing index moves a bucket at a time, so that nobody waits
// for it.
func (t *table) enter(key Key, id uint32) {
	if t.old == nil && t.usedBeyond(208) {
		if len(t.spare) <= len(t.buckets) {
			t.spare = make([]bucket, t.next())
		}
		t.old, t.buckets, t.spare, t.moved = t.buckets, t.spare, nil, 0
	}
	if t.old != nil {
		t.moveBucket()
	}
	t.insert(key, id)
}

// next is how many buckets the index grows to.
func (t *table) next() int { return len(t.buckets) + len(t.buckets)/4 }

func (t *table) moveBucket() {
	b := &t.old[t.moved]
	for place, tag := range b.tags {
		if tag != 0 {
			id := b.ids[place]
			t.insert(t.entry(id).key, id)
			b.tags[place], b.ids[place] = 0, 0
		}
	}
	if t.moved++; t.moved == len(t.old) {
		t.old = nil
	}
}

func (t *table) insert(key Key, id uint32) {
	for at := t.home(key, t.buckets); ; {
		b := &t.buckets[at]
		if free := b.matches(0); free != 0 {
			place := bits.TrailingZeros32(free)
			b.tags[place], b.ids[place] = tagOf(key), id
			return
		}
		b.passed++
		if at++; at == len(t.buckets) {
			at = 0
		}
	}
}

// forget is the end of enter.
func (t *table) forget(key Key, id uint32) {
	if !t.forgetIn(t.buckets, key, id) {
		t.forgetIn(t.old, key, id)
	}
}

func (t *table) forgetIn(buckets []bucket, key Key, id uint32) bool {
	home := t.home(key, buckets)
	at := home
	for !buckets[at].empty(tagOf(key), id) {
		if buckets[at].passed == 0 {
			return false
		}
		if at++; at == len(buckets) {
			at = 0
		}
		if at == home {
			return false
		}
	}
	for home != at {
		buckets[home].passed--
		if home++; home == len(buckets) {
			home = 0
		}
	}
	return true
}

// empty empties the place of an entry; false if it has none here.
func (b *bucket) empty(tag byte, id uint32) bool {
	for hits := b.matches(tag); hits != 0; hits &= hits - 1 {
		if place := bits.TrailingZeros32(hits); b.ids[place] == id {
			b.ids[place], b.tags[place] = 0, 0
			return true
		}
	}
	return false
}
