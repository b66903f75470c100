package policy

import (
	"cmp"
	"math/rand/v2"
	"time"

	"plimsoll/scoring/cost"
)

const tokenLoadName = "token-load"

// tokenLoad sends a request where its predicted cost in seconds is least, its effect on others included. Overlap is a
// discount on prefill, never a goal.
type tokenLoad struct {
	stateless
	rng     *rand.Rand
	weights cost.Weights
	reasons []Reason  // scratch, one a candidate
	totals  []float64 // scratch, one a candidate
}

// nearly is the share of the least cost within which another counts as equal: learned rates are no better than that, and
// what they differ by must not draw a conversation away from its cache.
const nearly = 0.05

// Name implements [Policy].
func (*tokenLoad) Name() string { return tokenLoadName }

// Decide implements [Policy]. Of those that cost nearly the least, the one with the most of the prompt in its cache is taken,
// of these the cheapest. Exact ties are broken at random, each of the k best with chance 1/k.
func (p *tokenLoad) Decide(now time.Time, d *Demand, fleet []Candidate) Decision {
	p.reasons, p.totals = p.reasons[:0], p.totals[:0]
	least, found := 0.0, false
	for i := range fleet {
		c := &fleet[i]
		why := Eligible(now, d, c)
		total := 0.0
		if why == OK {
			total = Predict(now, d, c, p.weights).TotalSeconds()
			if !found || total < least {
				least, found = total, true
			}
		}
		p.reasons, p.totals = append(p.reasons, why), append(p.totals, total)
	}
	if !found {
		return notNow(now, p.reasons, fleet)
	}
	best, ties := -1, 0
	for i := range fleet {
		if p.reasons[i] != OK || p.totals[i] > least*(1+nearly) {
			continue
		}
		switch order := p.compare(fleet, i, best); {
		case order < 0:
			best, ties = i, 1
		case order == 0:
			ties++
			if p.rng.IntN(ties) == 0 {
				best = i
			}
		}
	}
	return Decision{Verdict: Dispatch, Index: best}
}

// compare is negative if candidate a goes before b: more overlap, then less cost. b is -1 for none.
func (p *tokenLoad) compare(fleet []Candidate, a, b int) int {
	if b < 0 {
		return -1
	}
	return cmp.Or(cmp.Compare(fleet[b].OverlapTokens, fleet[a].OverlapTokens), cmp.Compare(p.totals[a], p.totals[b]))
}

// Predict is the cost of sending the demand to the candidate, by the formula of scoring/cost.
func Predict(now time.Time, d *Demand, c *Candidate, w cost.Weights) cost.Breakdown {
	r := cost.Replica{
		Load:                 c.Load,
		PendingRequests:      c.PendingRequests,
		PendingPrefillTokens: c.PendingPrefillTokens,
	}
	if c.Load.OldestPrefill != nil {
		r.PrefillElapsed = now.Sub(*c.Load.OldestPrefill)
	}
	demand := cost.Demand{PromptTokens: d.PromptTokens, OutputTokens: d.OutputTokens}
	return cost.Predict(demand, r, c.OverlapTokens, c.Rates, w)
}
