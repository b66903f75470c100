package live_test

import (
	"context"
	"errors"
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

// A hung engine looks healthy to a probe, but its step counter stands still, and it lets go of nothing.

// A killed engine that hung before answers those who wait for it.

func TestConfigIsValidated(t *testing.T) {
	require.NoError(t, live.DefaultConfig().Validate())
	deps := live.Deps{Source: source, Entropy: func() uint64 { return 1 }}
	for name, spoil := range map[string]func(*live.Config){
		"Speed":          func(c *live.Config) { c.Speed = 0 },
		"FeedBatchesMax": func(c *live.Config) { c.FeedBatchesMax = 0 },
		"Seats":          func(c *live.Config) { c.Sim.Seats = 0 },
	} {
		cfg := live.DefaultConfig()
		spoil(&cfg)
		_, err := live.New(cfg, deps)
		require.ErrorContains(t, err, name)
	}
	_, err := live.New(live.DefaultConfig(), live.Deps{Source: source})
	require.ErrorContains(t, err, "Entropy")
	_, err = live.New(live.DefaultConfig(), live.Deps{Entropy: deps.Entropy})
	require.ErrorContains(t, err, "token source")
}

// faulty panics at a context of a certain length.

// A panic inside is a crash of the engine, not of the process.

// cache is what a subscriber believes the engine's cache holds: copies a hash.

// snapshot is what a new subscriber is told.

// Whoever follows the feed from any moment on ends up knowing what a new snapshot says.

// A subscriber that falls behind holds up nobody and is told the whole state anew.

// 200 streams at once, of which many leave at a random moment: in real time, for the race detector.

// What a stream costs the process beside the model: 256 of them at a thousand times real time.

func BenchmarkStreams(b *testing.B) {
	cfg := live.DefaultConfig()
	cfg.Speed = 1000
	e := open(b, cfg, source)
	defer func() { _ = e.Close() }()
	tokens := 0
	b.ReportAllocs()
	for b.Loop() {
		var wg sync.WaitGroup
		for i := range 256 {
			wg.Go(func() { generate(context.Background(), e, ask(strconv.Itoa(i), 64, 64)) })
		}
		wg.Wait()
		tokens += 256 * 64
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(tokens), "ns/token")
}
