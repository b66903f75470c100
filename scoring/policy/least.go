package policy

import (
	"math/rand/v2"

	"plimsoll/scoring"
)

const (
	leastRequestsName = "least-requests"
	leastTokensName   = "least-tokens"
	lmetricName       = "lmetric"
)

// score rates a candidate for a request: the terms of which it is made, the sum last.
type score interface {
	terms() []string
	append(p *Pass, d *Demand, f *Fit, i int, dst []float64) []float64
	of(p *Pass, d *Demand, f *Fit, i int) float64
}

// least takes the candidate that can take the request and scores least, ties at random.
type least struct {
	atOnce
	name  string
	rng   *rand.Rand
	score score
}

func newLeast(name string, rng *rand.Rand, s score) *least {
	return &least{name: name, rng: rng, score: s}
}

// Name implements [Policy].
func (p *least) Name() string { return p.name }

// Decide implements [Policy].
func (p *least) Decide(d *Demand, fits []Fit) Decision {
	reasons, found := p.pass.eligible(d, fits)
	if !found {
		return p.pass.notNow(reasons)
	}
	pick := picker{rng: p.rng}
	for i, why := range reasons {
		if why == OK {
			pick.offer(i, p.score.of(p.pass, d, &fits[i], i))
		}
	}
	return Decision{Verdict: Dispatch, Index: pick.best}
}

// Terms implements [Policy].
func (p *least) Terms() []string { return p.score.terms() }

// Explain implements [Policy].
func (p *least) Explain(d *Demand, fits []Fit, i int, dst []float64) []float64 {
	return p.score.append(p.pass, d, &fits[i], i, dst)
}

// picker keeps the best of what it is offered: the least, each of k equal ones with chance 1/k.
type picker struct {
	rng  *rand.Rand
	best int
	cost float64
	ties int
}

func (p *picker) offer(i int, cost float64) {
	switch {
	case p.ties == 0 || cost < p.cost:
		p.best, p.cost, p.ties = i, cost, 1
	case cost == p.cost:
		p.ties++
		if p.rng.IntN(p.ties) == 0 {
			p.best = i
		}
	}
}

// leastRequests counts the requests in flight. It knows neither length nor cache.
type leastRequests struct{}

func (*leastRequests) terms() []string { return []string{"requests"} }

func (s *leastRequests) append(p *Pass, d *Demand, f *Fit, i int, dst []float64) []float64 {
	return append(dst, s.of(p, d, f, i))
}

func (*leastRequests) of(p *Pass, _ *Demand, _ *Fit, i int) float64 {
	return float64(requests(&p.Fleet[i]))
}

// requests counts what a replica works on or was asked to, by whomever.
func requests(c *Candidate) int {
	return c.Load.Reserved + c.Load.Running + c.Pending.Requests + c.Load.ForeignSeats + c.Load.ForeignWaiting
}

// leastTokens counts the tokens in flight: prompts, cached or not, and what was produced. It knows no cache.
type leastTokens struct{}

func (*leastTokens) terms() []string { return []string{"tokens"} }

func (s *leastTokens) append(p *Pass, d *Demand, f *Fit, i int, dst []float64) []float64 {
	return append(dst, s.of(p, d, f, i))
}

func (*leastTokens) of(p *Pass, _ *Demand, _ *Fit, i int) float64 {
	return float64(activeTokens(&p.Fleet[i]))
}

// activeTokens are the tokens of the sequences in flight on a replica, others' too.
func activeTokens(c *Candidate) scoring.Tokens {
	return ownTokens(c) + scoring.Tokens(c.Load.ForeignBlocks)*c.Load.Limits.BlockTokens
}

// ownTokens are those of the sequences that we have sent there.
func ownTokens(c *Candidate) scoring.Tokens {
	return c.Load.DecodeKVTokens + c.Load.ReservedPromptTokens + c.Pending.PromptTokens
}

// prefillTokens are the uncached prompt tokens in flight on a replica that have no first token yet.
func prefillTokens(c *Candidate) scoring.Tokens {
	return c.Load.QueuedPrefillTokens + c.Pending.PrefillTokens
}

// newTokens are the prompt tokens that a replica would have to compute; the last one always.
func newTokens(d *Demand, f *Fit) scoring.Tokens {
	return d.PromptTokens - max(0, min(f.OverlapTokens, d.PromptTokens-1))
}

// lmetric multiplies the prompt tokens to be computed with the requests in flight, both with this request.
type lmetric struct{}

func (*lmetric) terms() []string { return []string{"new tokens", "batch", "product"} }

func (s *lmetric) append(p *Pass, d *Demand, f *Fit, i int, dst []float64) []float64 {
	c := &p.Fleet[i]
	return append(dst, float64(prefillTokens(c)+newTokens(d, f)), float64(requests(c)+1), s.of(p, d, f, i))
}

func (*lmetric) of(p *Pass, d *Demand, f *Fit, i int) float64 {
	c := &p.Fleet[i]
	return float64(prefillTokens(c)+newTokens(d, f)) * float64(requests(c)+1)
}
