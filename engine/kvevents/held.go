package kvevents

import (
	"cmp"
	"slices"
)

// heldBatch is a published batch that waits.
type heldBatch struct {
	seq     uint64
	mark    uint64 // fingerprint of the payload
	payload []byte
}

// held keeps published batches in the order of their sequence numbers, each once, within bounds.
type held struct {
	batchesMax, bytesMax int

	batches []heldBatch
	bytes   int
}

func (h *held) place(seq uint64) (int, bool) {
	if n := len(h.batches); n == 0 || h.batches[n-1].seq < seq {
		return n, false // nearly always
	}
	return slices.BinarySearchFunc(h.batches, seq, func(b heldBatch, seq uint64) int { return cmp.Compare(b.seq, seq) })
}

// find says whether a batch with that number is kept, and whether it is the very same.
func (h *held) find(seq, mark uint64) (kept, same bool) {
	at, kept := h.place(seq)
	return kept, kept && h.batches[at].mark == mark
}

// add keeps a copy. It reports false, and keeps nothing, if that would break a bound.
func (h *held) add(seq uint64, payload []byte, mark uint64) bool {
	if len(h.batches) >= h.batchesMax || h.bytes+len(payload) > h.bytesMax {
		return false
	}
	at, kept := h.place(seq)
	if kept {
		return true
	}
	h.bytes += len(payload)
	h.batches = slices.Insert(h.batches, at, heldBatch{seq: seq, mark: mark, payload: slices.Clone(payload)})
	return true
}

// shift forgets the first.
func (h *held) shift() {
	h.bytes -= len(h.batches[0].payload)
	h.batches[0].payload = nil
	if h.batches = h.batches[1:]; len(h.batches) == 0 {
		h.batches = nil
	}
}

func (h *held) clear() { h.batches, h.bytes = nil, 0 }

// recentMax is how many batches back a repeated one is recognised.
const recentMax = 4096

// recent remembers the fingerprints of the batches applied last. A payload has the time of its making in it, so two
// lives of an engine never share one.
type recent struct {
	batches []seenBatch // by number modulo recentMax
}

type seenBatch struct {
	seq, mark uint64
	set       bool
}

func (r *recent) add(seq, mark uint64) {
	at := int(seq % recentMax)
	for len(r.batches) <= at {
		r.batches = append(r.batches, make([]seenBatch, max(1, min(len(r.batches), recentMax-len(r.batches))))...)
	}
	r.batches[at] = seenBatch{seq: seq, mark: mark, set: true}
}

// find returns the fingerprint of the batch of that number, if it is remembered.
func (r *recent) find(seq uint64) (mark uint64, ok bool) {
	at := int(seq % recentMax)
	if at >= len(r.batches) || !r.batches[at].set || r.batches[at].seq != seq {
		return 0, false
	}
	return r.batches[at].mark, true
}

// same says whether that very batch is remembered.
func (r *recent) same(seq, mark uint64) bool {
	known, ok := r.find(seq)
	return ok && known == mark
}

// other says whether another batch of that number is remembered.
func (r *recent) other(seq, mark uint64) bool {
	known, ok := r.find(seq)
	return ok && known != mark
}

func (r *recent) clear() { clear(r.batches) }
