package policy_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"plimsoll/scoring"
	"plimsoll/scoring/policy"
)

// BenchmarkDecide ranks 64 replicas of mixed load.
func BenchmarkDecide(b *testing.B) {
	for _, name := range policy.Names() {
		b.Run(fmt.Sprintf("policy=%s/replicas=64", name), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			p, err := policy.New(named(name), rng)
			if err != nil {
				b.Fatal(err)
			}
			fleet := make([]candidate, 64)
			for i := range fleet {
				fleet[i] = idle(fmt.Sprintf("r%02d", i))
				fleet[i].Load.Running = rng.IntN(8)
				fleet[i].Load.DecodeKVTokens = scoring.Tokens(rng.IntN(10_000))
				fleet[i].Load.QueuedPrefillTokens = scoring.Tokens(rng.IntN(10_000))
				fleet[i].OverlapTokens = scoring.Tokens(rng.IntN(100))
			}
			d := usual()
			_, fits := looked(p, start, fleet, policy.Queue{})
			b.ReportAllocs()
			for b.Loop() {
				if dec := p.Decide(d, fits); dec.Verdict != policy.Dispatch {
					b.Fatal(dec)
				}
			}
		})
	}
}
