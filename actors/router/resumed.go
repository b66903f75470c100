package router

import (
	"time"

	"plimsoll/actors/stream"
	"plimsoll/scoring"
)

// resumed are the answers that go on elsewhere after their engine failed, from their reservation to their first token there.
// When a replica dies its answers all look for a place at once, each with a prompt that none of the others has cached:
// what a survivor gets of them at a time is bounded, so that those which it runs go on at their pace, and the cheapest go on
// first.
type resumed struct {
	prefill map[scoring.ReplicaID]scoring.Tokens // of those under way
	tickets map[scoring.Ticket]prefill
}

// prefill is the work of one of them.
type prefill struct {
	replica scoring.ReplicaID
	tokens  scoring.Tokens
	until   time.Time // it counts no more: what ends it was lost
}

// prefillWait is how long a prefill that nothing is heard of counts.
const prefillWait = 10 * time.Second

func newResumed() resumed {
	return resumed{prefill: map[scoring.ReplicaID]scoring.Tokens{}, tickets: map[scoring.Ticket]prefill{}}
}

// begin counts a reservation.
func (r *resumed) begin(now time.Time, p *stream.Placement) {
	r.tickets[p.Claim.Ticket] = prefill{p.Ref.ID, p.Claim.PrefillTokens, now.Add(prefillWait)}
	r.prefill[p.Ref.ID] += p.Claim.PrefillTokens
}

// end takes it off; false: it was none, or was taken off before.
func (r *resumed) end(t scoring.Ticket) bool {
	p, ok := r.tickets[t]
	if !ok {
		return false
	}
	delete(r.tickets, t)
	if r.prefill[p.replica] -= p.tokens; r.prefill[p.replica] == 0 {
		delete(r.prefill, p.replica)
	}
	return true
}

// expire takes off what nothing is heard of.
func (r *resumed) expire(now time.Time) {
	for t, p := range r.tickets {
		if !now.Before(p.until) {
			r.end(t)
		}
	}
}

// full says whether a replica must not get one more: it has some, and would have more than most.
func (r *resumed) full(id scoring.ReplicaID, tokens, most scoring.Tokens) bool {
	has := r.prefill[id]
	return has > 0 && has+tokens > most
}

// resumeCostPerToken orders answers that wait to go on: by when they broke off, and every token of their prompts counts
// as that much later. It is a slow engine's prefill rate, so that of those that broke off together the cheapest are first.
const resumeCostPerToken = time.Millisecond

// since is when the first of a submission's legs broke off.
func since(sub *stream.Submit) time.Time {
	first := sub.Legs[0].Since
	for _, a := range sub.Legs[1:] {
		if a.Since.Before(first) {
			first = a.Since
		}
	}
	return first
}
