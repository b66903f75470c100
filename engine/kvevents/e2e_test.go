package kvevents_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/kvevents"
	"plimsoll/scoring/prefix"
	"plimsoll/testbench/kvpub"
)

// fleet is publishers with a source each.
type fleet struct {
	publishers []*kvpub.Publisher
	blocks     atomic.Int64 // stored and removed, as heard
	resets     atomic.Int64
	gaps       atomic.Int64
	mu         sync.Mutex
	ages       []time.Duration // from the making of a batch to the sink
}

// hear is the sink of one source, which keeps ages to itself until it ends.
func (f *fleet) hear(ages *[]time.Duration) func(engine.KVBatch) {
	return func(b engine.KVBatch) {
		if b.Reset {
			f.resets.Add(1)
		}
		if b.Gap {
			f.gaps.Add(1)
		}
		n := 0
		for i := range b.Events {
			n += len(b.Events[i].Hashes)
		}
		f.blocks.Add(int64(n))
		if !b.At.IsZero() && len(*ages) < cap(*ages) {
			*ages = append(*ages, time.Since(b.At))
		}
	}
}

func newFleet(tb testing.TB, n int) (f *fleet, end func()) {
	tb.Helper()
	f = &fleet{}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for range n {
		p, err := kvpub.New(kvpub.DefaultConfig(), kvpub.Deps{Now: time.Now, Plan: kvpub.Calm{}})
		require.NoError(tb, err)
		f.publishers = append(f.publishers, p)
		cfg := kvevents.DefaultConfig()
		cfg.Endpoint, cfg.ReplayEndpoint = p.Endpoint(), p.ReplayEndpoint()
		s, err := kvevents.New(cfg, deps())
		require.NoError(tb, err)
		running.Go(func() {
			ages := make([]time.Duration, 0, 1<<16)
			_ = s.Subscribe(ctx, f.hear(&ages))
			f.mu.Lock()
			defer f.mu.Unlock()
			f.ages = append(f.ages, ages...)
		})
		require.NoError(tb, p.AwaitSubscribers(ctx, 1))
	}
	return f, func() {
		cancel()
		running.Wait()
		for _, p := range f.publishers {
			require.NoError(tb, p.Close())
		}
	}
}

func (f *fleet) age(share float64) time.Duration {
	slices.Sort(f.ages)
	if len(f.ages) == 0 {
		return 0
	}
	return f.ages[int(float64(len(f.ages)-1)*share)]
}

// step is a batch of n stores of one block of 16 tokens and as many removals.
func step(n, from int) []prefix.Event {
	events := make([]prefix.Event, 0, 2*n)
	tokens := make([]uint32, 16)
	for i := range tokens {
		tokens[i] = uint32(100 + i*7919%100_000)
	}
	for i := range n {
		h := []uint64{uint64(from+i) * 0x9e3779b97f4a7c15}
		events = append(events,
			prefix.Event{Kind: prefix.Stored, Hashes: h, Tokens: tokens, BlockTokens: 16},
			prefix.Event{Kind: prefix.Removed, Hashes: h})
	}
	return events
}

// BenchmarkEndToEnd: real sockets on loopback, publishers and sources in one process. In flood, as fast as they go;
// paced, 200,000 block operations a second in all for as long as the benchmark lasts. The publishers' time is in it.
func BenchmarkEndToEnd(b *testing.B) {
	for _, c := range []struct {
		publishers, stores int
		paced              bool
	}{{1, 16, false}, {64, 16, false}, {64, 1, false}, {64, 16, true}, {64, 2, true}} {
		mode := "flood"
		if c.paced {
			mode = "paced"
		}
		b.Run(fmt.Sprintf("publishers=%d/events=%d/%s", c.publishers, 2*c.stores, mode), func(b *testing.B) {
			f, end := newFleet(b, c.publishers)
			events := step(c.stores, 1)
			const perSecond = 200_000
			gap := time.Duration(float64(2*c.stores) / perSecond * float64(time.Second))
			b.ReportAllocs()
			began, cpu := time.Now(), kvevents.CPUSeconds()
			sent := 0
			for b.Loop() {
				f.publishers[sent%c.publishers].Publish(events)
				sent++
				if ahead := time.Duration(sent)*gap - time.Since(began); c.paced && ahead > 0 {
					time.Sleep(ahead)
				}
				for !c.paced && int64(sent*2*c.stores)-f.blocks.Load() > 500_000 { // within the publishers' queues
					time.Sleep(time.Millisecond)
				}
			}
			for f.blocks.Load() < int64(sent*2*c.stores) {
				time.Sleep(time.Millisecond)
			}
			took, used := time.Since(began), kvevents.CPUSeconds()-cpu
			end()
			lost := int64(sent*2*c.stores) - f.blocks.Load()
			b.ReportMetric(float64(sent*2*c.stores)/took.Seconds(), "blocks/s")
			b.ReportMetric(float64(sent*2*c.stores)/used, "blocks/cpu-s")
			b.ReportMetric(float64(lost), "lost")
			b.ReportMetric(float64(f.gaps.Load()), "gaps")
			if c.paced {
				b.ReportMetric(f.age(0.5).Seconds()*1e6, "p50-us")
				b.ReportMetric(f.age(0.99).Seconds()*1e6, "p99-us")
			}
		})
	}
}

// TestFleet: many publishers at once, each heard whole and in order.
func TestFleet(t *testing.T) {
	f, end := newFleet(t, 32)
	const batches, stores = 200, 8
	for i := range batches {
		for _, p := range f.publishers {
			p.Publish(step(stores, i*stores+1))
		}
	}
	want := int64(len(f.publishers) * batches * stores * 2)
	require.Eventually(t, func() bool { return f.blocks.Load() == want }, time.Minute, time.Millisecond, "%d", f.blocks.Load())
	end()
	require.Equal(t, int64(len(f.publishers)), f.resets.Load())
	require.Zero(t, f.gaps.Load())
}
