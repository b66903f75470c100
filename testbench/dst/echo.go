package dst

import (
	"math/rand/v2"
	"time"
)

// echoes are requests whose prompts are nothing but the first blocks of what many others begin with: their engine has all of it, computes
// the last block once more, and tells of a second copy. To an index that has missed the first one it is the parent of blocks that it
// has heard of. They are drawn, for the whole run, by a generator of their own.
func (w *world) echo() {
	rng := rand.New(rand.NewPCG(w.cfg.Seed, 0xd6e8feb86659fd93))
	if rng.Float64() >= 0.3 {
		return
	}
	for range 20 + rng.IntN(30) {
		family := w.prefixes[rng.IntN(len(w.prefixes))]
		c := w.blankCall()
		c.small = true
		blocks := 1
		for rng.Float64() < 0.4 {
			blocks++
		}
		c.ids = [][]uint32{family[:min(blocks, len(family)/blockTokens)*blockTokens]}
		c.req.MaxTokens, c.req.Sampling.Temperature = new(1+rng.IntN(8)), new(0.0)
		c.filled()
		w.in(time.Duration(rng.Int64N(int64(w.plan.safety))), evCall).call = c
	}
}
