package policy

import (
	"math/rand/v2"

	"plimsoll/scoring"
)

const (
	roundRobinName = "round-robin"
	randomName     = "random"
	p2cName        = "p2c"
)

// roundRobin takes the next replica by ID after the one it took last that can take the request, and begins with any: else the first
// replica would get the first request of every router that starts. It knows no cost: a yardstick, and a choice for fleets whose
// requests are all alike.
type roundRobin struct {
	atOnce
	rng  *rand.Rand
	last *scoring.ReplicaID
}

// Name implements [Policy].
func (*roundRobin) Name() string { return roundRobinName }

// Decide implements [Policy].
func (p *roundRobin) Decide(d *Demand, fits []Fit) Decision {
	reasons, found := p.pass.eligible(d, fits)
	if !found {
		return p.pass.notNow(reasons)
	}
	pick := picker{rng: p.rng}
	for i, why := range reasons {
		switch {
		case why != OK:
		case p.last == nil:
			pick.offer(i, 0)
		default: // the fleet is in the order of IDs
			pick.offer(i, p.turn(i)+float64(i)/float64(len(reasons)))
		}
	}
	return Decision{Verdict: Dispatch, Index: pick.best}
}

// OnDispatch implements [Policy].
func (p *roundRobin) OnDispatch(_ *Demand, _ []Fit, i int) {
	id := p.pass.Fleet[i].ID
	p.last = &id
}

// turn is 0 if a candidate comes after the one taken last, else 1.
func (p *roundRobin) turn(i int) float64 {
	if p.last != nil && p.pass.Fleet[i].ID > *p.last {
		return 0
	}
	return 1
}

// Terms implements [Policy].
func (*roundRobin) Terms() []string { return []string{"turn"} }

// Explain implements [Policy].
func (p *roundRobin) Explain(_ *Demand, _ []Fit, i int, dst []float64) []float64 {
	return append(dst, p.turn(i))
}

// anyOne rates all alike: ties are broken at random.
type anyOne struct{}

func (*anyOne) terms() []string { return nil }

func (*anyOne) append(_ *Pass, _ *Demand, _ *Fit, _ int, dst []float64) []float64 { return dst }

func (*anyOne) of(*Pass, *Demand, *Fit, int) float64 { return 0 }

// p2c draws two that can take the request and takes the one with fewer requests ("power of two choices", Mitzenmacher 2001): close
// to least requests, without every router running to the same replica.
type p2c struct {
	atOnce
	rng      *rand.Rand
	eligible []int // scratch
}

// Name implements [Policy].
func (*p2c) Name() string { return p2cName }

// Decide implements [Policy].
func (p *p2c) Decide(d *Demand, fits []Fit) Decision {
	reasons, found := p.pass.eligible(d, fits)
	if !found {
		return p.pass.notNow(reasons)
	}
	p.eligible = p.eligible[:0]
	for i, why := range reasons {
		if why == OK {
			p.eligible = append(p.eligible, i)
		}
	}
	n := len(p.eligible)
	if n == 1 {
		return Decision{Verdict: Dispatch, Index: p.eligible[0]}
	}
	first := p.rng.IntN(n)
	second := p.rng.IntN(n - 1)
	if second >= first {
		second++
	}
	a, b := p.eligible[first], p.eligible[second]
	if requests(&p.pass.Fleet[b]) < requests(&p.pass.Fleet[a]) {
		a = b
	}
	return Decision{Verdict: Dispatch, Index: a}
}

// Terms implements [Policy].
func (*p2c) Terms() []string { return []string{"requests"} }

// Explain implements [Policy].
func (p *p2c) Explain(_ *Demand, _ []Fit, i int, dst []float64) []float64 {
	return append(dst, float64(requests(&p.pass.Fleet[i])))
}
