package cost_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/scoring"
	"plimsoll/scoring/cost"
	"plimsoll/scoring/ledger"
)

// tenPerSecond makes sums that can be done by hand: 0.1 s a prompt token, 1 s a step and 0.01 s a KV token.
var tenPerSecond = cost.Rates{PrefillSecondsPerToken: 0.1, StepSeconds: 1, StepSecondsPerKVToken: 0.01}

var even = cost.Weights{Wait: 1, Prefill: 1, Decode: 1, Residents: 1}

// TestPredictByHand: each part of the formula in README.md, worked out.
func TestPredictByHand(t *testing.T) {
	d := cost.Demand{PromptTokens: 100, OutputTokens: 10}
	for _, tc := range []struct {
		name string
		r    cost.Replica
		hit  scoring.Tokens
		want cost.Breakdown
	}{
		{"idle", cost.Replica{}, 0, cost.Breakdown{PrefillSeconds: 10, DecodeSeconds: 20}},
		{"overlap", cost.Replica{}, 60, cost.Breakdown{PrefillSeconds: 4, DecodeSeconds: 20}},
		{"a full hit computes one token", cost.Replica{}, 100, cost.Breakdown{PrefillSeconds: 0.1, DecodeSeconds: 20}},
		{
			"queued prefill",
			cost.Replica{Load: ledger.Load{Reserved: 1, QueuedPrefillTokens: 50, OldestPrefillTokens: 50, RemainingOutputTokens: 4}},
			0,
			// wait 50*0.1; step 1+0.01*150; one resident: stalled 10 s, and 4 of its steps slower by 100*0.01.
			cost.Breakdown{WaitSeconds: 5, PrefillSeconds: 10, DecodeSeconds: 25, ResidentSeconds: 14},
		},
		{
			"queued prefill, under way for 3 s",
			cost.Replica{
				Load:           ledger.Load{Reserved: 1, QueuedPrefillTokens: 50, OldestPrefillTokens: 50},
				PrefillElapsed: 3 * time.Second,
			},
			0,
			cost.Breakdown{WaitSeconds: 2, PrefillSeconds: 10, DecodeSeconds: 25, ResidentSeconds: 10},
		},
		{
			"queued prefill, late: a tenth is left",
			cost.Replica{
				Load:           ledger.Load{Reserved: 1, QueuedPrefillTokens: 50, OldestPrefillTokens: 50},
				PrefillElapsed: time.Minute,
			},
			0,
			cost.Breakdown{WaitSeconds: 0.5, PrefillSeconds: 10, DecodeSeconds: 25, ResidentSeconds: 10},
		},
		{
			"decoding",
			cost.Replica{Load: ledger.Load{Running: 2, DecodeSlots: 2, DecodeKVTokens: 300, RemainingOutputTokens: 40}},
			0,
			// step 1+0.01*400; two residents: 10 s each, and min(10, 20) steps slower by 1 s.
			cost.Breakdown{PrefillSeconds: 10, DecodeSeconds: 50, ResidentSeconds: 40},
		},
		{
			"sent there a moment ago",
			cost.Replica{PendingRequests: 1, PendingPrefillTokens: 50},
			0,
			cost.Breakdown{WaitSeconds: 5, PrefillSeconds: 10, DecodeSeconds: 25, ResidentSeconds: 10},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := cost.Predict(d, tc.r, tc.hit, tenPerSecond, even)
			require.InDelta(t, tc.want.WaitSeconds, got.WaitSeconds, 1e-9, "wait")
			require.InDelta(t, tc.want.PrefillSeconds, got.PrefillSeconds, 1e-9, "prefill")
			require.InDelta(t, tc.want.DecodeSeconds, got.DecodeSeconds, 1e-9, "decode")
			require.InDelta(t, tc.want.ResidentSeconds, got.ResidentSeconds, 1e-9, "residents")
			require.InDelta(t, tc.want.TotalSeconds(), got.TotalSeconds(), 1e-9)
		})
	}
}

// TestPredictIsSane: whatever the load, no part is negative or not a number, overlap never makes a replica dearer, and
// more work there never makes it cheaper.
func TestPredictIsSane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }
		d := cost.Demand{
			PromptTokens: scoring.Tokens(count("prompt", 200_000)), OutputTokens: scoring.Tokens(count("output", 10_000)),
		}
		r := cost.Replica{
			Load: ledger.Load{
				Reserved: count("reserved", 9), Running: count("running", 300),
				QueuedPrefillTokens: scoring.Tokens(count("queued", 1_000_000)), QueuedPrefillTokens2: float64(count("queued2", 1e9)),
				OldestPrefillTokens: scoring.Tokens(count("oldest", 100_000)), DecodeKVTokens: scoring.Tokens(count("kv", 1_000_000)),
				RemainingOutputTokens: scoring.Tokens(count("remaining", 100_000)),
			},
			PendingRequests: count("pending", 5), PendingPrefillTokens: scoring.Tokens(count("pending tokens", 100_000)),
			PrefillElapsed: time.Duration(count("elapsed", 100_000)-100) * time.Millisecond,
		}
		hit := scoring.Tokens(count("hit", 250_000))
		got := cost.Predict(d, r, hit, cost.DefaultRates(), cost.DefaultWeights())
		for _, part := range []float64{got.WaitSeconds, got.PrefillSeconds, got.DecodeSeconds, got.ResidentSeconds} {
			require.False(t, math.IsNaN(part) || math.IsInf(part, 0) || part < 0, "%+v", got)
		}
		none := cost.Predict(d, r, 0, cost.DefaultRates(), cost.DefaultWeights())
		require.LessOrEqual(t, got.TotalSeconds(), none.TotalSeconds()+1e-9)
		busier := r
		busier.Load.QueuedPrefillTokens += 1000
		busier.Load.DecodeKVTokens += 1000
		more := cost.Predict(d, busier, hit, cost.DefaultRates(), cost.DefaultWeights())
		require.GreaterOrEqual(t, more.TotalSeconds(), got.TotalSeconds())
	})
}

// TestLearnerFindsTrueRates: fed by replicas of known speed, its rates come within a few percent of theirs, and a
// replica never seen is taken to be like its fleet.
func TestLearnerFindsTrueRates(t *testing.T) {
	prior := cost.DefaultRates()
	for _, slower := range []float64{0.5, 1, 3} {
		l := cost.NewLearner(cost.DefaultConfig())
		rng := rand.New(rand.NewPCG(1, 2))
		truth := prior
		truth.PrefillSecondsPerToken *= slower
		truth.PrefillSecondsPerToken2 *= slower
		truth.StepSeconds *= slower
		truth.StepSecondsPerKVToken *= slower
		for range 1000 {
			noise := 0.9 + 0.2*rng.Float64()
			tokens, hit := scoring.Tokens(100+rng.IntN(20_000)), scoring.Tokens(rng.IntN(20_000))
			l.FirstToken("a", tokens, hit, seconds(noise*truth.PrefillSeconds(tokens, hit)))
			kv := scoring.Tokens(rng.IntN(400_000))
			l.Step("a", kv, seconds(noise*truth.StepSecondsAt(kv)))
		}
		got := l.Rates("a")
		require.InEpsilon(t, truth.PrefillSecondsPerToken, got.PrefillSecondsPerToken, 0.1, "%v times slower", slower)
		require.InEpsilon(t, truth.PrefillSecondsPerToken2, got.PrefillSecondsPerToken2, 0.1)
		require.InEpsilon(t, truth.StepSecondsAt(200_000), got.StepSecondsAt(200_000), 0.05)
		require.InEpsilon(t, truth.StepSecondsPerKVToken, got.StepSecondsPerKVToken, 0.15)
		require.InEpsilon(t, truth.PrefillSecondsPerToken, l.Rates("new").PrefillSecondsPerToken, 0.1)
		l.Forget("a")
		require.Equal(t, l.Rates("new"), l.Rates("a"))
	}
}

// TestPriorUntilSeen: nothing seen means the prior, and one odd observation does not overturn it.
func TestPriorUntilSeen(t *testing.T) {
	l := cost.NewLearner(cost.DefaultConfig())
	require.Equal(t, cost.DefaultRates(), l.Rates("a"))
	tokens := scoring.Tokens(1000)
	predicted := cost.DefaultRates().PrefillSeconds(tokens, 0)
	l.FirstToken("a", tokens, 0, seconds(10*predicted))
	// Ten times the prediction, less the pass that any first token takes, beside a 128th of the longest prefill seen at the
	// prior for the fleet, and half of it at the fleet's for the replica.
	measured := 10*predicted - cost.DefaultRates().StepSeconds
	fleet := (predicted/128 + measured) / (predicted/128 + predicted)
	own := (predicted/2*fleet + measured) / (predicted/2 + predicted)
	require.InEpsilon(t, own, l.Rates("a").PrefillSecondsPerToken/cost.DefaultRates().PrefillSecondsPerToken, 1e-6)
	require.InEpsilon(t, fleet, l.Rates("b").PrefillSecondsPerToken/cost.DefaultRates().PrefillSecondsPerToken, 1e-6)
	l.Step("a", 0, 20*time.Millisecond)
	require.InEpsilon(t, l.Rates("a").StepSeconds, l.Rates("b").StepSeconds, 0.1, "the only one seen is the fleet")
}

// TestLearnerSurvivesNonsense: no observation turns a rate negative, infinite or into no number.
func TestLearnerSurvivesNonsense(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := cost.NewLearner(cost.DefaultConfig())
		count := rapid.IntRange(-10, 1_000_000)
		took := rapid.Int64Range(-1e9, 1e12)
		t.Repeat(map[string]func(*rapid.T){
			"first token": func(t *rapid.T) {
				l.FirstToken("a", scoring.Tokens(count.Draw(t, "tokens")), scoring.Tokens(count.Draw(t, "hit")),
					time.Duration(took.Draw(t, "took")))
			},
			"step": func(t *rapid.T) {
				l.Step("a", scoring.Tokens(count.Draw(t, "kv")), time.Duration(took.Draw(t, "gap")))
			},
			"output": func(t *rapid.T) {
				l.Output(scoring.Tokens(count.Draw(t, "produced")), scoring.Tokens(count.Draw(t, "limit")))
			},
			"": func(t *rapid.T) {
				r := l.Rates("a")
				require.Positive(t, r.PrefillSecondsPerToken)
				require.Positive(t, r.PrefillSecondsPerToken2)
				for _, v := range []float64{r.StepSeconds, r.StepSecondsPerKVToken, r.StepSecondsAt(100_000)} {
					require.False(t, math.IsNaN(v) || math.IsInf(v, 0) || v < 0, "%+v", r)
				}
				require.Positive(t, r.StepSecondsAt(1))
				n := l.OutputTokens(100)
				require.True(t, n > 0 && n <= 100)
			},
		})
	})
}

// TestPredictedOutput: min(max_tokens, p90 of the last answers); 512 before any.
func TestPredictedOutput(t *testing.T) {
	l := cost.NewLearner(cost.DefaultConfig())
	require.EqualValues(t, 512, l.OutputTokens(4096))
	require.EqualValues(t, 100, l.OutputTokens(100))
	for n := range 100 {
		l.Output(scoring.Tokens(n+1), 0)
	}
	require.EqualValues(t, 90, l.OutputTokens(4096))
	require.EqualValues(t, 16, l.OutputTokens(16))
	for range 512 {
		l.Output(7, 0)
	}
	require.EqualValues(t, 7, l.OutputTokens(4096), "only the last 512 answers count")
}

// TestPredictedShareOfTheLimit: answers that go to their limits are predicted to do so, though only short ones have finished;
// those that end by themselves under a high limit do not make others long, and the other way round.
func TestPredictedShareOfTheLimit(t *testing.T) {
	l := cost.NewLearner(cost.DefaultConfig())
	for i := range scoring.Tokens(8) {
		require.Less(t, l.OutputTokens(1000), scoring.Tokens(528), "too few to tell")
		l.Output(520+i, 520+i)
	}
	require.EqualValues(t, 1000, l.OutputTokens(1000), "they took all of it")
	require.EqualValues(t, 600, l.OutputTokens(600))
	for range 100 {
		l.Output(200, 4096)
	}
	require.EqualValues(t, 201, l.OutputTokens(4096), "49 thousandths")
	require.EqualValues(t, 1000, l.OutputTokens(1000))
	require.Zero(t, l.OutputTokens(0))
	require.EqualValues(t, 1, l.OutputTokens(1))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// TestSlowFleetIsLearnedFast is a fleet a hundred times slower than the prior: a replica not seen yet must not look like
// the prior's device beside one that is known, and a few first tokens must tell what a prefill costs there.
func TestSlowFleetIsLearnedFast(t *testing.T) {
	l := cost.NewLearner(cost.DefaultConfig())
	for range 3 {
		l.FirstToken("seen", 92, 0, 450*time.Millisecond)
		for range 16 {
			l.Step("seen", 150, 55*time.Millisecond)
		}
	}
	seen, unseen := l.Rates("seen"), l.Rates("unseen")
	require.InEpsilon(t, seen.StepSecondsAt(150), unseen.StepSecondsAt(150), 0.01)
	require.InDelta(t, 0.055, unseen.StepSecondsAt(150), 0.01)
	prefill := unseen.PrefillSeconds(92, 0)
	require.Greater(t, prefill, 0.2)
	require.Less(t, prefill, 0.6)
	require.InEpsilon(t, prefill, seen.PrefillSeconds(92, 0), 0.5)
}

// TestShortPromptsTellLittle is a replica that has seen only cached follow-ups, whose first token takes a pass: it must not
// count as slow at prefill beside one that has shown a long one.
func TestShortPromptsTellLittle(t *testing.T) {
	l := cost.NewLearner(cost.DefaultConfig())
	l.FirstToken("long", 20_000, 0, 1300*time.Millisecond)
	for range 20 {
		l.FirstToken("short", 10, 20_000, 14*time.Millisecond)
	}
	require.InEpsilon(t, l.Rates("long").PrefillSeconds(20_000, 0), l.Rates("short").PrefillSeconds(20_000, 0), 0.5)
}
