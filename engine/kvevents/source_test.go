package kvevents_test

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/kvevents"
	"plimsoll/scoring/prefix"
	"plimsoll/testbench/kvpub"
)

// listener hears a feed and keeps what it says the cache holds.
type listener struct {
	mu      sync.Mutex
	changed chan struct{}
	held    map[uint64]int
	state   engine.KVState
	resets  int
	batches int
	gaps    int
	skipped [engine.NumKVSkips]int
	trail   []engine.KVState // states, without repetitions
}

func (l *listener) hear(b engine.KVBatch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.Reset {
		l.held = map[uint64]int{}
		l.resets++
	}
	for _, e := range b.Events {
		for _, h := range e.Hashes {
			if e.Kind == prefix.Stored {
				l.held[h]++
			} else if l.held[h]--; l.held[h] <= 0 {
				delete(l.held, h)
			}
		}
		if e.Kind == prefix.Cleared {
			l.held = map[uint64]int{}
		}
	}
	for reason, n := range b.Skipped {
		l.skipped[reason] += n
	}
	if b.Gap {
		l.gaps++
	}
	if l.batches == 0 || l.state != b.State {
		l.trail = append(l.trail, b.State)
	}
	l.state = b.State
	l.batches++
	close(l.changed)
	l.changed = make(chan struct{})
}

// await returns when cond holds; cond is called with the lock held.
func (l *listener) await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		l.mu.Lock()
		ok, changed := cond(), l.changed
		state, held, trail := l.state, len(l.held), slices.Clone(l.trail)
		l.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%s: not within the time; state %d, %d hashes, states %v", what, state, held, trail)
		}
	}
}

// world is a publisher, the truth about its engine's cache, and a source that listens.
type world struct {
	*kvpub.Publisher
	truth map[uint64]int
	next  uint64
	l     *listener
	done  chan error
}

func deps() kvevents.Deps {
	return kvevents.Deps{Log: slog.New(slog.DiscardHandler), Entropy: rand.Uint64}
}

func quick() kvevents.Config {
	cfg := kvevents.DefaultConfig()
	cfg.RetryFirst, cfg.RetryMax = 20*time.Millisecond, 100*time.Millisecond
	cfg.ConnectFirst, cfg.ConnectMax = 5*time.Millisecond, 50*time.Millisecond
	return cfg
}

func newWorld(t *testing.T, cfg kvpub.Config, plan kvpub.Plan) *world {
	t.Helper()
	p, err := kvpub.New(cfg, kvpub.Deps{Now: time.Now, Plan: plan})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return &world{Publisher: p, truth: map[uint64]int{}}
}

func (w *world) endpoints(cfg kvevents.Config) kvevents.Config {
	cfg.Endpoint, cfg.ReplayEndpoint = w.Endpoint(), w.ReplayEndpoint()
	return cfg
}

// listen subscribes until the test ends.
func (w *world) listen(t *testing.T, cfg kvevents.Config) *kvevents.Source {
	t.Helper()
	s, err := kvevents.New(cfg, deps())
	require.NoError(t, err)
	w.l = &listener{changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	w.done = make(chan error, 1)
	go func() { w.done <- s.Subscribe(ctx, w.l.hear) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-w.done, context.Canceled)
	})
	return s
}

// store publishes n new blocks, each the first of a sequence.
func (w *world) store(n int) {
	for range n {
		w.next++
		w.truth[w.next]++
		w.Publish([]prefix.Event{{
			Kind: prefix.Stored, Hashes: []uint64{w.next}, Tokens: []uint32{uint32(w.next), 2, 3, 4}, BlockTokens: 4,
		}})
	}
}

// remove publishes the removal of a block.
func (w *world) remove(h uint64) {
	delete(w.truth, h)
	w.Publish([]prefix.Event{{Kind: prefix.Removed, Hashes: []uint64{h}}})
}

func (w *world) restart() {
	w.End()
	w.truth = map[uint64]int{}
	w.Begin()
}

// settled awaits a state in which exactly the truth is known.
func (w *world) settled(t *testing.T, s engine.KVState) {
	t.Helper()
	w.l.await(t, "settled", func() bool { return w.l.state == s && maps.Equal(w.l.held, w.truth) })
}

// faulty is a plan of given faults by sequence number and by replay.
type faulty struct {
	batches map[uint64]kvpub.BatchFault
	replays []kvpub.ReplayFault // one a request
	asked   *int
}

func (f faulty) Batch(seq uint64) kvpub.BatchFault { return f.batches[seq] }

func (f faulty) Replay(uint64) kvpub.ReplayFault {
	i := *f.asked
	*f.asked++
	if i < len(f.replays) {
		return f.replays[i]
	}
	return kvpub.Answer
}

func plan(batches map[uint64]kvpub.BatchFault, replays ...kvpub.ReplayFault) faulty {
	return faulty{batches: batches, replays: replays, asked: new(int)}
}

// dialects are the publishers that a source has to understand without being told which it is.
func dialects() map[string]kvpub.Config {
	newest, old, sglang := kvpub.DefaultConfig(), kvpub.DefaultConfig(), kvpub.SGLangConfig()
	old.Form, old.Layout, old.StoredFields, old.Rank = kvpub.Array, kvpub.WithoutTopic, 7, nil
	digests := kvpub.DefaultConfig()
	digests.Hashes = kvpub.SHA256Hashes
	return map[string]kvpub.Config{"vllm": newest, "vllm-array": old, "vllm-digests": digests, "sglang": sglang}
}

// TestSubscribe: what was published before the subscription comes from the replay, what comes after live.
func TestSubscribe(t *testing.T) {
	for name, cfg := range dialects() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, cfg, kvpub.Calm{})
			w.store(100)
			w.remove(7)
			w.listen(t, w.endpoints(quick()))
			w.settled(t, engine.KVLive)
			w.heard(t)
			w.store(100)
			w.remove(8)
			w.settled(t, engine.KVLive)
			require.Zero(t, w.l.skipped[engine.KVSkipEvent]+w.l.skipped[engine.KVSkipBatch])
			require.Equal(t, []engine.KVState{engine.KVReplaying, engine.KVLive}, w.l.trail)
		})
	}
}

// heard waits until the publisher heeds the subscription: what it publishes before is a gap.
func (w *world) heard(t *testing.T) {
	t.Helper()
	require.NoError(t, w.AwaitSubscribers(t.Context(), 1))
}

// TestLoss: whatever happens to single batches on their way, the replay makes good for it.
func TestLoss(t *testing.T) {
	for name, fault := range map[string]kvpub.BatchFault{
		"drop": kvpub.Drop, "double": kvpub.Double, "reorder": kvpub.Reorder, "delay": kvpub.Delay, "garble": kvpub.Garble,
		"sever": kvpub.Sever,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, kvpub.DefaultConfig(), plan(map[uint64]kvpub.BatchFault{12: fault, 15: fault}))
			w.store(10)
			w.listen(t, w.endpoints(quick()))
			w.settled(t, engine.KVLive)
			w.heard(t)
			w.store(10)
			w.settled(t, engine.KVLive)
			w.store(1)
			w.Flush()
			w.settled(t, engine.KVLive)
			if fault == kvpub.Double {
				require.Equal(t, 2, w.l.skipped[engine.KVSkipOldLife])
			}
			require.Equal(t, 1, w.l.resets, "nothing had to be forgotten")
		})
	}
}

// TestLostForGood: what the engine itself has lost may have been a removal, so all is forgotten; an AllBlocksCleared
// makes the feed whole again.
func TestLostForGood(t *testing.T) {
	w := newWorld(t, kvpub.DefaultConfig(), plan(map[uint64]kvpub.BatchFault{12: kvpub.Lose}))
	w.store(10)
	w.listen(t, w.endpoints(quick()))
	w.settled(t, engine.KVLive)
	w.heard(t)
	w.store(10)
	for h := uint64(1); h <= 13; h++ {
		delete(w.truth, h) // forgotten, not gone
	}
	w.settled(t, engine.KVPartial)
	w.truth = map[uint64]int{}
	w.Publish([]prefix.Event{{Kind: prefix.Cleared}})
	w.store(1)
	w.settled(t, engine.KVLive)
}

// TestReplayFaults: a replay that fails leaves a partial feed that goes on; a later one makes it live.
func TestReplayFaults(t *testing.T) {
	for name, fault := range map[string]kvpub.ReplayFault{
		"silent": kvpub.Silent, "broken": kvpub.Broken, "late": kvpub.Late,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, kvpub.DefaultConfig(), plan(nil, fault, fault))
			w.store(10)
			cfg := w.endpoints(quick())
			cfg.ReplayTimeout = 300 * time.Millisecond
			w.listen(t, cfg)
			require.NoError(t, w.AwaitRequests(t.Context(), 1))
			// It may be whole again before anybody looks.
			w.l.await(t, "partial", func() bool { return slices.Contains(w.l.trail, engine.KVPartial) })
			w.store(10)
			w.l.await(t, "goes on", func() bool { return len(w.l.held) >= 10 })
			w.Flush()
			w.settled(t, engine.KVLive)
		})
	}
}

// TestRingTooShort: where the engine no longer has the beginning, what is claimed is true and the feed says that it is not
// all.
func TestRingTooShort(t *testing.T) {
	cfg := kvpub.DefaultConfig()
	cfg.BufferSteps = 5
	w := newWorld(t, cfg, kvpub.Calm{})
	w.store(10)
	w.listen(t, w.endpoints(quick()))
	for h := uint64(1); h <= 5; h++ {
		delete(w.truth, h)
	}
	w.settled(t, engine.KVPartial)
	w.heard(t)
	w.store(3)
	w.settled(t, engine.KVPartial)
}

// TestRestart: the life of the engine ends while the source listens, with and without replay, and the new one is as far as
// the old one was before the source is connected again.
func TestRestart(t *testing.T) {
	t.Run("replay", func(t *testing.T) {
		w := newWorld(t, kvpub.DefaultConfig(), kvpub.Calm{})
		w.listen(t, w.endpoints(quick()))
		w.l.await(t, "first", func() bool { return w.l.state == engine.KVLive })
		for range 3 {
			w.store(20)
			w.settled(t, engine.KVLive)
			w.restart()
			w.store(20)
			w.settled(t, engine.KVLive)
		}
	})
	t.Run("no replay", func(t *testing.T) {
		cfg := kvpub.DefaultConfig()
		cfg.ReplayEndpoint = nil
		w := newWorld(t, cfg, kvpub.Calm{})
		w.listen(t, w.endpoints(quick()))
		require.NoError(t, w.AwaitSubscribers(t.Context(), 1))
		w.store(20)
		w.settled(t, engine.KVLive)
		w.restart()
		w.settled(t, engine.KVPartial) // empty
		require.NoError(t, w.AwaitSubscribers(t.Context(), 1))
		w.store(5)
		w.settled(t, engine.KVLive)
	})
}

// TestBreakIsNoRestart: a connection that breaks costs nothing where the replay shows that the engine is the same.
func TestBreakIsNoRestart(t *testing.T) {
	w := newWorld(t, kvpub.DefaultConfig(), kvpub.Calm{})
	w.store(10)
	w.listen(t, w.endpoints(quick()))
	w.settled(t, engine.KVLive)
	for range 3 {
		w.Cut()
		w.store(10)
		w.settled(t, engine.KVLive)
	}
	require.Equal(t, 1, w.l.resets)
}

// TestNobodyThere: a source whose engine cannot be reached says so at once, and listens as soon as it can.
func TestNobodyThere(t *testing.T) {
	cfg := kvpub.DefaultConfig()
	cfg.Endpoint = strings.Replace(enginetest.ClosedPort(t), "http:", "tcp:", 1)
	source := quick()
	source.Endpoint = cfg.Endpoint

	w := &world{truth: map[uint64]int{}}
	w.listen(t, source)
	w.l.await(t, "partial", func() bool { return w.l.batches == 1 && w.l.state == engine.KVPartial && w.l.resets == 1 })
	there := newWorld(t, cfg, kvpub.Calm{})
	require.NoError(t, there.AwaitSubscribers(t.Context(), 1))
	there.l = w.l
	there.store(5)
	there.settled(t, engine.KVLive)
}

// TestEngineConnects: the source listens and the engine connects out; when another process takes its place nothing of the
// old one remains, whether or not its connection has broken.
func TestEngineConnects(t *testing.T) {
	first := kvevents.DefaultConfig()
	first.Bind, first.Endpoint = true, "tcp://127.0.0.1:0"
	w := &world{truth: map[uint64]int{}}
	s := w.listen(t, first)
	w.l.await(t, "bound", func() bool { return w.l.state == engine.KVPartial })
	cfg := kvpub.DefaultConfig()
	cfg.Connect, cfg.Endpoint, cfg.ReplayEndpoint = true, "tcp://"+s.Addr().String(), nil

	one := newWorld(t, cfg, kvpub.Calm{})
	one.l = w.l
	require.NoError(t, one.AwaitSubscribers(t.Context(), 1))
	one.store(10)
	one.settled(t, engine.KVLive)

	two := newWorld(t, cfg, kvpub.Calm{})
	two.l, two.next = w.l, 100
	require.NoError(t, two.AwaitSubscribers(t.Context(), 1))
	two.store(3)
	two.settled(t, engine.KVLive)
	one.store(1) // a process that was replaced
	w.l.await(t, "the old one's word is left out", func() bool {
		two.store(1) // what is left out is told with the next batch, and the two connections have no common order
		return w.l.skipped[engine.KVSkipOldLife] > 0
	})
	two.settled(t, engine.KVLive)
	require.NoError(t, two.Close())
	w.l.await(t, "void", func() bool { return len(w.l.held) == 0 })
}

// TestRank: where engines share a bound endpoint, a source hears the batches of its rank.
func TestRank(t *testing.T) {
	sources := kvevents.DefaultConfig()
	sources.Bind, sources.Endpoint, sources.Rank = true, "tcp://127.0.0.1:0", new(1)
	w := &world{truth: map[uint64]int{}}
	s := w.listen(t, sources)
	w.l.await(t, "bound", func() bool { return w.l.state == engine.KVPartial })
	var ranks []*world
	for rank := range 3 {
		cfg := kvpub.DefaultConfig()
		cfg.Connect, cfg.Endpoint, cfg.ReplayEndpoint, cfg.Rank = true, "tcp://"+s.Addr().String(), nil, new(rank)
		one := newWorld(t, cfg, kvpub.Calm{})
		one.l, one.next = w.l, uint64(100*rank)
		require.NoError(t, one.AwaitSubscribers(t.Context(), 1))
		ranks = append(ranks, one)
	}
	for range 3 {
		for _, one := range ranks {
			one.store(5)
		}
	}
	ranks[1].settled(t, engine.KVLive)
}

// TestSharedEndpoint: engines share a bound endpoint, told apart by their topics. Whichever of them come and go, a source
// hears its own.
func TestSharedEndpoint(t *testing.T) {
	sources := kvevents.DefaultConfig()
	sources.Bind, sources.Endpoint, sources.Topic = true, "tcp://127.0.0.1:0", "kv@b"
	w := &world{truth: map[uint64]int{}}
	s := w.listen(t, sources)
	w.l.await(t, "bound", func() bool { return w.l.state == engine.KVPartial })
	begin := func(topic string, first uint64) *world {
		cfg := kvpub.DefaultConfig()
		cfg.Connect, cfg.Endpoint, cfg.ReplayEndpoint, cfg.Topic = true, "tcp://"+s.Addr().String(), nil, topic
		one := newWorld(t, cfg, kvpub.Calm{})
		one.l, one.next = w.l, first
		if topic == sources.Topic {
			require.NoError(t, one.AwaitSubscribers(t.Context(), 1))
		}
		return one
	}
	old := begin("kv@b", 0)
	old.store(3)
	old.settled(t, engine.KVLive)
	heir := begin("kv@b", 100)
	begin("kv@c", 200)
	require.NoError(t, old.Close())
	w.l.await(t, "void", func() bool { return len(w.l.held) == 0 })
	heir.store(3)
	heir.settled(t, engine.KVLive)
}

// TestEndpointTaken: an endpoint that cannot be listened on ends the subscription.
func TestEndpointTaken(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	cfg := kvevents.DefaultConfig()
	cfg.Bind, cfg.Endpoint = true, "tcp://"+l.Addr().String()
	s, err := kvevents.New(cfg, deps())
	require.NoError(t, err)
	require.Equal(t, engine.Refused, engine.KindOf(s.Subscribe(t.Context(), func(engine.KVBatch) {})))
}
