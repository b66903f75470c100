package kvpub

import (
	"encoding/binary"
	"slices"
)

// batch is one batch as it goes on the wire: the frames topic, seq and payload with their heads.
type batch struct {
	seq     uint64
	wire    []byte // shared and read-only
	seqAt   int    // where the head of the frame of the sequence number stands
	payload int    // where the payload begins
}

func newBatch(topic string, seq uint64, payload []byte) batch {
	seqAt := headBytes(len(topic)) + len(topic)
	at := seqAt + 2 + 8 + headBytes(len(payload))
	wire := make([]byte, 0, at+len(payload))
	wire = appendFrame(wire, flagMore, []byte(topic))
	wire = appendFrame(wire, flagMore, binary.BigEndian.AppendUint64(nil, seq))
	wire = appendFrame(wire, 0, payload)
	return batch{seq: seq, wire: wire, seqAt: seqAt, payload: at}
}

// garbled is the same batch with a byte in place of the payload's first that msgpack never uses.
func (b batch) garbled() batch {
	b.wire = slices.Clone(b.wire)
	b.wire[b.payload] = 0xc1
	return b
}

// replayed are the frames after the empty one of a replay in a layout.
func (b batch) replayed(layout Layout) []byte {
	if layout == WithoutTopic {
		return b.wire[b.seqAt:]
	}
	return b.wire
}

// ring holds the last batches of a life, oldest first.
type ring struct {
	batches []batch
	first   int // place of the oldest
	max     int
}

func (r *ring) add(b batch) {
	if len(r.batches) < r.max {
		r.batches = append(r.batches, b)
		return
	}
	r.batches[r.first] = b
	r.first = (r.first + 1) % r.max
}

// from returns the batches whose number is at least start.
func (r *ring) from(start uint64) []batch {
	list := slices.Concat(r.batches[r.first:], r.batches[:r.first])
	at, _ := slices.BinarySearchFunc(list, start, func(b batch, start uint64) int {
		if b.seq < start {
			return -1
		}
		return 1
	})
	return list[at:]
}
