package ledger

import "plimsoll/scoring"

// recent remembers the last tickets added to it, a fixed number of them.
type recent struct {
	keep int
	ring []scoring.Ticket
	next int // the place that is overwritten next, once the ring is full
	set  map[scoring.Ticket]struct{}
}

func newRecent(keep int) recent {
	return recent{keep: keep, set: map[scoring.Ticket]struct{}{}}
}

func (r *recent) has(t scoring.Ticket) bool {
	_, ok := r.set[t]
	return ok
}

// add remembers a ticket that is not remembered yet.
func (r *recent) add(t scoring.Ticket) {
	r.set[t] = struct{}{}
	if len(r.ring) < r.keep {
		r.ring = append(r.ring, t)
		return
	}
	delete(r.set, r.ring[r.next])
	r.ring[r.next] = t
	r.next = (r.next + 1) % r.keep
}
