package prefix_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
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

// BenchmarkAppendKeys hashes a whole prompt.
func BenchmarkAppendKeys(b *testing.B) {
	for _, n := range []int{32_000, 100_000} {
		for _, block := range []int{16, 64} {
			b.Run(fmt.Sprintf("tokens=%d/block=%d", n, block), func(b *testing.B) {
				tokens := benchTokens(n)
				keys := make([]prefix.Key, 0, len(tokens)/block)
				b.ReportAllocs()
				for b.Loop() {
					keys = prefix.AppendKeys(keys[:0], 1, tokens, block)
				}
			})
		}
	}
}

func benchIndex(slots int) *prefix.Index {
	cfg := prefix.DefaultConfig()
	cfg.Model, cfg.BlockTokens = "m", benchBlock
	ix := prefix.NewIndex(cfg)
	for range slots {
		ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: 1_000_000})
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

// BenchmarkMatch looks a prompt up of which every replica holds nothing, the first half or all, beside other content; and
// one of which each replica holds another part.
func BenchmarkMatch(b *testing.B) {
	for _, slots := range []int{8, 64, 512} {
		for _, n := range []int{1000, 32_000, 100_000} {
			for _, hit := range []string{"0", "50", "100", "spread"} {
				b.Run(fmt.Sprintf("replicas=%d/tokens=%d/hit=%s", slots, n, hit), func(b *testing.B) {
					tokens := benchTokens(n)
					ix := benchIndex(slots)
					for i := range slots {
						held := map[string]int{"0": 0, "50": n / 2, "100": n, "spread": n * (i + 1) / slots}[hit]
						ix.Apply(prefix.Slot(i), []prefix.Event{
							storedBlocks(tokens[:held], 0), storedBlocks(benchTokens(65_536)[7:], 1<<40),
						})
					}
					keys := prefix.AppendKeys(nil, prefix.Namespace{Model: "m"}.Seed(), tokens, benchBlock)
					var dst []prefix.Overlap
					b.ReportAllocs()
					for b.Loop() {
						dst = ix.Match(start, keys, dst)
					}
				})
			}
		}
	}
}

// BenchmarkMatchInFlight looks a prompt up while many others are speculated on: it must not grow with them.
func BenchmarkMatchInFlight(b *testing.B) {
	for _, inFlight := range []int{0, 16, 256} {
		b.Run(fmt.Sprintf("replicas=64/inflight=%d", inFlight), func(b *testing.B) {
			ix := benchIndex(64)
			tokens := benchTokens(32_000)
			keys := prefix.AppendKeys(nil, prefix.Namespace{Model: "m"}.Seed(), tokens, benchBlock)
			for s := range 64 {
				ix.Apply(prefix.Slot(s), []prefix.Event{storedBlocks(tokens[:16_000], 0)})
				for i := range inFlight {
					ix.Speculate(prefix.Slot(s), scoring.Ticket{Number: uint64(i)}, keys, start.Add(time.Hour))
				}
			}
			var dst []prefix.Overlap
			b.ReportAllocs()
			for b.Loop() {
				dst = ix.Match(start, keys, dst)
			}
		})
	}
}

// BenchmarkMatchWhileApplied looks a prompt up while a writer stores and removes other sequences without a pause, and says
// how long the slowest look-ups take.
func BenchmarkMatchWhileApplied(b *testing.B) {
	ix := benchIndex(64)
	tokens := benchTokens(32_000)
	for s := range 64 {
		ix.Apply(prefix.Slot(s), []prefix.Event{storedBlocks(tokens, 0)})
	}
	keys := prefix.AppendKeys(nil, prefix.Namespace{Model: "m"}.Seed(), tokens, benchBlock)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		other := storedBlocks(benchTokens(8192 + 1)[1:], 1<<40)
		gone := prefix.Event{Kind: prefix.Removed, Hashes: slices.Clone(other.Hashes)}
		slices.Reverse(gone.Hashes)
		for {
			select {
			case <-stop:
				return
			default:
				ix.Apply(0, []prefix.Event{other, gone})
			}
		}
	}()
	times := make([]time.Duration, 0, 1<<20)
	var dst []prefix.Overlap
	b.ReportAllocs()
	for b.Loop() {
		began := wall()
		dst = ix.Match(start, keys, dst)
		if len(times) < cap(times) {
			times = append(times, wall().Sub(began))
		}
	}
	close(stop)
	<-stopped
	slices.Sort(times)
	b.ReportMetric(quantile(times, 0.5), "p50-us")
	b.ReportMetric(quantile(times, 0.99), "p99-us")
}

// BenchmarkVisible is the time from an event of so many blocks to a look-up that shows it, on one goroutine.
func BenchmarkVisible(b *testing.B) {
	for _, blocks := range []int{1, 512} {
		b.Run(fmt.Sprintf("blocks=%d", blocks), func(b *testing.B) {
			ix := benchIndex(64)
			tokens := benchTokens(blocks * benchBlock)
			keys := prefix.AppendKeys(nil, prefix.Namespace{Model: "m"}.Seed(), tokens, benchBlock)
			stored := []prefix.Event{storedBlocks(tokens, 0)}
			removed := []prefix.Event{{Kind: prefix.Removed, Hashes: slices.Clone(stored[0].Hashes)}}
			slices.Reverse(removed[0].Hashes)
			var dst []prefix.Overlap
			b.ReportAllocs()
			for b.Loop() {
				ix.Apply(7, stored)
				if dst = ix.Match(start, keys, dst); int(dst[7].Device) != blocks {
					b.Fatalf("%d of %d blocks", dst[7].Device, blocks)
				}
				b.StopTimer()
				ix.Apply(7, removed)
				b.StartTimer()
			}
		})
	}
}

// BenchmarkApply stores sequences of 512 blocks and removes each again some time later, tail first: all of it an event, or
// one block an event.
func BenchmarkApply(b *testing.B) {
	const blocks, kept, distinct = 512, 64, 128
	for _, per := range []int{512, 1} {
		b.Run(fmt.Sprintf("per=%d", per), func(b *testing.B) {
			ix := benchIndex(1)
			var stores, removes [][]prefix.Event
			for i := range distinct {
				tokens := benchTokens(blocks * benchBlock)
				tokens[0] = uint32(i)
				whole := storedBlocks(tokens, uint64(i)<<32)
				stores, removes = append(stores, nil), append(removes, nil)
				for from := 0; from < blocks; from += per {
					e := prefix.Event{Kind: prefix.Stored, BlockTokens: benchBlock, Hashes: whole.Hashes[from : from+per]}
					e.Tokens = whole.Tokens[from*benchBlock : (from+per)*benchBlock]
					if from > 0 {
						e.Parent = &whole.Hashes[from-1]
					}
					stores[i] = append(stores[i], e)
				}
				gone := slices.Clone(whole.Hashes)
				slices.Reverse(gone)
				for part := range slices.Chunk(gone, per) {
					removes[i] = append(removes[i], prefix.Event{Kind: prefix.Removed, Hashes: part})
				}
			}
			b.ReportAllocs()
			at, ops := 0, 0
			for b.Loop() {
				for i := range stores[at%distinct] {
					ix.Apply(0, stores[at%distinct][i:i+1])
				}
				ops += blocks
				if at >= kept {
					for i := range removes[(at-kept)%distinct] {
						ix.Apply(0, removes[(at-kept)%distinct][i:i+1])
					}
					ops += blocks
				}
				at++
			}
			b.ReportMetric(float64(ops)/b.Elapsed().Seconds()/1e6, "Mblocks/s")
		})
	}
}

// BenchmarkSpeculate is the router's part of a dispatch of a prompt that is not cached, and of one that is but for its end.
func BenchmarkSpeculate(b *testing.B) {
	for _, cached := range []int{0, 30_000} {
		b.Run(fmt.Sprintf("tokens=32000/cached=%d", cached), func(b *testing.B) {
			ix := benchIndex(1)
			tokens := benchTokens(32_000)
			ix.Apply(0, []prefix.Event{storedBlocks(tokens[:cached], 0)})
			keys := prefix.AppendKeys(nil, prefix.Namespace{Model: "m"}.Seed(), tokens, benchBlock)
			until := start.Add(time.Hour)
			b.ReportAllocs()
			for n := uint64(0); b.Loop(); n++ {
				ix.Speculate(0, scoring.Ticket{Number: n}, keys, until)
				ix.Withdraw(0, scoring.Ticket{Number: n})
			}
		})
	}
}

// BenchmarkVoid voids a replica that holds 62,500 blocks; the sweep is what its next batch pays for that.
func BenchmarkVoid(b *testing.B) {
	stored := []prefix.Event{storedBlocks(benchTokens(1_000_000), 0)}
	ix := benchIndex(2)
	ix.Apply(1, stored)
	var void, sweep time.Duration
	n := 0
	for b.Loop() {
		b.StopTimer()
		ix.Apply(0, stored)
		b.StartTimer()
		began := wall()
		ix.Void(0)
		voided := wall()
		ix.Apply(0, nil)
		void, sweep = void+voided.Sub(began), sweep+wall().Sub(voided)
		n++
	}
	b.ReportMetric(float64(void.Nanoseconds())/float64(n), "void-ns")
	b.ReportMetric(float64(sweep.Microseconds())/float64(n), "sweep-us")
}

// BenchmarkOrphans stores blocks whose parent, the same for all, was never told of, where as many wait already as are kept.
func BenchmarkOrphans(b *testing.B) {
	ix := benchIndex(1)
	parent := uint64(1)
	e := storedBlocks(benchTokens(benchBlock), 0)
	e.Parent = &parent
	name := uint64(2)
	store := func() {
		e.Hashes[0] = name
		name++
		ix.Apply(0, []prefix.Event{e})
	}
	for range prefix.DefaultConfig().OrphansMax {
		store()
	}
	b.ReportAllocs()
	for b.Loop() {
		store()
	}
}
