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
}

// link is an entry's place in the tree.
type link struct {
	parent uint32 // 0 for the first block of a sequence; the next free one for a free entry
	child  uint32 // 0, the only child, or branching and the number of children
}

// branching marks a link's child as the number of children.
const branching = 1 << 31

const (
	pageBits = 12
	pageSize = 1 << pageBits // entries a page: tables grow by pages, so growing moves nothing
)

// table holds the entries of a bank and finds them by their keys. Freed entries are used again, the last one first, so
// that a sequence which takes the place of another one lies together too.
type table struct {
	entries []*[pageSize]entry
	links   []*[pageSize]link
	top     uint32 // entries ever used, entry 0 included
	free    uint32 // the first free one, 0 if none
	live    int

	segments  []*segment
	meta      []segmentMeta
	directory []uint32 // segment by the highest bits of a spread key
	shift     uint     // 64 less the number of these bits
	spread    uint64   // odd, and not to be foreseen: clients choose the texts, not which of them meet in a segment
}

func newTable() table {
	t := table{top: 1, segments: []*segment{{}}, meta: []segmentMeta{{}}, directory: []uint32{0}, shift: 64}
	t.spread = maphash.Bytes(maphash.MakeSeed(), nil) | 1
	t.grow()
	return t
}

func (t *table) grow() {
	t.entries = append(t.entries, new([pageSize]entry))
	t.links = append(t.links, new([pageSize]link))
}

func (t *table) entry(id uint32) *entry { return &t.entries[id>>pageBits][id%pageSize] }

func (t *table) link(id uint32) *link { return &t.links[id>>pageBits][id%pageSize] }

// take returns an unused entry with that key, which find finds from now on.
func (t *table) take(key Key) uint32 {
	id := t.free
	if id != 0 {
		t.free = t.link(id).parent
	} else {
		id = t.top
		t.top++
		if id>>pageBits == uint32(len(t.entries)) { //nolint:gosec // ids have 31 bits
			t.grow()
		}
	}
	*t.entry(id) = entry{key: key}
	*t.link(id) = link{}
	t.live++
	t.enter(key, id)
	return id
}

// release makes an entry free.
func (t *table) release(id uint32) {
	t.forget(t.entry(id).key, id)
	t.link(id).parent = t.free
	t.free = id
	t.live--
}

// The index of keys is an extendible hash table: a directory names segments of 4 kB, a segment that is full is split, and
// nothing else moves. So growing never holds anybody up for more than some microseconds.
//
// A bucket is a cache line of 12 places, each a tag (8 bits of the key) and an entry's number. What does not fit spills
// into the buckets behind; each counts what went past it, so that a search knows when to stop and removals leave no trace.
const (
	bucketPlaces   = 12
	segmentBuckets = 32
	segmentFull    = bucketPlaces * segmentBuckets * 13 / 16
	tagShift       = 8 // the bits below choose the bucket
	lanes          = 0x0101010101010101
	laneTops       = 0x8080808080808080
	tailLanes      = 0x01010101
	tailTops       = 0x80808080
	firstTags      = 8 // tags that are compared in one word; the rest in half a word
)

type bucket struct {
	tags   [bucketPlaces]byte // 0 is an empty place
	passed uint32             // entries whose search goes past this bucket
	ids    [bucketPlaces]uint32
}

type segment [segmentBuckets]bucket

type segmentMeta struct {
	depth uint8 // bits of the key that all its entries share
	used  uint16
}

func tagOf(key Key) byte { return max(1, byte(key>>tagShift)) }

func (t *table) segmentOf(key Key) uint32 { return t.directory[uint64(key)*t.spread>>t.shift] }

// find returns the entry with a key, 0 if there is none.
func (t *table) find(key Key) uint32 {
	s := t.segments[t.segmentOf(key)]
	tag := uint64(tagOf(key))
	for at := uint64(key) % segmentBuckets; ; at = (at + 1) % segmentBuckets {
		b := &s[at]
		x := binary.LittleEndian.Uint64(b.tags[:firstTags]) ^ tag*lanes
		for hits := (x - lanes) &^ x & laneTops; hits != 0; hits &= hits - 1 {
			if id := b.ids[bits.TrailingZeros64(hits)/8]; t.entry(id).key == key {
				return id
			}
		}
		y := binary.LittleEndian.Uint32(b.tags[firstTags:]) ^ uint32(tag)*tailLanes
		for hits := (y - tailLanes) &^ y & tailTops; hits != 0; hits &= hits - 1 {
			if id := b.ids[firstTags+bits.TrailingZeros32(hits)/8]; t.entry(id).key == key {
				return id
			}
		}
		if b.passed == 0 {
			return 0
		}
	}
}

// touch loads the bucket of a key; see dict.touch.
func (t *table) touch(key Key) uint32 {
	return t.segments[t.segmentOf(key)][uint64(key)%segmentBuckets].passed
}

// enter makes find know an entry; its key is not known yet.
func (t *table) enter(key Key, id uint32) {
	at := t.segmentOf(key)
	for t.meta[at].used >= segmentFull {
		t.split(key)
		at = t.segmentOf(key)
	}
	t.meta[at].used++
	t.segments[at].insert(key, id)
}

func (s *segment) insert(key Key, id uint32) {
	for at := uint64(key) % segmentBuckets; ; at = (at + 1) % segmentBuckets {
		b := &s[at]
		place := b.empty()
		if place < bucketPlaces {
			b.tags[place], b.ids[place] = tagOf(key), id
			return
		}
		b.passed++
	}
}

// empty returns the first empty place, bucketPlaces if there is none.
func (b *bucket) empty() int {
	x := binary.LittleEndian.Uint64(b.tags[:firstTags])
	if free := (x - lanes) &^ x & laneTops; free != 0 {
		return bits.TrailingZeros64(free) / 8
	}
	y := binary.LittleEndian.Uint32(b.tags[firstTags:])
	if free := (y - tailLanes) &^ y & tailTops; free != 0 {
		return firstTags + bits.TrailingZeros32(free)/8
	}
	return bucketPlaces
}

// forget is the end of enter.
func (t *table) forget(key Key, id uint32) {
	at := t.segmentOf(key)
	t.meta[at].used--
	s := t.segments[at]
	for at := uint64(key) % segmentBuckets; ; at = (at + 1) % segmentBuckets {
		b := &s[at]
		for place := range b.ids {
			if b.ids[place] == id {
				b.ids[place], b.tags[place] = 0, 0
				return
			}
		}
		b.passed--
	}
}

// split spreads the entries of a full segment, that of a key, over it and a new one.
func (t *table) split(key Key) {
	at := t.segmentOf(key)
	depth := uint(t.meta[at].depth) + 1
	if 64-t.shift < depth {
		wide := make([]uint32, 2*len(t.directory))
		for i, s := range t.directory {
			wide[2*i], wide[2*i+1] = s, s
		}
		t.directory = wide
		t.shift--
	}
	old, high := t.segments[at], new(segment)
	full := *old
	*old = segment{}
	sides := [2]*segment{old, high}
	var counts [2]uint16
	for i := range full {
		for place, id := range full[i].ids {
			if full[i].tags[place] == 0 {
				continue
			}
			key := t.entry(id).key
			side := uint64(key) * t.spread >> (64 - depth) & 1
			counts[side]++
			sides[side].insert(key, id)
		}
	}
	fresh := uint32(len(t.segments)) //nolint:gosec // fewer than entries
	t.segments = append(t.segments, high)
	t.meta[at] = segmentMeta{depth: uint8(depth), used: counts[0]} //nolint:gosec // at most 64
	t.meta = append(t.meta, segmentMeta{depth: uint8(depth), used: counts[1]})
	// The old one stood in an aligned run of the directory; the new one takes the run's second half.
	half := uint64(1) << (64 - t.shift - depth)
	begin := uint64(key) * t.spread >> t.shift &^ (2*half - 1)
	for i := begin + half; i < begin+2*half; i++ {
		t.directory[i] = fresh
	}
}
