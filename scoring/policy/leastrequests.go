package policy

import (
	"math/rand/v2"
	"time"
)

const (
	leastRequestsName = "least-requests"
	p2cName           = "p2c"
)

// leastRequests takes the eligible replica with the fewest requests, ties at random. It knows neither length nor cache.
type leastRequests struct {
	stateless
	rng     *rand.Rand
	reasons []Reason // scratch, one a candidate
}

// Name implements [Policy].
func (*leastRequests) Name() string { return leastRequestsName }

// Decide implements [Policy].
func (p *leastRequests) Decide(now time.Time, d *Demand, fleet []Candidate) Decision {
	p.reasons = p.reasons[:0]
	best, ties := -1, 0
	for i := range fleet {
		why := Eligible(now, d, &fleet[i])
		p.reasons = append(p.reasons, why)
		if why != OK {
			continue
		}
		switch n := requests(&fleet[i]); {
		case best < 0 || n < requests(&fleet[best]):
			best, ties = i, 1
		case n == requests(&fleet[best]):
			ties++
			if p.rng.IntN(ties) == 0 {
				best = i
			}
		}
	}
	if best < 0 {
		return notNow(now, p.reasons, fleet)
	}
	return Decision{Verdict: Dispatch, Index: best}
}

// requests counts what a replica works on or was asked to.
func requests(c *Candidate) int { return c.Load.Reserved + c.Load.Running + c.PendingRequests }

// p2c draws two eligible replicas and takes the one with fewer requests ("power of two choices", Mitzenmacher 2001): close
// to least requests, without every router running to the same replica.
type p2c struct {
	stateless
	rng      *rand.Rand
	reasons  []Reason // scratch, one a candidate
	eligible []int    // scratch
}

// Name implements [Policy].
func (*p2c) Name() string { return p2cName }

// Decide implements [Policy].
func (p *p2c) Decide(now time.Time, d *Demand, fleet []Candidate) Decision {
	p.reasons, p.eligible = p.reasons[:0], p.eligible[:0]
	for i := range fleet {
		why := Eligible(now, d, &fleet[i])
		p.reasons = append(p.reasons, why)
		if why == OK {
			p.eligible = append(p.eligible, i)
		}
	}
	n := len(p.eligible)
	switch n {
	case 0:
		return notNow(now, p.reasons, fleet)
	case 1:
		return Decision{Verdict: Dispatch, Index: p.eligible[0]}
	}
	first := p.rng.IntN(n)
	second := p.rng.IntN(n - 1)
	if second >= first {
		second++
	}
	a, b := p.eligible[first], p.eligible[second]
	if requests(&fleet[b]) < requests(&fleet[a]) {
		a = b
	}
	return Decision{Verdict: Dispatch, Index: a}
}
