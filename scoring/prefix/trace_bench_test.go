package prefix_test

import (
	"container/list"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"plimsoll/scoring/prefix"
	"plimsoll/testbench/shared"
	"plimsoll/testbench/trace"
)

const (
	workerTokens = 1_000_000 // what each worker of the trace benchmarks caches
	perID        = trace.BlockTokens / benchBlock
	bulkBlocks   = 8192 / benchBlock
)

// traceRequest is a request of the trace, ready for the index.
type traceRequest struct {
	ids    []uint64
	keys   []prefix.Key
	hashes []uint64
}

// mooncake reads the conversation trace.
func mooncake(tb testing.TB) []trace.Request {
	tb.Helper()
	path := shared.Path(tb, "testdata", "traces", "mooncake-conversation.jsonl.gz")
	requests, err := trace.Read(shared.Open(tb, path), math.MaxInt)
	if err != nil {
		tb.Fatal(err)
	}
	return requests
}

// worker is a cache of so many blocks: what was used least recently goes first, of a sequence its end.
type worker struct {
	slot   prefix.Slot
	recent *list.List // of uint64, a trace id, the most recent in front
	at     map[uint64]*list.Element
	names  map[uint64][]uint64 // the engine's hashes of an id's blocks
}

func newWorker(s prefix.Slot) *worker {
	return &worker{slot: s, recent: list.New(), at: map[uint64]*list.Element{}, names: map[uint64][]uint64{}}
}

// depth is how many leading ids the worker holds.
func (w *worker) depth(ids []uint64) int {
	for i, id := range ids {
		if w.at[id] == nil {
			return i
		}
	}
	return len(ids)
}

// serve takes a request in and returns the hashes of blocks evicted for it and how many ids were there.
func (w *worker) serve(r *traceRequest) (evicted []uint64, known int) {
	known = w.depth(r.ids)
	for i := known - 1; i >= 0; i-- {
		w.recent.MoveToFront(w.at[r.ids[i]])
	}
	for len(w.at)+len(r.ids)-known > workerTokens/trace.BlockTokens {
		oldest := w.recent.Back()
		id, _ := w.recent.Remove(oldest).(uint64)
		names := w.names[id]
		for i := len(names) - 1; i >= 0; i-- {
			evicted = append(evicted, names[i])
		}
		delete(w.at, id)
		delete(w.names, id)
	}
	for i := len(r.ids) - 1; i >= known; i-- {
		w.at[r.ids[i]] = w.recent.PushFront(r.ids[i])
		w.names[r.ids[i]] = r.hashes[i*perID : (i+1)*perID]
	}
	for i := known - 1; i >= 0; i-- {
		w.recent.MoveToFront(w.at[r.ids[i]])
	}
	return evicted, known
}

// traceRun drives the requests of the trace through workers and an index. Only the index is on the clock.
type traceRun struct {
	ix      *prefix.Index
	workers []*worker
	bulk    bool
	rng     *rand.Rand
	tokens  []uint32
	events  []prefix.Event

	applied time.Duration
	blocks  int
	finds   []time.Duration
	dst     []prefix.Overlap
}

func newTraceRun(workers int, bulk bool) *traceRun {
	cfg := prefix.DefaultConfig()
	cfg.Model, cfg.BlockTokens = "m", benchBlock
	run := &traceRun{ix: prefix.NewIndex(cfg), bulk: bulk, rng: rand.New(rand.NewPCG(1, 2))}
	for range workers {
		s := run.ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: workerTokens / benchBlock})
		run.workers = append(run.workers, newWorker(s))
	}
	return run
}

// prepare hashes a request as an engine and as a router does.
func (run *traceRun) prepare(r trace.Request) *traceRequest {
	out := &traceRequest{}
	for i := range r.Parts {
		r.Parts[i].Tokens = trace.BlockTokens // the last one too
		out.ids = append(out.ids, r.Parts[i].ID)
	}
	r.PromptTokens = len(r.Parts) * trace.BlockTokens
	run.tokens = trace.Text{VocabSize: 128_000}.Prompt(run.tokens[:0], r)
	out.keys = prefix.AppendKeys(nil, prefix.Namespace{Model: "m"}.Seed(), run.tokens, benchBlock)
	for _, k := range out.keys {
		out.hashes = append(out.hashes, uint64(k)*0xd6e8feb86659fd93^0xabcdef)
	}
	return out
}

// request is one request: find it, route it (to the holder of its deepest known block, one in five at random), and tell
// the index what its worker's cache did.
func (run *traceRun) request(r *traceRequest) {
	began := wall()
	run.dst = run.ix.Match(start, r.keys, run.dst)
	run.finds = append(run.finds, wall().Sub(began))

	place := run.rng.IntN(len(run.workers))
	if run.rng.IntN(5) > 0 {
		for i, o := range run.dst {
			if o.Device > run.dst[place].Device {
				place = i
			}
		}
	}
	w := run.workers[place]
	if held := int(run.dst[place].Device); held != w.depth(r.ids)*perID {
		panic(fmt.Sprintf("the index says %d blocks, the cache holds %d ids", held, w.depth(r.ids)))
	}
	evicted, known := w.serve(r)
	run.events = run.events[:0]
	run.removals(evicted)
	run.stores(r, known*perID)
	computed := cpuTime()
	if run.bulk {
		run.ix.Apply(w.slot, run.events)
	} else {
		for i := range run.events {
			run.ix.Apply(w.slot, run.events[i:i+1])
		}
	}
	run.applied += cpuTime() - computed
	run.blocks += len(evicted) + len(r.keys) - known*perID
}

func wall() time.Time {
	return time.Now() //nolint:forbidigo // a benchmark measures
}

func (run *traceRun) size() int {
	if run.bulk {
		return bulkBlocks
	}
	return 1
}

func (run *traceRun) removals(hashes []uint64) {
	for part := range slices.Chunk(hashes, run.size()) {
		run.events = append(run.events, prefix.Event{Kind: prefix.Removed, Hashes: part})
	}
}

func (run *traceRun) stores(r *traceRequest, from int) {
	for ; from < len(r.hashes); from += run.size() {
		to := min(from+run.size(), len(r.hashes))
		e := prefix.Event{
			Kind: prefix.Stored, Hashes: r.hashes[from:to], BlockTokens: benchBlock,
			Tokens: run.tokens[from*benchBlock : to*benchBlock],
		}
		if from > 0 {
			e.Parent = &r.hashes[from-1]
		}
		run.events = append(run.events, e)
	}
}

func (run *traceRun) memberships() int {
	n := 0
	for _, w := range run.workers {
		n += run.ix.Stats(w.slot).Blocks
	}
	return n
}

// bytes measures the index's memory by dropping it.
func (run *traceRun) bytes() float64 {
	n := run.memberships()
	with := heapBytes()
	run.ix = nil
	without := heapBytes()
	runtime.KeepAlive(run)
	return float64(with-without) / float64(n)
}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func quantile(sorted []time.Duration, q float64) float64 {
	return float64(sorted[int(q*float64(len(sorted)-1))].Nanoseconds()) / 1000
}

// BenchmarkTrace is the Mooncake conversation trace, each block of 512 tokens as 32 of 16, through workers of a million
// tokens: block operations a second, the look-up of each request before its blocks are stored, and bytes a membership at
// the end, after all that churn.
func BenchmarkTrace(b *testing.B) {
	requests := mooncake(b)
	for _, workers := range []int{8, 64} {
		for _, bulk := range []bool{true, false} {
			feed := map[bool]string{true: "bulk", false: "fine"}[bulk]
			b.Run(fmt.Sprintf("replicas=%d/feed=%s", workers, feed), func(b *testing.B) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				for b.Loop() {
					run := newTraceRun(workers, bulk)
					for _, r := range requests {
						run.request(run.prepare(r))
					}
					slices.Sort(run.finds)
					b.ReportMetric(float64(run.blocks)/run.applied.Seconds()/1e6, "Mblocks/s")
					b.ReportMetric(quantile(run.finds, 0.5), "find-p50-us")
					b.ReportMetric(quantile(run.finds, 0.99), "find-p99-us")
					b.ReportMetric(float64(run.blocks)/1e6, "Mblocks")
					b.ReportMetric(run.bytes(), "B/membership")
				}
			})
		}
	}
}

// BenchmarkFresh measures the memory of an index that is filled and never removed from: all workers hold what of the trace
// fits, in turn.
func BenchmarkFresh(b *testing.B) {
	requests := mooncake(b)
	for _, workers := range []int{8, 64} {
		b.Run(fmt.Sprintf("replicas=%d", workers), func(b *testing.B) {
			for b.Loop() {
				run := newTraceRun(workers, true)
				for _, r := range requests {
					if run.memberships() > workers*workerTokens/benchBlock/2 {
						break
					}
					run.request(run.prepare(r))
				}
				b.ReportMetric(run.bytes(), "B/membership")
			}
		})
	}
}
