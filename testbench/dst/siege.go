package dst

import (
	"math/rand/v2"
	"slices"
	"time"

	"plimsoll/scoring/queue"
)

// sieges are requests of the highest class that only one replica can hold, while so many short ones of the lowest come that it is never
// empty. They are drawn, for the whole run, by a generator of their own.
type sieges struct {
	rng *rand.Rand // nil: there are none
}

// drawSieges draws them for some of the seeds.
func drawSieges(seed uint64) sieges {
	rng := rand.New(rand.NewPCG(seed, 0x94d049bb133111eb))
	if rng.Float64() >= 0.12 {
		return sieges{}
	}
	return sieges{rng}
}

// besiege has them come.
func (w *world) besiege() {
	rng := w.plan.sieges.rng
	if rng == nil {
		return
	}
	sizes := make([]int, len(w.hosts))
	for i, h := range w.hosts {
		sizes[i] = h.p.cfg.SequenceTokens()
	}
	slices.Sort(sizes)
	longest := sizes[len(sizes)-1]
	at := time.Duration(rng.Int64N(int64(w.plan.safety)))
	for range 90 + rng.IntN(60) {
		c := w.blankCall()
		c.small = true
		c.ids = [][]uint32{drawTokens(rng, 16+rng.IntN(64))}
		c.req.MaxTokens, c.req.IgnoreEOS, c.req.Sampling.Temperature, c.req.Class = new(16+rng.IntN(48)), true, new(0.0), queue.Flex
		c.filled()
		w.in(at+time.Duration(rng.Int64N(int64(1500*time.Millisecond))), evCall).call = c
	}
	for range 1 + rng.IntN(2) {
		c := w.blankCall()
		c.ids = [][]uint32{drawTokens(rng, longest-1-rng.IntN(max(1, longest-sizes[len(sizes)-2])))}
		c.req.MaxTokens, c.req.Sampling.Temperature, c.req.Class = new(8), new(0.0), queue.Priority
		c.filled()
		w.in(at+300*time.Millisecond+time.Duration(rng.Int64N(int64(600*time.Millisecond))), evCall).call = c
	}
}
