package prefix_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"plimsoll/scoring/prefix"
)

// BenchmarkChurn replaces sequences of 512 blocks in full caches.
func BenchmarkChurn(b *testing.B) {
	for _, slots := range []int{8, 64} {
		for _, per := range []int{512, 1} {
			b.Run(fmt.Sprintf("slots=%d/per=%d", slots, per), func(b *testing.B) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				const blocks, kept = 512, 120
				cfg := prefix.DefaultConfig()
				cfg.Model, cfg.BlockTokens = "m", benchBlock
				ix := prefix.NewIndex(cfg)
				rng := rand.New(rand.NewPCG(1, 2))
				tokens := benchTokens(blocks * benchBlock)
				n := uint32(0)
				old := make([][]uint32, slots)
				hashes := make([]uint64, blocks)
				store := func(s int) {
					n++
					old[s] = append(old[s], n)
					tokens[0] = n
					for i := range hashes {
						hashes[i] = (uint64(n)<<32 | uint64(i)) * 0xd6e8feb86659fd93
					}
					if per == 1 {
						for i := range hashes {
							e := prefix.Event{Kind: prefix.Stored, BlockTokens: benchBlock, Hashes: hashes[i : i+1], Tokens: tokens[i*benchBlock : (i+1)*benchBlock]}
							if i > 0 {
								e.Parent = &hashes[i-1]
							}
							ix.Apply(prefix.Slot(s), []prefix.Event{e})
						}
						return
					}
					ix.Apply(prefix.Slot(s), []prefix.Event{{Kind: prefix.Stored, BlockTokens: benchBlock, Hashes: hashes, Tokens: tokens}})
				}
				remove := func(s int) {
					n := old[s][0]
					old[s] = old[s][1:]
					for i := range hashes {
						hashes[i] = (uint64(n)<<32 | uint64(blocks-1-i)) * 0xd6e8feb86659fd93
					}
					for i := 0; i < blocks; i += per {
						ix.Apply(prefix.Slot(s), []prefix.Event{{Kind: prefix.Removed, Hashes: hashes[i : i+per]}})
					}
				}
				for s := range slots {
					ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: 62_500})
					for range kept {
						store(s)
					}
				}
				var st, rm []float64
				ops := 0
				for b.Loop() {
					s := rng.IntN(slots)
					a := cpuTime()
					remove(s)
					c := cpuTime()
					store(s)
					d := cpuTime()
					rm = append(rm, float64(c-a)/blocks)
					st = append(st, float64(d-c)/blocks)
					ops += blocks
				}
				slices.Sort(st)
				slices.Sort(rm)
				b.ReportMetric(st[len(st)/20], "store-p5-ns")
				b.ReportMetric(st[len(st)/2], "store-p50-ns")
				b.ReportMetric(rm[len(rm)/20], "remove-p5-ns")
				b.ReportMetric(rm[len(rm)/2], "remove-p50-ns")
				_ = ops
			})
		}
	}
}
