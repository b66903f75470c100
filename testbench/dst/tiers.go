package dst

import (
	"math"
	"math/rand/v2"
	"time"

	"plimsoll/actors/router"
	"plimsoll/actors/stream"
	"plimsoll/scoring/queue"
)

// tiers are the ranks, tenants and SLOs of a seed's requests, and the crowds that make them matter. They are drawn, for the whole
// run, by a generator of their own: fleet, requests and faults of a seed are what they would be without.
type tiers struct {
	rng *rand.Rand // nil: all requests are alike

	classes, slos bool
	tenants       []string // at least one
	weights       map[string]float64
	promoteAfter  time.Duration
	boundFactor   *float64 // of the default policy; nil: its own
	crowds        int
}

// drawTiers draws them for about half of the seeds.
func drawTiers(seed uint64) tiers {
	rng := rand.New(rand.NewPCG(seed, 0xa0761d6478bd642f))
	if rng.Float64() < 0.5 {
		return tiers{}
	}
	t := tiers{rng: rng, tenants: []string{"default"}}
	t.classes = rng.Float64() < 0.8
	t.slos = rng.Float64() < 0.7
	if rng.Float64() < 0.8 {
		t.tenants = append(t.tenants, []string{"acme", "bolt"}[:1+rng.IntN(2)]...)
		t.weights = map[string]float64{"acme": 0.25 + 3*rng.Float64()}
	}
	t.promoteAfter = 50*time.Millisecond + time.Duration(rng.Int64N(int64(750*time.Millisecond)))
	if rng.Float64() < 0.5 {
		t.boundFactor = new([]float64{0, 1}[rng.IntN(2)])
	}
	if rng.Float64() < 0.7 {
		t.crowds = 1 + rng.IntN(3)
	}
	return t
}

// set tells the router.
func (t *tiers) set(cfg *router.Config) {
	if t.rng == nil {
		return
	}
	cfg.TenantWeights = t.weights
	cfg.Queue.PromoteAfter = t.promoteAfter
	if t.boundFactor != nil {
		cfg.Policy.TokenLoad.BoundFactor = *t.boundFactor
	}
}

// rank draws who asks, and how urgently.
func (t *tiers) rank(req *stream.Request) {
	if t.rng == nil {
		return
	}
	class := queue.Class(t.rng.IntN(int(queue.NumClasses))) //nolint:gosec // an enum
	if t.classes {
		req.Class = class
	}
	req.Tenant = t.tenants[t.rng.IntN(len(t.tenants))]
	if !t.slos || t.rng.Float64() >= 1.0/3 {
		return
	}
	// As many are hard to meet as are easy.
	req.SLO.TTFT = new(time.Duration(float64(20*time.Millisecond) * math.Pow(150, t.rng.Float64())))
	if t.rng.Float64() < 0.25 {
		req.SLO.TPOT = new(10*time.Millisecond + time.Duration(t.rng.Int64N(int64(90*time.Millisecond))))
	}
}

// rush has crowds come: short requests, more of them than there are seats, all within a moment.
func (w *world) rush() {
	t := &w.plan.tiers
	at := time.Duration(0)
	for n := range t.crowds {
		if n == 0 || t.rng.Float64() < 0.3 {
			at = time.Duration(t.rng.Int64N(int64(w.plan.safety)))
		} else { // while those of the one before still wait
			at += time.Duration(t.rng.Int64N(int64(800 * time.Millisecond)))
		}
		alike := t.rng.Float64() < 0.5
		prompt, answer := 8+t.rng.IntN(24), 8+t.rng.IntN(40)
		for range 24 + t.rng.IntN(32) {
			c := w.blankCall()
			c.small = true
			if !alike {
				prompt, answer = 8+t.rng.IntN(56), 8+t.rng.IntN(40)
			}
			c.ids = [][]uint32{drawTokens(t.rng, prompt)}
			c.req.MaxTokens, c.req.IgnoreEOS, c.req.Sampling.Temperature = new(answer), true, new(0.0)
			t.rank(c.req)
			c.filled()
			w.in(at+time.Duration(t.rng.Int64N(int64(100*time.Millisecond))), evCall).call = c
		}
	}
}
