package policy

import (
	"math"
	"math/rand/v2"

	"plimsoll/scoring/cost"
)

const blockCostName = "block-cost"

// BlockCostConfig sets block-cost.
type BlockCostConfig struct {
	// OverlapWeight is what a block to be computed counts beside one to be held.
	OverlapWeight float64
	// Temperature of the draw among all; 0: the least cost is taken.
	Temperature float64
}

// DefaultBlockCost has the documented defaults of Dynamo's router.
func DefaultBlockCost() BlockCostConfig { return BlockCostConfig{OverlapWeight: 1} }

// blockCost follows the KV router of Dynamo and Ray: a weight times the blocks to be computed plus the blocks to be held, both as
// they would be with this request.
type blockCost struct {
	atOnce
	cfg   BlockCostConfig
	rng   *rand.Rand
	costs []float64 // scratch, one a candidate
}

func newBlockCost(cfg BlockCostConfig, w cost.Weights, rng *rand.Rand) *blockCost {
	cfg.OverlapWeight *= w.Reuse
	return &blockCost{cfg: cfg, rng: rng}
}

// Name implements [Policy].
func (*blockCost) Name() string { return blockCostName }

// Decide implements [Policy].
func (p *blockCost) Decide(d *Demand, fits []Fit) Decision {
	reasons, found := p.pass.eligible(d, fits)
	if !found {
		return p.pass.notNow(reasons)
	}
	pick := picker{rng: p.rng}
	p.costs = p.costs[:0]
	most := 0.0
	for i, why := range reasons {
		c := 0.0
		if why == OK {
			prefill, held := p.blocks(d, fits, i)
			c = p.cfg.OverlapWeight*prefill + held
			most = max(most, c)
			pick.offer(i, c)
		}
		p.costs = append(p.costs, c)
	}
	if p.cfg.Temperature <= 0 || pick.cost == most {
		return Decision{Verdict: Dispatch, Index: pick.best}
	}
	return Decision{Verdict: Dispatch, Index: p.draw(reasons, pick.cost, most)}
}

// draw takes one with a chance that falls exponentially with its cost, scaled so that least and most are one apart.
func (p *blockCost) draw(reasons []Reason, least, most float64) int {
	total := 0.0
	for i, why := range reasons {
		if why == OK {
			p.costs[i] = math.Exp(-(p.costs[i] - least) / (most - least) / p.cfg.Temperature)
			total += p.costs[i]
		}
	}
	left, last := total*p.rng.Float64(), 0
	for i, why := range reasons {
		if why != OK {
			continue
		}
		if left, last = left-p.costs[i], i; left < 0 {
			break
		}
	}
	return last
}

// blocks are those to be computed and those to be held on a candidate with this request.
func (p *blockCost) blocks(d *Demand, fits []Fit, i int) (prefill, held float64) {
	c, f := &p.pass.Fleet[i], &fits[i]
	block := max(1, c.Load.Limits.BlockTokens)
	prefill = float64(prefillTokens(c)+newTokens(d, f)) / float64(block)
	// What sequences hold, prefixes that they share once: what is booked for them includes what they are predicted to produce.
	active := min(c.Load.BookedBlocks+c.PendingBlocks, ownTokens(c).Blocks(block)) + c.Load.ForeignBlocks
	return prefill, float64(active + max(0, d.PromptTokens.Blocks(block)-f.RideBlocks))
}

// Terms implements [Policy].
func (*blockCost) Terms() []string { return []string{"prefill blocks", "held blocks", "cost"} }

// Explain implements [Policy].
func (p *blockCost) Explain(d *Demand, fits []Fit, i int, dst []float64) []float64 {
	prefill, held := p.blocks(d, fits, i)
	return append(dst, prefill, held, p.cfg.OverlapWeight*prefill+held)
}
