package fakeengine_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/engine/vllm"
	"plimsoll/testbench/fakeengine"
)

// adapter connects the adapter for real vLLM servers.
func (f fake) adapter(t *testing.T, api vllm.API) *vllm.Engine {
	t.Helper()
	cfg := vllm.DefaultConfig()
	cfg.URL, cfg.API = f.web.URL, api
	e, err := vllm.New(cfg, vllm.Deps{Dial: new(net.Dialer).DialContext, Log: slog.New(slog.DiscardHandler), Entropy: rand.Uint64})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// given is what an adapter told of one request.
type given struct {
	ids    []uint32
	tokens []engine.Token
	cached *int
	finish *engine.Finish
	err    error
}

func generate(ctx context.Context, e *vllm.Engine, req engine.Request, each func()) (g given) {
	g.err = e.Generate(ctx, req, func(ev engine.Event) error {
		for _, token := range ev.Tokens {
			g.ids = append(g.ids, token.ID)
			g.tokens = append(g.tokens, token)
		}
		if ev.CachedTokens != nil {
			g.cached = ev.CachedTokens
		}
		if ev.Finish != nil {
			g.finish = ev.Finish
		}
		each()
		return nil
	})
	return g
}

func nothing() {}

func prompt(n int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = uint32(i*7+n) % 4000 //nolint:gosec // small and positive
	}
	return ids
}

// TestTheAdapterTakesItForVLLM: what the adapter tells of a request over the socket is what the engine would answer.
func TestTheAdapterTakesItForVLLM(t *testing.T) {
	f := serve(t, nil)
	zero, two, seed := 0.0, 2, int64(7)
	for _, api := range []vllm.API{vllm.APICompletions, vllm.APIGenerate} {
		t.Run(string(api), func(t *testing.T) {
			e := f.adapter(t, api)
			for name, req := range map[string]engine.Request{
				"greedy":    {MaxTokens: 30, IgnoreEOS: true, Sampling: engine.Sampling{Temperature: &zero}},
				"ends":      {MaxTokens: 2000, Sampling: engine.Sampling{Temperature: &zero}},
				"seeded":    {MaxTokens: 20, Sampling: engine.Sampling{Seed: &seed}},
				"end token": {MaxTokens: 500, EndTokens: []uint32{295, 266, 13}, Sampling: engine.Sampling{Temperature: &zero}},
				"bias":      {MaxTokens: 3, Sampling: engine.Sampling{Temperature: &zero, LogitBias: map[uint32]float64{77: 100}}},
				"minimum":   {MaxTokens: 400, MinTokens: 300, Sampling: engine.Sampling{Temperature: &zero}},
				"logprobs":  {MaxTokens: 5, IgnoreEOS: true, TopLogprobs: &two, Sampling: engine.Sampling{Temperature: &zero}},
			} {
				t.Run(name, func(t *testing.T) {
					req.ID, req.PromptTokens, req.CacheSalt = name, prompt(100), name+string(api)
					want, reason := sim.Answer(sim.DefaultConfig(), f.source, sim.Submit{
						PromptTokens: req.PromptTokens, MaxTokens: req.MaxTokens, MinTokens: req.MinTokens, Sampling: req.Sampling,
						EndTokens: req.EndTokens, IgnoreEOS: req.IgnoreEOS,
					})
					for _, cached := range []int{0, 96} {
						got := generate(t.Context(), e, req, nothing)
						require.NoError(t, got.err)
						require.Equal(t, want, got.ids)
						require.Equal(t, reason, got.finish.Reason)
						require.Equal(t, cached, *got.cached)
						for _, token := range got.tokens {
							require.Equal(t, req.TopLogprobs != nil, token.Logprob != nil)
							if token.Logprob != nil {
								require.Len(t, token.Logprob.Top, *req.TopLogprobs)
								require.Less(t, token.Logprob.Logprob, 0.0)
							}
						}
					}
				})
			}
		})
	}
}

func TestTheAdapterProbesIt(t *testing.T) {
	f := serve(t, func(c *fakeengine.Config) { c.Engine.Sim = sim.A10Config() })
	e := f.adapter(t, vllm.APICompletions)
	status, err := e.Probe(t.Context())
	require.NoError(t, err)
	require.Equal(t, "plimsoll-sim", status.Model)
	require.Equal(t, fakeengine.Version, status.Version)
	require.NotEmpty(t, status.Incarnation)
	require.Equal(t, 16, *status.BlockTokens)
	require.Equal(t, 2144, *status.KVBlocks, "the null block is not usable")
	require.Equal(t, 32_768, *status.SequenceTokens)
	require.Zero(t, *status.Load.RunningSequences)
	require.Zero(t, *status.Load.UsedBlocks)

	ctx, cancel := context.WithCancel(t.Context())
	begun, ended := make(chan struct{}, 1), make(chan given, 1)
	req := engine.Request{ID: "a", PromptTokens: prompt(1600), MaxTokens: 20_000, IgnoreEOS: true}
	go func() {
		ended <- generate(ctx, e, req, func() {
			select {
			case begun <- struct{}{}:
			default:
			}
		})
	}()
	<-begun
	status, err = e.Probe(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, *status.Load.RunningSequences)
	require.GreaterOrEqual(t, *status.Load.UsedBlocks, 100)
	require.Positive(t, *status.Load.Steps)
	cancel()
	require.ErrorIs(t, (<-ended).err, context.Canceled)
	require.Eventually(t, func() bool {
		status, err := e.Probe(t.Context())
		return err == nil && *status.Load.RunningSequences == 0 && *status.Load.UsedBlocks == 0
	}, time.Minute, time.Millisecond, "a closed connection aborts")
}

func TestTheAdapterKnowsItsFailures(t *testing.T) {
	f := serve(t, nil)
	for _, api := range []vllm.API{vllm.APICompletions, vllm.APIGenerate} {
		e := f.adapter(t, api)
		for name, c := range map[string]struct {
			req  engine.Request
			want engine.FailKind
		}{
			"too long":      {engine.Request{PromptTokens: prompt(131_073), MaxTokens: 1}, engine.Client},
			"no room":       {engine.Request{PromptTokens: prompt(131_072), MaxTokens: 1}, engine.Client},
			"no such token": {engine.Request{PromptTokens: []uint32{1, 9999}, MaxTokens: 1}, engine.Client},
			"no such model": {engine.Request{PromptTokens: prompt(5), MaxTokens: 1, LoRA: "missing"}, engine.Operator},
		} {
			c.req.ID = name
			got := generate(t.Context(), e, c.req, nothing)
			require.Error(t, got.err, "%s %s", api, name)
			require.Equal(t, c.want, engine.KindOf(got.err), "%s %s: %s", api, name, got.err)
		}
	}
	e := f.adapter(t, vllm.APICompletions)
	died := generate(t.Context(), e, engine.Request{ID: "b", PromptTokens: prompt(5), MaxTokens: 100_000, IgnoreEOS: true}, f.Engine().Kill)
	require.Equal(t, engine.Broken, engine.KindOf(died.err))
	require.NotEmpty(t, died.ids)
	require.Nil(t, died.finish)
	_, err := e.Probe(t.Context())
	require.Error(t, err)
}
