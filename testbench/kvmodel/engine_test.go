package kvmodel_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring/prefix"
	"plimsoll/testbench/kvmodel"
)

type place struct {
	hash uint64
	tier prefix.Tier
}

// TestSaysWhatItDoes counts what the engine says, and expects as many blocks as it has.
func TestSaysWhatItDoes(t *testing.T) {
	for _, copies := range []prefix.Copies{prefix.Counted, prefix.AsSet} {
		var stored, removed, hosted, resets, twice int
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 1))
			lib := kvmodel.NewLibrary(kvmodel.LibraryConfig{
				BlockTokens: 4, Nodes: 120, DepthMax: 12, Branch: 0.2, Spaces: []kvmodel.Space{{}, {Salt: "s"}, {LoRA: "l"}},
			}, rng)
			e := kvmodel.New(lib, kvmodel.Config{DeviceBlocks: 40, HostBlocks: 20, Copies: copies, RunningMax: 3}, rng)
			held := map[place]int{}
			for range 500 {
				events := e.Step()
				if rng.IntN(50) == 0 {
					events = append(events, e.Reset()...)
				}
				for _, ev := range events {
					for _, h := range ev.Hashes {
						p := place{h, ev.Tier}
						switch ev.Kind {
						case prefix.Stored:
							if stored++; ev.Tier == prefix.Host {
								hosted++
							}
							if held[p]++; held[p] > 1 {
								twice++
							}
						case prefix.Removed:
							removed++
							held[p]--
							require.GreaterOrEqual(t, held[p], 0, "nothing is removed that was not stored")
							if held[p] == 0 {
								delete(held, p)
							}
						case prefix.Cleared, prefix.NumEventKinds:
						}
					}
					if ev.Kind == prefix.Cleared {
						resets++
						clear(held)
					}
				}
				device := 0
				for p := range held {
					if p.tier == prefix.Device {
						device++
					}
				}
				require.Equal(t, e.Blocks(), device)
			}
			e.Restart()
			require.Zero(t, e.Blocks())
			require.Zero(t, e.Overlap(kvmodel.Node(lib.Len()-1)))
		}
		t.Logf("copies %d: %d stored, %d removed, %d to the host, %d stored again, %d resets", copies, stored, removed, hosted, twice, resets)
		require.Greater(t, stored, 10_000)
		require.Greater(t, removed, 10_000)
		require.Greater(t, hosted, 1000)
		require.Greater(t, resets, 5)
		require.Equal(t, copies == prefix.Counted, twice > 0)
	}
}
