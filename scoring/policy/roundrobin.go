package policy

import (
	"time"

	"plimsoll/scoring"
)

const roundRobinName = "round-robin"

// roundRobin takes the next eligible replica by ID after the one it took last. It knows no cost: a yardstick, and a
// choice for fleets whose requests are all alike.
type roundRobin struct {
	stateless
	last    *scoring.ReplicaID
	reasons []Reason // scratch, one a candidate
}

// Name implements [Policy].
func (*roundRobin) Name() string { return roundRobinName }

// Decide implements [Policy].
func (p *roundRobin) Decide(now time.Time, d *Demand, fleet []Candidate) Decision {
	p.reasons = p.reasons[:0]
	first, next := -1, -1
	for i := range fleet {
		why := Eligible(now, d, &fleet[i])
		p.reasons = append(p.reasons, why)
		if why != OK {
			continue
		}
		if first < 0 {
			first = i
		}
		if next < 0 && p.last != nil && fleet[i].ID > *p.last {
			next = i
		}
	}
	if first < 0 {
		return notNow(now, p.reasons, fleet)
	}
	if next < 0 {
		next = first
	}
	id := fleet[next].ID
	p.last = &id
	return Decision{Verdict: Dispatch, Index: next}
}
