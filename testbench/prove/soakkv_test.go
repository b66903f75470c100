//go:build prove

package prove

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/kvevents"
	"plimsoll/scoring/prefix"
	"plimsoll/testbench/kvmodel"
	"plimsoll/testbench/kvpub"
)

const (
	kvReplicas     = 64
	kvDeviceBlocks = 2000
	kvRate         = 200_000 // block operations a second, stores and removals, all replicas together
	kvSamples      = 300     // texts that are compared at the end, for each replica
	kvModelName    = "soak"
	// kvPublishersEnv makes this program the publishers' process: for how long they publish.
	kvPublishersEnv = "PLIMSOLL_SOAK_KV_PUBLISHERS"
)

// kvLibrary is the same in both processes.
func kvLibrary() *kvmodel.Library {
	return kvmodel.NewLibrary(kvmodel.LibraryConfig{
		BlockTokens: 16, Nodes: 20_000, DepthMax: 64, Branch: 0.02, Spaces: []kvmodel.Space{{}, {}, {}, {Salt: "tenant"}},
	}, rand.New(rand.NewPCG(1, 1)))
}

func kvSample() []kvmodel.Node {
	rng := rand.New(rand.NewPCG(2, 2))
	nodes := make([]kvmodel.Node, kvSamples)
	for i := range nodes {
		nodes[i] = kvmodel.Node(rng.IntN(20_000))
	}
	return nodes
}

// kvEndpoints is what the publishers say first, a line for each.
type kvEndpoints struct{ Live, Replay string }

// kvTruth is what they say last, a line for each.
type kvTruth struct {
	Batches  uint64 // that were numbered
	Overruns uint64 // that the subscriber did not get, because it was too slow
	Blocks   int
	Overlaps []prefix.Overlap // of the sample
}

// kvDone is the line between: what was published, and how long it took.
type kvDone struct {
	Operations int
	Seconds    float64
}

// TestKVPublishers is the other process of TestSoakKV.
func TestKVPublishers(t *testing.T) {
	text := os.Getenv(kvPublishersEnv)
	if text == "" {
		t.Skip("the publishers' process of TestSoakKV")
	}
	length, err := time.ParseDuration(text)
	require.NoError(t, err)
	lib, sample := kvLibrary(), kvSample()
	say := json.NewEncoder(os.Stderr)
	publishers, engines := make([]*kvpub.Publisher, kvReplicas), make([]*kvmodel.Engine, kvReplicas)
	for i := range publishers {
		cfg := kvpub.DefaultConfig()
		cfg.Form = kvpub.Form(i % int(kvpub.NumForms))
		publishers[i], err = kvpub.New(cfg, kvpub.Deps{Now: time.Now, Plan: kvpub.Calm{}})
		require.NoError(t, err)
		defer func() { _ = publishers[i].Close() }()
		engines[i] = kvmodel.New(lib, kvmodel.Config{DeviceBlocks: kvDeviceBlocks, RunningMax: 4}, rand.New(rand.NewPCG(uint64(i), 3)))
		require.NoError(t, say.Encode(kvEndpoints{publishers[i].Endpoint(), publishers[i].ReplayEndpoint()}))
	}
	for _, p := range publishers {
		require.NoError(t, p.AwaitSubscribers(t.Context(), 1))
	}
	began, operations := time.Now(), 0
	for turn := 0; time.Since(began) < length; turn++ {
		i := turn % kvReplicas
		events := engines[i].Step()
		for _, e := range events {
			operations += len(e.Hashes)
		}
		if len(events) > 0 {
			publishers[i].Publish(events)
		}
		if ahead := time.Duration(float64(operations)/kvRate*float64(time.Second)) - time.Since(began); ahead > time.Millisecond {
			time.Sleep(ahead)
		}
	}
	require.NoError(t, say.Encode(kvDone{operations, time.Since(began).Seconds()}))
	for i, p := range publishers {
		truth := kvTruth{Batches: p.NextSeq(), Overruns: p.Stats().Overruns, Blocks: engines[i].Blocks()}
		for _, n := range sample {
			truth.Overlaps = append(truth.Overlaps, engines[i].Overlap(n))
		}
		require.NoError(t, say.Encode(truth))
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the other side has read all
}

// kvFeed is what one replica's feed has come to. One goroutine writes it.
type kvFeed struct {
	slot         prefix.Slot
	next         atomic.Uint64 // one past the last batch that was applied
	operations   atomic.Int64
	gaps, resets atomic.Int64
	state        atomic.Int32
	skipped      [engine.NumKVSkips]atomic.Int64
	mu           sync.Mutex
	lags         []time.Duration // guarded by mu; from the batch's making to its being visible
	lagsSeen     int             // guarded by mu
}

// apply is what the replica's feed actor does with a batch.
func (f *kvFeed) apply(ix *prefix.Index, b engine.KVBatch, rng *rand.Rand) {
	if b.Reset {
		ix.Void(f.slot)
		f.resets.Add(1)
	}
	ix.Apply(f.slot, b.Events)
	for _, e := range b.Events {
		f.operations.Add(int64(len(e.Hashes)))
	}
	if b.Gap {
		f.gaps.Add(1)
	}
	for i, n := range b.Skipped {
		f.skipped[i].Add(int64(n))
	}
	f.state.Store(int32(b.State))
	if b.At.IsZero() {
		return
	}
	f.next.Store(b.Seq + 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lagsSeen++
	if lag := time.Since(b.At); len(f.lags) < 2000 {
		f.lags = append(f.lags, lag)
	} else if at := rng.IntN(f.lagsSeen); at < len(f.lags) {
		f.lags[at] = lag
	}
}

// TestSoakKV listens for SOAK_KV (10 minutes) to 64 publishers in another process, over sockets, at 200,000 block
// operations a second. At the end every slot of the index holds exactly what its engine does; a batch that did not arrive
// was seen to be missing; memory has not grown since three tenths of the time were over.
func TestSoakKV(t *testing.T) {
	length := 10 * time.Minute
	if text := os.Getenv("SOAK_KV"); text != "" {
		var err error
		length, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	self, err := os.Executable()
	require.NoError(t, err)
	other := exec.CommandContext(t.Context(), self, "-test.run", "^TestKVPublishers$", "-test.timeout", "0")
	other.Env = append(os.Environ(), kvPublishersEnv+"="+length.String())
	hold, err := other.StdinPipe()
	require.NoError(t, err)
	told, err := other.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	t.Cleanup(func() { _ = hold.Close(); _ = other.Wait() })
	said := json.NewDecoder(bufio.NewReader(told))

	cfg := prefix.DefaultConfig()
	cfg.Model, cfg.BlockTokens = kvModelName, 16
	ix := prefix.NewIndex(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	feeds := make([]*kvFeed, kvReplicas)
	for i := range feeds {
		var at kvEndpoints
		require.NoError(t, said.Decode(&at))
		of := kvevents.DefaultConfig()
		of.Endpoint, of.ReplayEndpoint = at.Live, at.Replay
		source, err := kvevents.New(of, kvevents.Deps{Log: slog.New(slog.DiscardHandler), Entropy: rand.Uint64})
		require.NoError(t, err)
		feeds[i] = &kvFeed{slot: ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: kvDeviceBlocks})}
		rng := rand.New(rand.NewPCG(uint64(i), 4))
		running.Go(func() {
			_ = source.Subscribe(ctx, func(b engine.KVBatch) { feeds[i].apply(ix, b, rng) })
		})
	}
	matches := watchMatches(ctx, &running, ix)
	grew := watchMemory(t, feeds, length)

	var done kvDone
	require.NoError(t, said.Decode(&done))
	truths := make([]kvTruth, kvReplicas)
	for i := range truths {
		require.NoError(t, said.Decode(&truths[i]))
	}
	t.Logf("published: %d block operations in %.0f s, %.0f a second", done.Operations, done.Seconds, float64(done.Operations)/done.Seconds)
	require.Greater(t, float64(done.Operations)/done.Seconds, 0.95*kvRate, "the publishers must keep the rate, else nothing is shown")
	waited := time.Now()
	for slices.ContainsFunc(feeds, func(f *kvFeed) bool { return f.next.Load() < truths[slices.Index(feeds, f)].Batches }) {
		require.Less(t, time.Since(waited), time.Minute, "the last batches do not arrive")
		time.Sleep(10 * time.Millisecond)
	}
	compareKV(t, ix, feeds, truths, done)
	t.Logf("match of a sampled text over %d replicas meanwhile: %s", kvReplicas, <-matches)
	require.LessOrEqual(t, grew(), 1.1, "memory grows")
}

// compareKV holds the index against the engines.
func compareKV(t *testing.T, ix *prefix.Index, feeds []*kvFeed, truths []kvTruth, done kvDone) {
	t.Helper()
	lib, sample := kvLibrary(), kvSample()
	var held []prefix.Overlap
	var lags []time.Duration
	var operations, gaps, resets int64
	var overruns uint64
	var skipped [engine.NumKVSkips]int64
	for i, f := range feeds {
		require.Equal(t, int32(engine.KVLive), f.state.Load(), "replica %d", i)
		require.Equal(t, truths[i].Blocks, ix.Stats(f.slot).Blocks, "replica %d", i)
		operations, gaps, resets, overruns = operations+f.operations.Load(), gaps+f.gaps.Load(), resets+f.resets.Load(), overruns+truths[i].Overruns
		for r := range skipped {
			skipped[r] += f.skipped[r].Load()
		}
		lags = append(lags, f.lags...)
	}
	hits := 0
	for k, n := range sample {
		held = ix.Match(time.Now(), lib.Keys(kvModelName, n), held)
		for i, f := range feeds {
			require.Equal(t, truths[i].Overlaps[k], held[f.slot], "replica %d, text %d", i, n)
			if held[f.slot].Device > 0 {
				hits++
			}
		}
	}
	slices.Sort(lags)
	at := func(q float64) time.Duration { return lags[int(q*float64(len(lags)-1))].Round(10 * time.Microsecond) }
	t.Logf("applied: %d block operations; %d gaps, %d resets, %d batches overrun, skipped %v", operations, gaps, resets, overruns, skipped)
	t.Logf("from publishing to visible: p50 %v, p90 %v, p99 %v, max %v", at(0.5), at(0.9), at(0.99), at(1))
	t.Logf("compared: %d texts on %d replicas, %d of them held in part", len(sample), len(feeds), hits)
	require.Greater(t, hits, len(sample))
	if overruns == 0 && resets == kvReplicas {
		require.EqualValues(t, done.Operations, operations, "every operation once")
	}
	if overruns > 0 {
		require.Positive(t, gaps, "what was lost was noticed")
	}
}

// watchMatches looks texts up while events are applied. The channel tells how long that took when ctx ends.
func watchMatches(ctx context.Context, running *sync.WaitGroup, ix *prefix.Index) <-chan string {
	out := make(chan string, 1)
	lib, sample := kvLibrary(), kvSample()
	keys := make([][]prefix.Key, len(sample))
	for i, n := range sample {
		keys[i] = lib.Keys(kvModelName, n)
	}
	stop := make(chan struct{})
	took := make([]time.Duration, 0, 100_000)
	running.Go(func() {
		defer close(stop)
		var held []prefix.Overlap
		ticker := time.NewTicker(2 * time.Millisecond)
		defer ticker.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			began := time.Now()
			held = ix.Match(began, keys[i%len(keys)], held)
			if d := time.Since(began); len(took) < cap(took) {
				took = append(took, d)
			} else {
				took[i%cap(took)] = d
			}
			if i%500 == 0 {
				sorted := slices.Sorted(slices.Values(took))
				select {
				case <-out:
				default:
				}
				out <- fmt.Sprintf("p50 %v, p99 %v of %d", sorted[len(sorted)/2], sorted[len(sorted)*99/100], len(sorted))
			}
		}
	})
	return out
}

// watchMemory logs how things stand, ten times. The result says by what factor memory grew from the third time to the last.
func watchMemory(t *testing.T, feeds []*kvFeed, length time.Duration) func() float64 {
	t.Helper()
	var heaps []float64
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for i := range 10 {
			time.Sleep(length / 10)
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			heaps = append(heaps, float64(m.HeapInuse)/(1<<20))
			var operations int64
			for _, f := range feeds {
				operations += f.operations.Load()
			}
			t.Logf("%s%%: %d operations applied, heap in use %.1f MB, %d goroutines", strconv.Itoa(10*(i+1)), operations, heaps[i], runtime.NumGoroutine())
		}
	}()
	return func() float64 {
		<-finished
		return heaps[len(heaps)-1] / heaps[2]
	}
}
