package live_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/live"
	"plimsoll/scoring/prefix"
)

var source = sim.HashSource{Vocab: 1000, EOSID: 2, EndPerMille: 20}

func tinyConfig() live.Config {
	cfg := live.DefaultConfig()
	cfg.Sim = sim.TinyConfig()
	return cfg
}

func open(tb testing.TB, cfg live.Config, source sim.TokenSource) *live.Engine {
	tb.Helper()
	var draws atomic.Uint64
	e, err := live.New(cfg, live.Deps{Source: source, Entropy: func() uint64 { return draws.Add(1) }})
	require.NoError(tb, err)
	return e
}

func ask(id string, promptTokens, maxTokens int) engine.Request {
	zero := 0.0
	req := engine.Request{ID: id, MaxTokens: maxTokens, IgnoreEOS: true, Sampling: engine.Sampling{Temperature: &zero}}
	for i := range promptTokens {
		req.PromptTokens = append(req.PromptTokens, uint32(i*7+promptTokens)%1000)
	}
	return req
}

// answer is what a call gave.
type answer struct {
	ids    []uint32
	cached *int
	finish *engine.Finish
	err    error
}

func generate(ctx context.Context, e *live.Engine, req engine.Request) (a answer) {
	a.err = e.Generate(ctx, req, func(event engine.Event) error {
		for _, token := range event.Tokens {
			a.ids = append(a.ids, token.ID)
		}
		if event.CachedTokens != nil {
			a.cached = event.CachedTokens
		}
		a.finish = event.Finish
		return nil
	})
	return a
}

func usedBlocks(tb testing.TB, e *live.Engine) int {
	tb.Helper()
	status, err := e.Probe(tb.Context())
	require.NoError(tb, err)
	return *status.Load.UsedBlocks
}

func TestGenerateAnswersAsTheOracle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, tinyConfig(), source)
		req := ask("a", 100, 40)
		req.IgnoreEOS = false
		want, reason := sim.Answer(sim.TinyConfig(), source, sim.Submit{
			PromptTokens: req.PromptTokens, MaxTokens: 40, Sampling: req.Sampling,
		})
		for i, cached := range []int{0, 96} {
			req.ID = strconv.Itoa(i)
			got := generate(t.Context(), e, req)
			require.NoError(t, got.err)
			require.Equal(t, want, got.ids)
			require.Equal(t, reason, got.finish.Reason)
			require.Equal(t, cached, *got.cached)
		}
		require.Zero(t, usedBlocks(t, e))
		require.NoError(t, e.Close())
	})
}

// Time passes as the formula says, divided by Speed.
func TestSpeed(t *testing.T) {
	for _, speed := range []float64{1, 10} {
		synctest.Test(t, func(t *testing.T) {
			cfg := live.DefaultConfig()
			cfg.Speed = speed
			e := open(t, cfg, source)
			began := time.Now()
			require.NoError(t, generate(t.Context(), e, ask("a", 2000, 1)).err)
			want := time.Duration(float64(cfg.Sim.Timing.Pass(2000, 0, 0, 0)) / speed)
			require.Equal(t, want, time.Since(began))
			require.Greater(t, want, 9*time.Millisecond)
			require.NoError(t, e.Close())
		})
	}
}

func TestProbeTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := tinyConfig()
		e := open(t, cfg, source)
		go generate(t.Context(), e, ask("a", 100, 1000))
		time.Sleep(time.Millisecond) // virtual
		status, err := e.Probe(t.Context())
		require.NoError(t, err)
		require.Equal(t, "plimsoll-sim", status.Model)
		require.NotEmpty(t, status.Incarnation)
		require.Equal(t, 16, *status.BlockTokens)
		require.Equal(t, 256, *status.KVBlocks)
		require.Equal(t, 8, *status.Seats)
		require.Equal(t, 2048, *status.SequenceTokens)
		require.Equal(t, 1, *status.Load.RunningSequences)
		require.Zero(t, *status.Load.WaitingSequences)
		require.GreaterOrEqual(t, *status.Load.UsedBlocks, 7)
		require.Positive(t, *status.Load.Steps)
		require.NoError(t, e.Close())
		synctest.Wait()
	})
}

func TestFailuresHaveKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, tinyConfig(), source)
		tooLong := ask("a", 2048, 1)
		other := ask("b", 10, 1)
		other.Model = "gpt-5"
		chat := engine.Request{ID: "c", ChatBody: []byte(`{}`), MaxTokens: 1}
		adapter := ask("d", 10, 1)
		adapter.LoRA = "missing"
		for _, c := range []struct {
			req     engine.Request
			kind    engine.FailKind
			status  int
			message string
		}{
			{tooLong, engine.Client, 400, "2048"},
			{other, engine.Operator, 404, "gpt-5"},
			{chat, engine.Client, 400, "token IDs"},
			{adapter, engine.Operator, 404, "missing"},
		} {
			var f *engine.Failure
			require.ErrorAs(t, generate(t.Context(), e, c.req).err, &f)
			require.Equal(t, c.kind, f.Kind, c.message)
			require.Equal(t, c.status, f.Status, c.message)
			require.Contains(t, f.Message, c.message)
			require.True(t, f.FromEngine)
		}
		require.NoError(t, e.Close())
		require.Equal(t, engine.Refused, engine.KindOf(generate(t.Context(), e, ask("e", 10, 1)).err))
		_, err := e.Probe(t.Context())
		require.Equal(t, engine.Refused, engine.KindOf(err))
	})
}

// An ID in use is refused, and the call that uses it goes on.
func TestIDInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, tinyConfig(), source)
		first := make(chan answer)
		go func() { first <- generate(t.Context(), e, ask("a", 100, 50)) }()
		synctest.Wait()
		require.Equal(t, engine.Client, engine.KindOf(generate(t.Context(), e, ask("a", 100, 50)).err))
		a := <-first
		require.NoError(t, a.err)
		require.Len(t, a.ids, 50)
		require.NoError(t, e.Close())
	})
}

// When Generate returns after a cancel, the blocks are free.
func TestCancelConfirms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, tinyConfig(), source)
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan answer)
		go func() { got <- generate(ctx, e, ask("a", 500, 1000)) }()
		time.Sleep(time.Millisecond) // virtual
		require.Positive(t, usedBlocks(t, e))
		cancel()
		require.ErrorIs(t, (<-got).err, context.Canceled)
		require.Zero(t, usedBlocks(t, e))
		require.NoError(t, e.Close())
	})
}

func TestErrorOfEmitAborts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, tinyConfig(), source)
		enough, calls := errors.New("enough"), 0
		err := e.Generate(t.Context(), ask("a", 100, 1000), func(engine.Event) error {
			if calls++; calls == 3 {
				return enough
			}
			return nil
		})
		require.ErrorIs(t, err, enough)
		require.Equal(t, 3, calls)
		require.Zero(t, usedBlocks(t, e))
		require.NoError(t, e.Close())
	})
}

// The engine computes the whole answer while the receiver of its first token is still busy with it.
func TestEngineWaitsForNoReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, tinyConfig(), source)
		tokens := 0
		err := e.Generate(t.Context(), ask("a", 100, 200), func(engine.Event) error {
			if tokens++; tokens == 1 {
				time.Sleep(time.Hour) // virtual
				require.Zero(t, usedBlocks(t, e))
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, 200, tokens)
		require.NoError(t, e.Close())
	})
}

func TestKillBreaksAndStartIsANewLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, tinyConfig(), source)
		before, err := e.Probe(t.Context())
		require.NoError(t, err)
		require.NoError(t, generate(t.Context(), e, ask("warm", 100, 1)).err)
		got, fed := make(chan answer), make(chan error)
		go func() { got <- generate(t.Context(), e, ask("a", 500, 1000)) }()
		go func() { fed <- e.Subscribe(t.Context(), func(engine.KVBatch) {}) }()
		time.Sleep(time.Millisecond) // virtual
		e.Kill()
		a := <-got
		require.Equal(t, engine.Broken, engine.KindOf(a.err))
		require.NotEmpty(t, a.ids)
		require.Equal(t, engine.Broken, engine.KindOf(<-fed))
		_, err = e.Probe(t.Context())
		require.Equal(t, engine.Refused, engine.KindOf(err))
		require.Equal(t, engine.Refused, engine.KindOf(generate(t.Context(), e, ask("b", 10, 1)).err))
		require.Equal(t, engine.Refused, engine.KindOf(e.Subscribe(t.Context(), func(engine.KVBatch) {})))

		e.Start()
		after, err := e.Probe(t.Context())
		require.NoError(t, err)
		require.NotEqual(t, before.Incarnation, after.Incarnation)
		again := generate(t.Context(), e, ask("warm", 100, 1))
		require.NoError(t, again.err)
		require.Zero(t, *again.cached, "the cache of the former life is gone")
		require.NoError(t, e.Close())
	})
}

// A hung engine looks healthy to a probe, but its step counter stands still, and it lets go of nothing.
func TestPauseHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, tinyConfig(), source)
		ctx, cancel := context.WithCancel(t.Context())
		running, stuck := make(chan answer, 1), make(chan answer, 1)
		go func() { running <- generate(ctx, e, ask("a", 500, 1000)) }()
		time.Sleep(time.Millisecond) // virtual
		e.Pause()
		go func() { stuck <- generate(t.Context(), e, ask("b", 10, 3)) }()
		before, err := e.Probe(t.Context())
		require.NoError(t, err)
		cancel()
		time.Sleep(time.Hour) // virtual
		require.Empty(t, running)
		require.Empty(t, stuck)
		after, err := e.Probe(t.Context())
		require.NoError(t, err)
		require.Equal(t, *before.Load.Steps, *after.Load.Steps)
		require.Positive(t, *after.Load.UsedBlocks)

		e.Resume()
		require.ErrorIs(t, (<-running).err, context.Canceled)
		require.NoError(t, (<-stuck).err)
		require.Zero(t, usedBlocks(t, e))
		require.NoError(t, e.Close())
	})
}

// A killed engine that hung before answers those who wait for it.
func TestKillEndsAHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, tinyConfig(), source)
		got := make(chan answer, 1)
		go func() { got <- generate(t.Context(), e, ask("a", 500, 1000)) }()
		synctest.Wait()
		e.Pause()
		e.Kill()
		require.Equal(t, engine.Broken, engine.KindOf((<-got).err))
		e.Start()
		require.NoError(t, generate(t.Context(), e, ask("b", 10, 3)).err)
		require.NoError(t, e.Close())
	})
}

func TestCloseBreaksCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, tinyConfig(), source)
		got, fed := make(chan answer, 1), make(chan error, 1)
		go func() { got <- generate(t.Context(), e, ask("a", 500, 1000)) }()
		go func() { fed <- e.Subscribe(t.Context(), func(engine.KVBatch) {}) }()
		synctest.Wait()
		require.NoError(t, e.Close())
		require.Equal(t, engine.Broken, engine.KindOf((<-got).err))
		require.Equal(t, engine.Broken, engine.KindOf(<-fed))
	})
}

// faulty panics at a context of a certain length.
type faulty struct {
	sim.HashSource
	at int
}

func (f faulty) Next(context []uint32, digest uint64) uint32 {
	if len(context) == f.at {
		panic("no such place")
	}
	return f.HashSource.Next(context, digest)
}

// A panic inside is a crash of the engine, not of the process.
func TestPanicIsACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, tinyConfig(), faulty{source, 120})
		a := generate(t.Context(), e, ask("a", 100, 50))
		require.Equal(t, engine.Broken, engine.KindOf(a.err))
		require.ErrorContains(t, a.err, "no such place")
		require.Len(t, a.ids, 20)
		_, err := e.Probe(t.Context())
		require.Equal(t, engine.Refused, engine.KindOf(err))
		e.Start()
		require.NoError(t, generate(t.Context(), e, ask("b", 30, 50)).err)
		require.NoError(t, e.Close())
	})
}

// cache is what a subscriber believes the engine's cache holds: copies a hash.
type cache struct {
	copies map[uint64]int
	seq    uint64
	resets int
}

func (c *cache) apply(tb testing.TB, b engine.KVBatch) {
	tb.Helper()
	if b.Reset {
		c.copies, c.resets = map[uint64]int{}, c.resets+1
	} else {
		require.Equal(tb, c.seq+1, b.Seq, "a hole without Reset")
	}
	c.seq = b.Seq
	for _, event := range b.Events {
		switch event.Kind {
		case prefix.Stored:
			require.Len(tb, event.Tokens, len(event.Hashes)*event.BlockTokens)
			if b.Reset && event.Parent != nil {
				require.Positive(tb, c.copies[*event.Parent], "a snapshot names parents first")
			}
			for _, h := range event.Hashes {
				c.copies[h]++
			}
		case prefix.Removed:
			for _, h := range event.Hashes {
				c.copies[h]--
				require.GreaterOrEqual(tb, c.copies[h], 0)
				if c.copies[h] == 0 {
					delete(c.copies, h)
				}
			}
		case prefix.Cleared:
			clear(c.copies)
		case prefix.NumEventKinds:
		}
	}
}

// snapshot is what a new subscriber is told.
func snapshot(t *testing.T, e *live.Engine) *cache {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &cache{}
	err := e.Subscribe(ctx, func(b engine.KVBatch) { c.apply(t, b); cancel() })
	require.ErrorIs(t, err, context.Canceled)
	return c
}

// Whoever follows the feed from any moment on ends up knowing what a new snapshot says.
func TestFeedFollowsTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, tinyConfig(), source)
		rng := rand.New(rand.NewPCG(1, 2))
		ctx, cancel := context.WithCancel(t.Context())
		var followers []*cache
		var wg sync.WaitGroup
		for i := range 60 {
			if i%20 == 0 {
				c := &cache{}
				followers = append(followers, c)
				wg.Go(func() { _ = e.Subscribe(ctx, func(b engine.KVBatch) { c.apply(t, b) }) })
				synctest.Wait()
			}
			req := ask(strconv.Itoa(i), 50+rng.IntN(8)*150, 1+rng.IntN(100))
			wg.Go(func() { generate(ctx, e, req) })
			time.Sleep(time.Duration(rng.IntN(3)) * time.Millisecond) // virtual
		}
		time.Sleep(time.Hour) // virtual
		synctest.Wait()
		want := snapshot(t, e)
		require.NotEmpty(t, want.copies)
		for _, c := range followers {
			require.Equal(t, want.copies, c.copies)
			require.Equal(t, want.seq, c.seq)
			require.Equal(t, 1, c.resets)
		}
		cancel()
		wg.Wait()
		require.NoError(t, e.Close())
	})
}

// A subscriber that falls behind holds up nobody and is told the whole state anew.
func TestSlowSubscriberGetsASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := tinyConfig()
		cfg.FeedBatchesMax = 4
		e := open(t, cfg, source)
		ctx, cancel := context.WithCancel(t.Context())
		c, busy, gone := &cache{}, make(chan struct{}), make(chan error)
		go func() {
			gone <- e.Subscribe(ctx, func(b engine.KVBatch) {
				<-busy
				c.apply(t, b)
			})
		}()
		for i := range 20 {
			require.NoError(t, generate(t.Context(), e, ask(strconv.Itoa(i), 100+i, 40)).err)
		}
		close(busy)
		synctest.Wait()
		require.NoError(t, generate(t.Context(), e, ask("last", 300, 40)).err)
		synctest.Wait()
		require.Equal(t, 2, c.resets)
		require.Equal(t, snapshot(t, e).copies, c.copies)
		cancel()
		require.ErrorIs(t, <-gone, context.Canceled)
		require.NoError(t, e.Close())
	})
}

// 200 streams at once, of which many leave at a random moment: in real time, for the race detector.
func TestManyStreamsWithRandomCancels(t *testing.T) {
	cfg := tinyConfig()
	cfg.Speed = 20
	e := open(t, cfg, source)
	var finished, cancelled atomic.Int64
	var wg sync.WaitGroup
	for i := range 200 {
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			leaveAt, tokens := -1, 0
			if rng.IntN(2) == 0 {
				leaveAt = rng.IntN(40)
			}
			if leaveAt == 0 {
				go cancel()
			}
			err := e.Generate(ctx, ask(strconv.Itoa(i), 20+rng.IntN(400), 60), func(engine.Event) error {
				if tokens++; tokens == leaveAt {
					cancel()
				}
				return nil
			})
			if err == nil {
				finished.Add(1)
				return
			}
			if errors.Is(err, context.Canceled) {
				cancelled.Add(1)
			}
		})
	}
	wg.Wait()
	t.Logf("%d finished, %d cancelled", finished.Load(), cancelled.Load())
	require.EqualValues(t, 200, finished.Load()+cancelled.Load())
	require.Greater(t, finished.Load(), int64(50))
	require.Greater(t, cancelled.Load(), int64(20))
	require.Zero(t, usedBlocks(t, e))
	require.NoError(t, e.Close())
}
