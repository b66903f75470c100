package prefix_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
)

const benchBlock = 16

func benchTokens(n int) []uint32 {
	rng := rand.New(rand.NewPCG(1, 2))
	tokens := make([]uint32, n)
	for i := range tokens {
		tokens[i] = rng.Uint32N(128_000)
	}
	return tokens
}

// BenchmarkAppendKeys hashes a whole prompt; tokens/s is what the hot path asks.
func BenchmarkAppendKeys(b *testing.B) {
	for _, block := range []int{16, 64} {
		b.Run(fmt.Sprintf("tokens=32768/block=%d", block), func(b *testing.B) {
			tokens := benchTokens(32_768)
			keys := make([]prefix.Key, 0, len(tokens)/block)
			b.ReportAllocs()
			b.SetBytes(int64(len(tokens)) * 4)
			for b.Loop() {
				keys = prefix.AppendKeys(keys[:0], 1, tokens, block)
			}
		})
	}
}

// filledIndex holds a sequence on every slot, each slot a different number of its blocks, beside other content.
func filledIndex(b *testing.B, slots int, tokens []uint32, spread bool) *prefix.Index {
	b.Helper()
	cfg := prefix.DefaultConfig()
	cfg.Model, cfg.BlockTokens = "m", benchBlock
	ix := prefix.NewIndex(cfg)
	for i := range slots {
		s := ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: 1_000_000})
		held := len(tokens)
		if spread {
			held = len(tokens) * (i + 1) / slots
		}
		ix.Apply(s, []prefix.Event{storedBlocks(tokens[:held], 0), storedBlocks(benchTokens(65_536)[7:], 1<<40)})
	}
	return ix
}

// storedBlocks is the event of a sequence whose blocks the engine calls first, first+1, ..
func storedBlocks(tokens []uint32, first uint64) prefix.Event {
	e := prefix.Event{Kind: prefix.Stored, BlockTokens: benchBlock}
	for i := range len(tokens) / benchBlock {
		e.Hashes = append(e.Hashes, first+uint64(i))
	}
	e.Tokens = tokens[:len(e.Hashes)*benchBlock]
	return e
}

// BenchmarkMatch looks one prompt up on all slots: all hold it wholly, or each another part of it.
func BenchmarkMatch(b *testing.B) {
	for _, slots := range []int{8, 64} {
		for _, n := range []int{1024, 32_768} {
			for _, spread := range []bool{false, true} {
				b.Run(fmt.Sprintf("slots=%d/tokens=%d/spread=%t", slots, n, spread), func(b *testing.B) {
					tokens := benchTokens(n)
					ix := filledIndex(b, slots, tokens, spread)
					keys := prefix.AppendKeys(nil, prefix.Namespace{Model: "m"}.Seed(), tokens, benchBlock)
					dst := ix.Match(start, keys, nil)
					if int(dst[slots-1].Device) != len(keys) {
						b.Fatalf("%d of %d blocks", dst[slots-1].Device, len(keys))
					}
					b.ReportAllocs()
					for b.Loop() {
						dst = ix.Match(start, keys, dst)
					}
				})
			}
		}
	}
}

// BenchmarkApply stores sequences of 512 blocks and removes each again some time later, tail first, one hash an event.
func BenchmarkApply(b *testing.B) {
	const blocks, kept = 512, 64
	cfg := prefix.DefaultConfig()
	cfg.Model, cfg.BlockTokens = "m", benchBlock
	ix := prefix.NewIndex(cfg)
	s := ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: 1_000_000})
	stores := make([]prefix.Event, 2*kept)
	removes := make([][]prefix.Event, len(stores))
	for i := range stores {
		tokens := benchTokens(blocks * benchBlock)
		tokens[0] = uint32(i)
		stores[i] = storedBlocks(tokens, uint64(i)<<32)
		for j := len(stores[i].Hashes) - 1; j >= 0; j-- {
			removes[i] = append(removes[i], prefix.Event{Kind: prefix.Removed, Hashes: stores[i].Hashes[j : j+1]})
		}
	}
	b.ReportAllocs()
	at := 0
	for b.Loop() {
		ix.Apply(s, stores[at%len(stores):at%len(stores)+1])
		if at >= kept {
			ix.Apply(s, removes[(at-kept)%len(removes)])
		}
		at++
	}
	b.ReportMetric(2*blocks*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mblocks/s")
}

// BenchmarkSpeculate is the router's part of a dispatch.
func BenchmarkSpeculate(b *testing.B) {
	ix := prefix.NewIndex(prefix.DefaultConfig())
	s := ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: 1_000_000})
	keys := prefix.AppendKeys(nil, 1, benchTokens(32_768), benchBlock)
	until := start.Add(time.Minute)
	b.ReportAllocs()
	for n := uint64(0); b.Loop(); n++ {
		ix.Speculate(s, scoring.Ticket{Number: n % 64}, keys, until)
	}
}
