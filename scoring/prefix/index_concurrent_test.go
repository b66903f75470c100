package prefix_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
)

// TestManyReaders: one writer a slot, many readers; run with -race.
func TestManyReaders(t *testing.T) {
	ix := prefix.NewIndex(testConfig())
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	seq := func(i int) sequence {
		return sequence{prefix.Namespace{Model: model}, []uint32{uint32(i % 5), 1, uint32(i % 3), 2}}
	}
	for range 2 {
		s := ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: 1_000_000})
		writers.Go(func() {
			for i := range 2000 {
				ix.Apply(s, []prefix.Event{seq(i).stored(0, 2)})
				if i%100 == 99 {
					ix.Void(s)
				}
			}
		})
		writers.Go(func() { // the router's goroutine is not the feed's
			for i := range 2000 {
				ticket := scoring.Ticket{Number: uint64(i % 7)}
				ix.Speculate(s, ticket, seq(i+1).keys(), start.Add(time.Hour))
				if i%3 == 0 {
					ix.Withdraw(s, ticket)
				}
			}
		})
	}
	writers.Go(func() {
		for range 200 {
			ix.Remove(ix.Add(prefix.SlotConfig{Source: prefix.Routed, CapacityBlocks: 10}))
		}
	})
	for range 2 {
		readers.Go(func() {
			var dst []prefix.Overlap
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				dst = ix.Match(start, seq(i).keys(), dst)
				for _, n := range dst {
					if n.Device > 2 {
						t.Errorf("%d of 2 blocks", n)
						return
					}
				}
				ix.Stats(prefix.Slot(i % 3))
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
}

// TestSpeculateWhileTheFeedConfirms: what has to make room may be confirmed by the feed's goroutine at that very moment.
func TestSpeculateWhileTheFeedConfirms(t *testing.T) {
	cfg := testConfig()
	cfg.SpeculationsMax = 1
	ix := prefix.NewIndex(cfg)
	s := ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: 100})
	seq := sequence{prefix.Namespace{Model: model}, []uint32{1, 2}}
	var both sync.WaitGroup
	both.Go(func() {
		for range 200_000 {
			ix.Apply(s, []prefix.Event{seq.stored(0, 1)})
			ix.Apply(s, []prefix.Event{{Kind: prefix.Cleared}})
		}
	})
	both.Go(func() {
		for i := range 200_000 {
			ix.Speculate(s, scoring.Ticket{Number: uint64(i)}, seq.keys(), start.Add(time.Hour))
		}
	})
	both.Wait()
	ix.Apply(s, []prefix.Event{seq.stored(0, 1)})
	require.Zero(t, ix.Stats(s).Speculations, "the content shows what was claimed")
	require.Equal(t, onDevice(1), ix.Match(start, seq.keys(), nil))
}

// TestRemoveWhileOthersCall: what is told of a slot while it is removed is not told of the one that gets its place.
func TestRemoveWhileOthersCall(t *testing.T) {
	ix := prefix.NewIndex(testConfig())
	seq := sequence{prefix.Namespace{Model: model}, []uint32{1, 2, 3, 4}}
	of := prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: 2000}
	large := prefix.Event{Kind: prefix.Stored, BlockTokens: blockTokens, Tokens: make([]uint32, 2000*blockTokens)}
	for i := range 2000 { // which take a while to sweep
		large.Hashes = append(large.Hashes, uint64(i+1))
	}
	for i := range 300 {
		s := ix.Add(of)
		require.False(t, ix.Stats(s).Void)
		require.Equal(t, onDevice(0), ix.Match(start, seq.keys(), nil), "nothing was told of this one")
		ix.Apply(s, []prefix.Event{large})
		var all, begun sync.WaitGroup
		var removed atomic.Bool
		for _, call := range []func(){
			func() { ix.Speculate(s, scoring.Ticket{Number: uint64(i)}, seq.keys(), start.Add(time.Hour)) },
			func() { ix.Void(s) },
		} {
			begun.Add(1)
			all.Go(func() {
				call()
				begun.Done()
				for !removed.Load() {
					call()
				}
			})
		}
		begun.Wait()
		ix.Remove(s)
		removed.Store(true)
		all.Wait()
	}
}
