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
)

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
		require.Equal(t, &cache{copies: map[uint64]int{}, resets: 1}, snapshot(t, e), "batches count from 0 again")
		again := generate(t.Context(), e, ask("warm", 100, 1))
		require.NoError(t, again.err)
		require.Zero(t, *again.cached, "the cache of the former life is gone")
		require.NoError(t, e.Close())
	})
}

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

// A slow engine takes its time; what one draws without a seed is foretold where its configuration says so.
func TestSlowAndEntropy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := tinyConfig()
		entropy := uint64(5)
		cfg.Entropy = &entropy
		e := open(t, cfg, source)
		took := func() time.Duration {
			began := time.Now()
			req := ask("a", 500, 100)
			req.Sampling = engine.Sampling{}
			a := generate(t.Context(), e, req)
			require.NoError(t, a.err)
			want, _ := sim.Answer(cfg.Sim, source, sim.Submit{PromptTokens: req.PromptTokens, MaxTokens: 100, IgnoreEOS: true, Entropy: entropy})
			require.Equal(t, want, a.ids)
			return time.Since(began)
		}
		took() // and the prompt is cached
		usual := took()
		e.Slow(3)
		require.InEpsilon(t, 3*usual.Seconds(), took().Seconds(), 0.01)
		e.Slow(1)
		require.Equal(t, usual, took())
		require.NoError(t, e.Close())
	})
}

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

func TestCloseEndsAHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, tinyConfig(), source)
		ctx, cancel := context.WithCancel(t.Context())
		leaving, late := make(chan answer, 1), make(chan answer, 1)
		go func() { leaving <- generate(ctx, e, ask("a", 500, 1000)) }()
		synctest.Wait()
		e.Pause()
		go func() { late <- generate(t.Context(), e, ask("b", 10, 1)) }()
		cancel()
		synctest.Wait()
		require.Empty(t, leaving, "its blocks are held")
		require.NoError(t, e.Close())
		require.ErrorIs(t, (<-leaving).err, context.Canceled)
		require.Equal(t, engine.Refused, engine.KindOf((<-late).err))
	})
}

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
