package policy

import (
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
	reasons []Reason // scratch, one a candidate
}

// Name implements [Policy].
func (*tokenLoad) Name() string { return tokenLoadName }

// Decide implements [Policy]. Exact ties are broken at random, each of the k best with chance 1/k.
func (p *tokenLoad) Decide(now time.Time, d *Demand, fleet []Candidate) Decision {
	p.reasons = p.reasons[:0]
	best, ties := -1, 0
	var least float64
	for i := range fleet {
		c := &fleet[i]
		why := Eligible(now, d, c)
		p.reasons = append(p.reasons, why)
		if why != OK {
			continue
		}
		total := Predict(now, d, c, p.weights).TotalSeconds()
		switch {
		case best < 0 || total < least:
			best, least, ties = i, total, 1
		case total == least:
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
