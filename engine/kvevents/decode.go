package kvevents

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tinylib/msgp/msgp"

	"plimsoll/engine"
	"plimsoll/scoring/prefix"
)

// ErrGarbled is of payloads that are no batch of events. Nothing of them was read.
var ErrGarbled = errors.New("kvevents: no batch of cache events")

var (
	errShape   = errors.New("a value of another type than its place has")
	errMissing = errors.New("a field that is always there is missing")
	errRange   = errors.New("a number out of range")
	errTooMuch = errors.New("more events than one batch may hold")
)

// Batch is what one payload says.
type Batch struct {
	At     time.Time // when the engine made it, by its own clock; the zero time if it does not say
	Rank   int       // data-parallel rank of the publisher, if Ranked
	Ranked bool
	Events []prefix.Event
	// Skipped counts the events that were left out: KVSkipEvent and KVSkipUnknownType.
	Skipped [engine.NumKVSkips]int
	// LostRemoval: an event that was left out, wholly or in part, may have been a removal. What was known before may be gone.
	LostRemoval bool
}

// Decoder turns payloads into batches, in the map and the array form of every release, told apart event by event (wire
// contract, A.1.4 and B.3). Its buffers are used again: a batch is valid until the next call, and on a steady stream no
// call allocates. A Decoder serves one goroutine. The zero value is ready.
//
// Hostile input costs time in proportion to its length, not to the lengths it claims, and memory of decodedBytesMax: what would
// take more is no batch.
type Decoder struct {
	events  []prefix.Event
	hashes  []uint64
	tokens  []uint32
	extras  []uint64
	parents []uint64
	names   interner
	scratch []byte
}

// How many entries of a buffer outlive the batch that needed them: some 4 MB of each.
const (
	keepNumbers = 1 << 19
	keepEvents  = 1 << 14
)

const (
	// decodedBytesMax bounds what a batch is decoded to. A store of a message's whole length takes less, whose token IDs have
	// three bytes and more; tiny events would take ten times what they are on the wire.
	decodedBytesMax = 32 << 20
	eventBytes      = 168 // of a prefix.Event
	hashBytes       = 8
	tokenBytes      = 4
)

// room is how many bytes more the batch may take.
func (d *Decoder) room() int {
	return decodedBytesMax - eventBytes*len(d.events) - hashBytes*(len(d.hashes)+len(d.extras)+len(d.parents)) - tokenBytes*len(d.tokens)
}

// fits says whether there is room for the list that comes next, of elements of a size.
func (d *Decoder) fits(b []byte, elementBytes int) error {
	if n, _, err := readLength(b); err == nil && n > d.room()/elementBytes {
		return errTooMuch
	}
	return nil // what is no list is for its reader to say
}

func (d *Decoder) reset() {
	d.events = recycled(d.events, keepEvents)
	d.hashes = recycled(d.hashes, keepNumbers)
	d.tokens = recycled(d.tokens, keepNumbers)
	d.extras = recycled(d.extras, keepNumbers)
	d.parents = recycled(d.parents, keepNumbers)
}

func recycled[T any](s []T, most int) []T {
	if cap(s) > most {
		return nil
	}
	return s[:0]
}

// Decode reads a payload: an array [time, events, rank, ...] of two elements or more. An event that cannot be read or
// whose type is unknown is left out and counted; the error is for payloads that are no batch at all, or would take more than
// 32 MiB decoded, and wraps [ErrGarbled].
func (d *Decoder) Decode(payload []byte) (Batch, error) {
	d.reset()
	batch, err := d.decode(payload)
	if err != nil {
		return Batch{}, fmt.Errorf("%w: %w", ErrGarbled, err)
	}
	return batch, nil
}

func (d *Decoder) decode(payload []byte) (Batch, error) {
	var batch Batch
	parts, b, err := msgp.ReadArrayHeaderBytes(payload)
	if err != nil {
		return batch, err
	}
	if parts < 2 {
		return batch, errMissing
	}
	if batch.At, b, err = readTime(b); err != nil {
		return batch, err
	}
	if b, err = d.readEvents(b, &batch); err != nil {
		return batch, err
	}
	if parts > 2 {
		if batch.Rank, batch.Ranked, b, err = readCount(b, rankMax); err != nil {
			return batch, err
		}
	}
	for range max(parts, 3) - 3 {
		if b, err = msgp.Skip(b); err != nil {
			return batch, err
		}
	}
	if len(b) > 0 {
		return batch, fmt.Errorf("%d bytes after the batch", len(b))
	}
	batch.Events = d.events
	return batch, nil
}

// rankOf returns the rank of the payload's publisher without reading its events.
func rankOf(payload []byte) (rank int, ok bool) {
	parts, b, err := msgp.ReadArrayHeaderBytes(payload)
	if err != nil || parts < 3 {
		return 0, false
	}
	for range 2 {
		if b, err = msgp.Skip(b); err != nil {
			return 0, false
		}
	}
	rank, ok, _, err = readCount(b, rankMax)
	return rank, ok && err == nil
}

// readEvents reads the list of events. nil stands for none.
func (d *Decoder) readEvents(b []byte, batch *Batch) ([]byte, error) {
	if msgp.NextType(b) == msgp.NilType {
		return msgp.ReadNilBytes(b)
	}
	n, b, err := msgp.ReadArrayHeaderBytes(b)
	if err != nil {
		return nil, err
	}
	for range n {
		rest, err := d.readEvent(b, batch)
		if errors.Is(err, errTooMuch) {
			return nil, err
		}
		if err != nil {
			// Only here the end of the event has to be found apart from its content.
			if rest, err = msgp.Skip(b); err != nil {
				return nil, err
			}
		}
		b = rest
	}
	return b, nil
}

// readEvent reads one event, adds it to the batch or counts why not. After an error, which is counted, the caller must
// find the event's end itself.
func (d *Decoder) readEvent(b []byte, batch *Batch) ([]byte, error) {
	hashes, tokens, extras := len(d.hashes), len(d.tokens), len(d.extras)
	undo := func() { d.hashes, d.tokens, d.extras = d.hashes[:hashes], d.tokens[:tokens], d.extras[:extras] }

	var f fields
	kind, rest, err := d.readFields(b, &f)
	if err == nil && kind != unknownKind {
		err = d.add(kind, &f)
	}
	if d.room() < 0 {
		return nil, errTooMuch
	}
	switch {
	case kind == unknownKind && err == nil:
		undo()
		batch.Skipped[engine.KVSkipUnknownType]++
	case err != nil:
		undo()
		batch.Skipped[engine.KVSkipEvent]++
		batch.LostRemoval = batch.LostRemoval || kind != storedKind
		return nil, err
	case f.badHashes > 0:
		batch.Skipped[engine.KVSkipEvent]++
		batch.LostRemoval = true
	}
	return rest, nil
}

// Bounds of what an engine can mean; beyond them a value is taken for a fault.
const (
	rankMax        = 1 << 20
	groupMax       = 1 << 16
	blockTokensMax = 1 << 20
	windowMax      = 1 << 30
)

// readTime reads seconds since the epoch; nil, and what is no time, is the zero time.
func readTime(b []byte) (time.Time, []byte, error) {
	var seconds float64
	var err error
	switch msgp.NextType(b) { //nolint:exhaustive // nothing else is a time
	case msgp.Float64Type:
		seconds, b, err = msgp.ReadFloat64Bytes(b)
	case msgp.Float32Type:
		var f float32
		f, b, err = msgp.ReadFloat32Bytes(b)
		seconds = float64(f)
	case msgp.IntType, msgp.UintType:
		var i int64
		i, b, err = msgp.ReadInt64Bytes(b)
		seconds = float64(i)
	case msgp.NilType:
		b, err = msgp.ReadNilBytes(b)
		return time.Time{}, b, err
	default:
		return time.Time{}, nil, errShape
	}
	const latest = 1 << 40 // seconds; some 35,000 years
	if err != nil || !(math.Abs(seconds) < latest) {
		return time.Time{}, b, err
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), b, nil
}

// readCount reads an integer from 0 to most; nil is none.
func readCount(b []byte, most uint64) (n int, ok bool, rest []byte, err error) {
	if msgp.NextType(b) == msgp.NilType {
		rest, err = msgp.ReadNilBytes(b)
		return 0, false, rest, err
	}
	u, rest, err := msgp.ReadUint64Bytes(b)
	if err == nil && u > most {
		err = errRange
	}
	return int(u), err == nil, rest, err
}

// readText reads a string without copying it; nil is none.
func readText(b []byte) (text, rest []byte, err error) {
	if msgp.NextType(b) == msgp.NilType {
		rest, err = msgp.ReadNilBytes(b)
		return nil, rest, err
	}
	return msgp.ReadStringZC(b)
}
