package sim_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/sim"
)

var hashSource = sim.HashSource{Vocab: 1000, EOSID: 2, EndPerMille: 15}

func ptr[T any](v T) *T { return &v }

func answer(s sim.Submit) []uint32 {
	ids, _ := sim.Answer(sim.TinyConfig(), hashSource, s)
	return ids
}

// base is a greedy or a seeded request for 30 tokens.
func base(temperature float64) sim.Submit {
	return sim.Submit{
		PromptTokens: prompt(40, 1, 1000), MaxTokens: 30, IgnoreEOS: true,
		Sampling: engine.Sampling{Temperature: &temperature, Seed: ptr(int64(7))},
	}
}

// Every mistake that a resume can make in what it sends changes the answer.
func TestAnswerDependsOn(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*sim.Submit)
		greedy bool // it changes greedy answers too
	}{
		{"first ID of the context", func(s *sim.Submit) { s.PromptTokens[0]++ }, true},
		{"last ID of the context", func(s *sim.Submit) { s.PromptTokens[39]++ }, true},
		{"order of the context", func(s *sim.Submit) { slices.Reverse(s.PromptTokens[10:12]) }, true},
		{"an ID too many", func(s *sim.Submit) { s.PromptTokens = append(s.PromptTokens, 0) }, true},
		{"an ID too few", func(s *sim.Submit) { s.PromptTokens = s.PromptTokens[:39] }, true},
		{"adapter", func(s *sim.Submit) { s.LoRA = "a" }, true},
		{"presence penalty", func(s *sim.Submit) { s.Sampling.PresencePenalty = ptr(0.5) }, true},
		{"frequency penalty", func(s *sim.Submit) { s.Sampling.FrequencyPenalty = ptr(0.5) }, true},
		{"repetition penalty", func(s *sim.Submit) { s.Sampling.RepetitionPenalty = ptr(1.1) }, true},
		{"logit bias", func(s *sim.Submit) { s.Sampling.LogitBias = map[uint32]float64{5: 1} }, true},
		{"temperature", func(s *sim.Submit) { s.Sampling.Temperature = ptr(0.9) }, true},
		{"seed", func(s *sim.Submit) { s.Sampling.Seed = ptr(int64(8)) }, false},
		{"no seed", func(s *sim.Submit) { s.Sampling.Seed = nil }, false},
		{"top_p", func(s *sim.Submit) { s.Sampling.TopP = ptr(0.5) }, false},
		{"top_k", func(s *sim.Submit) { s.Sampling.TopK = ptr(5) }, false},
		{"min_p", func(s *sim.Submit) { s.Sampling.MinP = ptr(0.5) }, false},
		{"entropy", func(s *sim.Submit) { s.Entropy = 1 }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			greedy := base(0)
			c.change(&greedy)
			require.Equal(t, c.greedy, !slices.Equal(answer(base(0)), answer(greedy)), "greedy")
			sampled := base(1)
			c.change(&sampled)
			require.Equal(t, c.name != "entropy", !slices.Equal(answer(base(1)), answer(sampled)), "seeded")
		})
	}
	unseeded, other := base(1), base(1)
	unseeded.Sampling.Seed, other.Sampling.Seed, other.Entropy = nil, nil, 1
	require.NotEqual(t, answer(unseeded), answer(other), "unseeded sampling is as random as its entropy")
}

// What means the same gives the same: absent and neutral parameters, and the namespace of the cache.
func TestAnswerDoesNotDependOn(t *testing.T) {
	for name, change := range map[string]func(*sim.Submit){
		"salt":         func(s *sim.Submit) { s.Salt = "tenant" },
		"id":           func(s *sim.Submit) { s.ID = "other" },
		"logprobs":     func(s *sim.Submit) { s.TopLogprobs = ptr(3) },
		"no penalties": func(s *sim.Submit) { s.Sampling.PresencePenalty, s.Sampling.FrequencyPenalty = ptr(0.0), ptr(0.0) },
		"neutral":      func(s *sim.Submit) { s.Sampling.RepetitionPenalty, s.Sampling.TopP = ptr(1.0), ptr(1.0) },
	} {
		changed := base(1)
		change(&changed)
		require.Equal(t, answer(base(1)), answer(changed), name)
	}
	absent, one := base(1), base(1)
	absent.Sampling.Temperature = nil
	require.Equal(t, answer(one), answer(absent), "the default temperature is 1")
}

// resumed is the answer of a request that was cut after n tokens and went on with them in its prompt.
func resumed(s sim.Submit, n int) []uint32 {
	head := answer(s)[:n]
	s.PromptTokens = slices.Concat(s.PromptTokens, head)
	s.MaxTokens -= n
	s.MinTokens = max(0, s.MinTokens-n)
	return slices.Concat(head, answer(s))
}

// Greedy answers without presence and frequency penalty resume exactly, wherever they are cut.
func TestGreedyResumesExactly(t *testing.T) {
	cuts := 0
	rapid.Check(t, func(t *rapid.T) {
		s := base(0)
		s.PromptTokens = prompt(rapid.IntRange(1, 50).Draw(t, "prompt"), rapid.Uint32().Draw(t, "text"), 1000)
		s.MaxTokens = 60
		s.IgnoreEOS = rapid.Bool().Draw(t, "ignore eos")
		s.MinTokens = rapid.IntRange(0, 60).Draw(t, "min")
		s.EndTokens = []uint32{7, 8, 9}
		s.Sampling.RepetitionPenalty = rapid.SampledFrom([]*float64{nil, ptr(1.2)}).Draw(t, "repetition")
		s.Sampling.LogitBias = rapid.SampledFrom([]map[uint32]float64{nil, {4: -100, 5: 20}}).Draw(t, "bias")
		whole := answer(s)
		if len(whole) < 2 {
			return
		}
		cuts++
		cut := rapid.IntRange(1, len(whole)-1).Draw(t, "cut")
		require.Equal(t, whole, resumed(s, cut))
	})
	require.Positive(t, cuts)
}

// Whatever counts generated text or draws shows the cut: the engine does not know what came before its prompt.
func TestInexactResumesShow(t *testing.T) {
	for name, change := range map[string]func(*sim.Submit){
		"presence penalty":  func(s *sim.Submit) { s.Sampling.PresencePenalty = ptr(0.5) },
		"frequency penalty": func(s *sim.Submit) { s.Sampling.FrequencyPenalty = ptr(0.5) },
		"seed":              func(s *sim.Submit) { s.Sampling.Temperature = ptr(1.0) },
	} {
		s := base(0)
		change(&s)
		require.NotEqual(t, answer(s), resumed(s, 10), name)
		require.Equal(t, answer(s)[:10], resumed(s, 10)[:10], name)
	}
}

func TestBiasBansAndForces(t *testing.T) {
	s := base(0)
	want := answer(s)
	s.Sampling.LogitBias = map[uint32]float64{want[0]: -100}
	require.NotContains(t, answer(s), want[0])

	s.Sampling.LogitBias = map[uint32]float64{77: 100, 78: 50}
	require.Equal(t, slices.Repeat([]uint32{77}, 30), answer(s))

	s.IgnoreEOS, s.MinTokens = false, 4
	s.Sampling.LogitBias = map[uint32]float64{hashSource.EOSID: 100}
	require.Len(t, answer(s), 5)
	require.NotContains(t, answer(s)[:4], hashSource.EOSID)
	require.Equal(t, hashSource.EOSID, answer(s)[4], "forced as soon as it is allowed")

	s = base(0)
	s.Sampling.LogitBias = map[uint32]float64{}
	for id := range uint32(1000) {
		if id != 500 {
			s.Sampling.LogitBias[id] = -100
		}
	}
	require.Equal(t, slices.Repeat([]uint32{500}, 30), answer(s), "only one ID is allowed")
}

func TestEndOfAnswer(t *testing.T) {
	cfg := sim.TinyConfig()
	natural := base(0)
	natural.IgnoreEOS, natural.MaxTokens = false, 1500
	ids, reason := sim.Answer(cfg, hashSource, natural)
	require.Equal(t, engine.FinishStop, reason)
	require.Equal(t, hashSource.EOSID, ids[len(ids)-1], "the end token is the last of the answer")
	require.NotContains(t, ids[:len(ids)-1], hashSource.EOSID)
	length := len(ids)

	later := natural
	later.MinTokens = length + 5
	ids, _ = sim.Answer(cfg, hashSource, later)
	require.Greater(t, len(ids), length+5)
	require.NotContains(t, ids[:length+5], hashSource.EOSID, "no end token before MinTokens")

	endless := natural
	endless.IgnoreEOS = true
	ids, reason = sim.Answer(cfg, hashSource, endless)
	require.Len(t, ids, 1500)
	require.Equal(t, engine.FinishLength, reason)

	banned := natural
	banned.Sampling.LogitBias = map[uint32]float64{hashSource.EOSID: -100}
	ids, reason = sim.Answer(cfg, hashSource, banned)
	require.Len(t, ids, 1500)
	require.Equal(t, engine.FinishLength, reason)

	own := natural
	own.EndTokens = []uint32{ids[0]}
	own.Sampling.LogitBias = banned.Sampling.LogitBias
	ids, reason = sim.Answer(cfg, hashSource, own)
	require.Len(t, ids, 1)
	require.Equal(t, engine.FinishStop, reason)

	clamped := base(0)
	clamped.PromptTokens, clamped.MaxTokens = prompt(2000, 1, 1000), 1000
	ids, reason = sim.Answer(cfg, hashSource, clamped)
	require.Len(t, ids, cfg.ContextTokens-2000)
	require.Equal(t, engine.FinishLength, reason)
}

func TestLogprobs(t *testing.T) {
	for _, n := range []int{0, 1, 5} {
		d := newDriver(t, sim.TinyConfig(), hashSource)
		s := base(0)
		s.ID, s.TopLogprobs = "a", &n
		d.step(s)
		d.drain()
		o := d.of("a")
		require.Len(t, o.logprobs, 30)
		for i, l := range o.logprobs {
			require.Len(t, l.Top, n)
			sum, seen := 0.0, map[uint32]bool{}
			for j, r := range l.Top {
				require.LessOrEqual(t, r.Logprob, 0.0)
				require.False(t, seen[r.ID])
				seen[r.ID] = true
				sum += math.Exp(r.Logprob)
				if j > 0 {
					require.LessOrEqual(t, r.Logprob, l.Top[j-1].Logprob, "best first")
				}
			}
			require.LessOrEqual(t, sum, 1.0)
			require.Negative(t, l.Logprob)
			if n > 0 {
				require.Equal(t, engine.RankedToken{ID: o.ids[i], Logprob: l.Logprob}, l.Top[0], "greedy takes the likeliest")
			}
		}
	}
}
