package sim_test

import (
	"fmt"
	"strconv"
	"testing"

	"plimsoll/engine/sim"
)

// decoding is an engine whose batch is full of sequences that decode, and the number of its next pass.
func decoding(b *testing.B, seqs int) (*sim.Machine, uint64) {
	b.Helper()
	m, err := sim.New(sim.DefaultConfig(), sim.Deps{Source: hashSource})
	if err != nil {
		b.Fatal(err)
	}
	for i := range seqs {
		m.Step(0, ask(strconv.Itoa(i), prompt(100, uint32(i), 1000), 1_000_000))
	}
	step := uint64(1)
	for ; m.Status().Waiting > 0 || step < 100; step++ {
		m.Step(0, sim.StepDone{Step: step})
	}
	return m, step
}

// One pass of a batch of decoding sequences, from some 200 tokens of context on.
func BenchmarkDecodePass(b *testing.B) {
	for _, seqs := range []int{1, 32, 256} {
		b.Run(fmt.Sprintf("sequences=%d", seqs), func(b *testing.B) {
			m, step := decoding(b, seqs)
			b.ReportAllocs()
			for b.Loop() {
				if step == 1000 { // before contexts outgrow the pool
					b.StopTimer()
					m, step = decoding(b, seqs)
					b.StartTimer()
				}
				m.Step(0, sim.StepDone{Step: step})
				step++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*m.Status().Running), "ns/token")
		})
	}
}

// A whole request of one token whose prompt is cached but for its last block, or not at all.
func BenchmarkPrompt(b *testing.B) {
	for _, tokens := range []int{1000, 8000, 100_000} {
		for _, hit := range []bool{false, true} {
			b.Run(fmt.Sprintf("tokens=%d/hit=%t", tokens, hit), func(b *testing.B) {
				m, err := sim.New(sim.DefaultConfig(), sim.Deps{Source: hashSource})
				if err != nil {
					b.Fatal(err)
				}
				s, step := ask("a", prompt(tokens, 1, 1000), 1), uint64(1)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if !hit {
						s.Salt = strconv.Itoa(i)
					}
					m.Step(0, s)
					for m.Status().Running > 0 {
						m.Step(0, sim.StepDone{Step: step})
						step++
					}
				}
			})
		}
	}
}
