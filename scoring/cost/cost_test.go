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

var plain = cost.Prices{Decode: 1, Others: 1}

// TestCostByHand: each part of the formula in README.md, worked out.
func TestCostByHand(t *testing.T) {
	d := cost.Demand{PromptTokens: 100, OutputTokens: 10}
	soon, late := start.Add(-3*time.Second), start.Add(-time.Minute)
	queued := ledger.Load{
		Reserved: 1, QueuedPrefillTokens: 50, OldestPrefillTokens: 50, ReservedPromptTokens: 70, RemainingOutputTokens: 4,
	}
	since := func(at *time.Time) ledger.Load {
		ld := queued
		ld.OldestPrefill = at
		return ld
	}
	decoding := ledger.Load{Running: 2, DecodeKVTokens: 300, RemainingOutputTokens: 40}
	foreign := ledger.Load{Limits: scoring.Limits{Seats: 8, BlockTokens: 16}, ForeignBlocks: 10, ForeignSeats: 7, ForeignWaiting: 16}
	even := cost.DefaultWeights()
	for _, tc := range []struct {
		name    string
		load    ledger.Load
		pending cost.Pending
		hit     scoring.Tokens
		held    cost.Held
		prices  cost.Prices
		weights cost.Weights
		want    cost.Breakdown
	}{
		{"idle", ledger.Load{}, cost.Pending{}, 0, cost.Held{}, plain, even, cost.Breakdown{PrefillSeconds: 10, DecodeSeconds: 20}},
		{"overlap", ledger.Load{}, cost.Pending{}, 60, cost.Held{}, plain, even, cost.Breakdown{PrefillSeconds: 4, DecodeSeconds: 20}},
		{
			"a full hit computes one token",
			ledger.Load{},
			cost.Pending{},
			100,
			cost.Held{},
			plain, even,
			cost.Breakdown{PrefillSeconds: 0.1, DecodeSeconds: 20},
		},
		{
			// wait 50*0.1; step 1+0.01*170; one resident: stalled 10 s, and 4 of its steps slower by 100*0.01.
			"queued prefill", queued,
			cost.Pending{},
			0,
			cost.Held{},
			plain, even,
			cost.Breakdown{WaitSeconds: 5, PrefillSeconds: 10, DecodeSeconds: 27, StallSeconds: 10, SlowerSeconds: 4},
		},
		{
			"queued prefill, under way for 3 s", since(&soon),
			cost.Pending{},
			0,
			cost.Held{},
			plain, even,
			cost.Breakdown{WaitSeconds: 2, PrefillSeconds: 10, DecodeSeconds: 27, StallSeconds: 10, SlowerSeconds: 4},
		},
		{
			"queued prefill, late: a tenth is left", since(&late),
			cost.Pending{},
			0,
			cost.Held{},
			plain, even,
			cost.Breakdown{WaitSeconds: 0.5, PrefillSeconds: 10, DecodeSeconds: 27, StallSeconds: 10, SlowerSeconds: 4},
		},
		{
			// step 1+0.01*400; two residents: 10 s each, and min(10, 20) steps slower by 1 s.
			"decoding", decoding,
			cost.Pending{},
			0,
			cost.Held{},
			plain, even,
			cost.Breakdown{PrefillSeconds: 10, DecodeSeconds: 50, StallSeconds: 20, SlowerSeconds: 20},
		},
		{
			// Seven run and sixteen wait there, of others, at eight seats: step 1+0.01*16*10, and 2*256 steps until all have got in.
			"others are there", foreign,
			cost.Pending{},
			0,
			cost.Held{},
			plain, even,
			cost.Breakdown{WaitSeconds: 512 * 2.6, PrefillSeconds: 10, DecodeSeconds: 36, StallSeconds: 70, SlowerSeconds: 70},
		},
		{
			"sent there a moment ago",
			ledger.Load{},
			cost.Pending{Requests: 1, PromptTokens: 70, PrefillTokens: 50, OutputTokens: 4},
			0,
			cost.Held{},
			plain, even,
			cost.Breakdown{WaitSeconds: 5, PrefillSeconds: 10, DecodeSeconds: 27, StallSeconds: 10, SlowerSeconds: 4},
		},
		{
			"one waits for it", decoding,
			cost.Pending{},
			0,
			cost.Held{Requests: 1, PrefillSeconds: 7},
			plain, even,
			cost.Breakdown{HeldSeconds: 7, PrefillSeconds: 10, DecodeSeconds: 50, StallSeconds: 30, SlowerSeconds: 30},
		},
		{
			"decode is worth three times waiting, new blocks half their prefill", decoding,
			cost.Pending{},
			60,
			cost.Held{},
			cost.Prices{Decode: 3, NewBlocks: 0.5, Others: 1},
			even,
			cost.Breakdown{PrefillSeconds: 4, DecodeSeconds: 150, StallSeconds: 8, SlowerSeconds: 60, NewBlocksSeconds: 2},
		},
		{
			"it has waited as long as anybody would: others count half", decoding,
			cost.Pending{},
			60,
			cost.Held{},
			cost.Prices{Decode: 3, NewBlocks: 0.5, Others: 0.5},
			even,
			cost.Breakdown{PrefillSeconds: 4, DecodeSeconds: 75, StallSeconds: 4, SlowerSeconds: 30, NewBlocksSeconds: 1},
		},
		{
			// 40 uncached tokens are 2 s on a usual replica, and delay three in the router for each of eight: whoever has waited.
			"what waits in the router is delayed by the work", decoding,
			cost.Pending{},
			60,
			cost.Held{},
			cost.Prices{Decode: 1, Queue: 3.0 / 8, Fleet: cost.Rates{PrefillSecondsPerToken: 0.05}},
			even,
			cost.Breakdown{PrefillSeconds: 4, QueueSeconds: 0.75},
		},
		{
			"leaning to reuse and to a short time to first token", queued,
			cost.Pending{},
			60,
			cost.Held{PrefillSeconds: 1},
			cost.Prices{Decode: 1, NewBlocks: 1, Others: 1},
			cost.Weights{Reuse: 4, TTFT: 2},
			cost.Breakdown{
				WaitSeconds: 10, HeldSeconds: 2, PrefillSeconds: 8, DecodeSeconds: 27, StallSeconds: 4, SlowerSeconds: 4,
				NewBlocksSeconds: 16,
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := cost.ReplicaAt(start, &tc.load, tc.pending, tenPerSecond)
			got := r.Cost(&d, tc.hit, tc.held, &tc.prices, &tc.weights)
			want, have := tc.want.Parts(), got.Parts()
			for i, name := range cost.PartNames() {
				require.InDelta(t, want[i], have[i], 1e-9, name)
			}
			require.InDelta(t, tc.want.TotalSeconds(), got.TotalSeconds(), 1e-9)
		})
	}
}

// TestEachSequenceAndEachPassTakesItsTime: a second more of each step for each sequence, and two for each pass. The step is
// 1+2+0.01*300 s for the two there, and 1+0.01*100 s longer with it.
func TestEachSequenceAndEachPassTakesItsTime(t *testing.T) {
	rates := tenPerSecond
	rates.StepSecondsPerSequence, rates.PassSeconds = 1, 2
	ld := ledger.Load{Running: 2, DecodeKVTokens: 300, RemainingOutputTokens: 40}
	r := cost.ReplicaAt(start, &ld, cost.Pending{}, rates)
	weights, prices := cost.DefaultWeights(), plain
	d := cost.Demand{PromptTokens: 100, OutputTokens: 10}
	got := r.Cost(&d, 0, cost.Held{}, &prices, &weights)
	require.Equal(t, cost.Breakdown{PrefillSeconds: 12, DecodeSeconds: 80, StallSeconds: 24, SlowerSeconds: 40}, got)
	require.InDelta(t, 18, r.FirstSeconds(&d, 0), 1e-9, "prefill, pass, and the step of those there")
	held := r.Cost(&d, 0, cost.Held{Requests: 1}, &prices, &weights)
	require.InDelta(t, got.DecodeSeconds+10, held.DecodeSeconds, 1e-9, "who waits for it will be in the batch")
}

// TestMemoryByHand: two residents with 20 tokens to come each, at steps of 1+0.01*300 = 4 s, hold 400 tokens. Who is 50 short
// waits for an eighth of twice what they still need.
func TestMemoryByHand(t *testing.T) {
	r := cost.ReplicaAt(start, &ledger.Load{Running: 2, DecodeKVTokens: 300, RemainingOutputTokens: 40}, cost.Pending{}, tenPerSecond)
	require.InDelta(t, 20, r.MemorySeconds(50, 400, &plain), 1e-9)
	require.InDelta(t, 60, r.MemorySeconds(50, 400, &cost.Prices{Decode: 3}), 1e-9)
	require.InDelta(t, 20, r.MemorySeconds(50, 400, &cost.Prices{Decode: 0.5}), 1e-9)
	require.Zero(t, r.MemorySeconds(0, 400, &plain))
	idle := cost.Replica{Rates: tenPerSecond}
	require.Zero(t, idle.MemorySeconds(50, 400, &plain), "nobody is there who could give anything back")
}

// TestCostIsSane: whatever the load, no part is negative or not a number, overlap never makes a replica dearer, and
// more work there never makes it cheaper.
func TestCostIsSane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }
		d := cost.Demand{
			PromptTokens: scoring.Tokens(count("prompt", 200_000)), OutputTokens: scoring.Tokens(count("output", 10_000)),
		}
		began := start.Add(time.Duration(count("elapsed", 100_000)-50_000) * time.Millisecond)
		ld := ledger.Load{
			Reserved: count("reserved", 9), Running: count("running", 300),
			QueuedPrefillTokens: scoring.Tokens(count("queued", 1_000_000)), QueuedPrefillTokens2: float64(count("queued2", 1e9)),
			OldestPrefill: &began, OldestPrefillTokens: scoring.Tokens(count("oldest", 100_000)),
			DecodeKVTokens:        scoring.Tokens(count("kv", 1_000_000)),
			RemainingOutputTokens: scoring.Tokens(count("remaining", 100_000)),
		}
		p := cost.Pending{Requests: count("pending", 5), PromptTokens: scoring.Tokens(count("pending tokens", 100_000))}
		p.PrefillTokens = scoring.Tokens(count("pending prefill", int(p.PromptTokens)))
		prices := cost.Prices{Decode: float64(count("decode", 600)) / 100, NewBlocks: float64(count("new", 6)), Queue: float64(count("queue", 50)) / 10, Fleet: cost.DefaultRates(), Others: float64(count("others", 100)) / 100}
		held := cost.Held{Requests: float64(count("held", 9)), PrefillSeconds: float64(count("held seconds", 100))}
		weights := cost.DefaultWeights()
		hit := scoring.Tokens(count("hit", 250_000))
		weights.Reuse, weights.TTFT = float64(count("reuse", 300))/100, float64(1+count("ttft", 300))/100
		of := func(ld ledger.Load, hit scoring.Tokens) cost.Breakdown {
			r := cost.ReplicaAt(start, &ld, p, cost.DefaultRates())
			b := r.Cost(&d, hit, held, &prices, &weights)
			b.MemorySeconds = r.MemorySeconds(float64(count("missing", 1000)), float64(count("held tokens", 100_000)), &prices)
			return b
		}
		got := of(ld, hit)
		for _, part := range got.Parts() {
			require.False(t, math.IsNaN(part) || math.IsInf(part, 0) || part < 0, "%+v", got)
		}
		got.MemorySeconds = 0
		r := cost.ReplicaAt(start, &ld, p, cost.DefaultRates())
		quote, offer := cost.NewQuote(&d, &prices, &weights), r.Offer(&held, &weights)
		require.InDelta(t, got.TotalSeconds(), quote.TotalSeconds(&offer, quote.Part(hit)), 1e-9*(1+got.TotalSeconds()), "the fast sum is the sum")
		none := of(ld, 0)
		none.MemorySeconds = 0
		require.LessOrEqual(t, got.TotalSeconds(), none.TotalSeconds()+1e-9)
		busier := ld
		busier.QueuedPrefillTokens += 1000
		busier.DecodeKVTokens += 1000
		more := of(busier, hit)
		more.MemorySeconds = 0
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
		truth.StepSecondsPerSequence = 0.0002 * slower
		for range 1000 {
			noise := 0.9 + 0.2*rng.Float64()
			tokens, hit := scoring.Tokens(100+rng.IntN(20_000)), scoring.Tokens(rng.IntN(20_000))
			l.FirstToken(start, "a", tokens, hit, seconds(noise*truth.PrefillSeconds(tokens, hit)))
			kv := scoring.Tokens(rng.IntN(400_000))
			sequences := 1 + rng.IntN(100)
			l.Step(start, "a", sequences, kv, seconds(noise*truth.StepSecondsAt(sequences, kv)))
		}
		got := l.Rates("a")
		require.InEpsilon(t, truth.PrefillSecondsPerToken, got.PrefillSecondsPerToken, 0.1, "%v times slower", slower)
		require.InEpsilon(t, truth.PrefillSecondsPerToken2, got.PrefillSecondsPerToken2, 0.1)
		require.InEpsilon(t, truth.StepSecondsAt(1, 200_000), got.StepSecondsAt(1, 200_000), 0.05)
		require.InEpsilon(t, truth.StepSecondsPerKVToken, got.StepSecondsPerKVToken, 0.15)
		require.InEpsilon(t, truth.StepSecondsPerSequence, got.StepSecondsPerSequence, 0.15)
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
	l.FirstToken(start, "a", tokens, 0, seconds(10*predicted))
	// Ten times the prediction, less the pass that any first token takes: what the only one has shown is nearly all that is known of
	// the fleet.
	measured := 10*predicted - cost.DefaultRates().StepSeconds
	for _, id := range []scoring.ReplicaID{"a", "b"} {
		r := l.Rates(id)
		require.InEpsilon(t, measured, r.PassSeconds+r.PrefillSeconds(tokens, 0), 0.02)
		require.Less(t, r.PassSeconds, r.PrefillSeconds(tokens, 0), "a single length says nothing of what is not its tokens'")
	}
	l.Step(start, "a", 1, 0, 20*time.Millisecond)
	require.InEpsilon(t, l.Rates("a").StepSeconds, l.Rates("b").StepSeconds, 0.1, "the only one seen is the fleet")
}

// TestAFirstPassThatWasColdIsForgotten: the first prompt of a real engine took eight times as long as those after it. With two more it
// is known for an exception, and one that is slow for what it is.
func TestAFirstPassThatWasColdIsForgotten(t *testing.T) {
	l := cost.NewLearner(cost.DefaultConfig())
	show := func(id scoring.ReplicaID, times int, took time.Duration) {
		for range times {
			l.FirstToken(start, id, 130, 0, took)
		}
	}
	first := func(id scoring.ReplicaID) float64 {
		r := l.Rates(id)
		return r.PassSeconds + r.PrefillSeconds(130, 0) + r.StepSeconds
	}
	show("b", 20, 14*time.Millisecond)
	show("a", 1, 110*time.Millisecond)
	require.False(t, l.KnowsPrefill("a", 1, 0))
	show("a", 2, 14*time.Millisecond)
	require.True(t, l.KnowsPrefill("a", 1, 0))
	require.InEpsilon(t, first("b"), first("a"), 0.05)
	show("slow", 10, 42*time.Millisecond)
	require.Greater(t, first("slow"), 2*first("b"))
}

// TestManyPromptsAtOnceShareAPass: two alone and four in one pass take what they do on a real engine, 14 ms and 32 ms: a pass takes 8
// ms whatever is in it. Many at once that were taken to follow each other made neighbours dear, and short prompts alone made long
// ones.
func TestManyPromptsAtOnceShareAPass(t *testing.T) {
	l := cost.NewLearner(cost.DefaultConfig())
	step := cost.DefaultRates().StepSeconds
	for range 40 {
		l.FirstToken(start, "a", 130, 0, seconds(step+0.014))
		l.FirstToken(start, "a", 130, 0, seconds(step+0.032))
		for range 3 {
			l.FirstToken(start, "a", 130, 0, 0)
		}
	}
	r := l.Rates("a")
	require.InEpsilon(t, 0.008, r.PassSeconds, 0.25)
	require.InEpsilon(t, 0.006, r.PrefillSeconds(130, 0), 0.15)
	require.InEpsilon(t, 0.014, r.PassSeconds+r.PrefillSeconds(130, 0), 0.05)
	require.InEpsilon(t, 0.032, r.PassSeconds+4*r.PrefillSeconds(130, 0), 0.05)
}

// TestLearnerSurvivesNonsense: no observation turns a rate negative, infinite or into no number.
func TestLearnerSurvivesNonsense(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := cost.NewLearner(cost.DefaultConfig())
		count := rapid.IntRange(-10, 1_000_000)
		took := rapid.Int64Range(-1e9, 1e12)
		t.Repeat(map[string]func(*rapid.T){
			"first token": func(t *rapid.T) {
				l.FirstToken(start, "a", scoring.Tokens(count.Draw(t, "tokens")), scoring.Tokens(count.Draw(t, "hit")),
					time.Duration(took.Draw(t, "took")))
			},
			"step": func(t *rapid.T) {
				l.Step(start, "a", count.Draw(t, "sequences"), scoring.Tokens(count.Draw(t, "kv")), time.Duration(took.Draw(t, "gap")))
			},
			"output": func(t *rapid.T) {
				l.Output(scoring.Tokens(count.Draw(t, "prompt")), scoring.Tokens(count.Draw(t, "produced")), scoring.Tokens(count.Draw(t, "limit")))
			},
			"": func(t *rapid.T) {
				r := l.Rates("a")
				require.Positive(t, r.PrefillSecondsPerToken)
				require.Positive(t, r.PrefillSecondsPerToken2)
				for _, v := range []float64{r.PassSeconds, r.StepSeconds, r.StepSecondsPerKVToken, r.StepSecondsPerSequence, r.StepSecondsAt(1, 100_000)} {
					require.False(t, math.IsNaN(v) || math.IsInf(v, 0) || v < 0, "%+v", r)
				}
				require.Positive(t, r.StepSecondsAt(1, 1))
				f := l.Answer(300, 100)
				require.True(t, f.MeanTokens > 0 && f.MeanTokens <= 100 && f.MostTokens > 0 && f.MostTokens <= 100, "%+v", f)
				require.True(t, f.Variance >= 0 && f.Variance <= 2500, "%+v", f)
				rates, busy := l.At(start, "a")
				require.Equal(t, r, rates)
				require.True(t, busy >= 0 && busy < 1)
			},
		})
	})
}

// TestPredictedOutput: min(max_tokens, p90 of the last answers); 512 before any.
func TestPredictedOutput(t *testing.T) {
	l := cost.NewLearner(cost.DefaultConfig())
	most := func(limit scoring.Tokens) scoring.Tokens { return l.Answer(300, limit).MostTokens }
	require.EqualValues(t, 512, most(4096))
	require.EqualValues(t, 100, most(100))
	for n := range scoring.Tokens(100) {
		l.Output(0, n+1, 0)
	}
	require.EqualValues(t, 90, most(4096))
	require.EqualValues(t, 16, most(16))
	f := l.Answer(300, 4096)
	require.EqualValues(t, 51, f.MeanTokens, "50.5 rounded up")
	require.InDelta(t, (100*100-1)/12.0, f.Variance, 1e-6, "of 1 to 100")
	for range 512 {
		l.Output(0, 7, 0)
	}
	require.Equal(t, cost.Forecast{MeanTokens: 7, MostTokens: 7}, l.Answer(300, 4096), "only the last 512 answers count")
}

// TestPredictedByPrompt: from twenty answers to prompts about as long on, their lengths count and no others.
func TestPredictedByPrompt(t *testing.T) {
	l := cost.NewLearner(cost.DefaultConfig())
	for range 200 {
		l.Output(1000, 100, 0)
	}
	for range 19 {
		l.Output(100_000, 10, 0)
	}
	require.Greater(t, l.Answer(70_000, 4096).MeanTokens, scoring.Tokens(80), "too few to tell")
	l.Output(131_000, 10, 0)
	require.Equal(t, cost.Forecast{MeanTokens: 10, MostTokens: 10}, l.Answer(65_536, 4096))
	require.Equal(t, cost.Forecast{MeanTokens: 100, MostTokens: 100}, l.Answer(512, 4096))
	require.Equal(t, cost.Forecast{MeanTokens: 50, MostTokens: 50}, l.Answer(512, 50))
}

// TestPredictedShareOfTheLimit: answers that go to their limits are predicted to do so, though only short ones have finished;
// those that end by themselves under a high limit do not make others long, and the other way round.
func TestPredictedShareOfTheLimit(t *testing.T) {
	l := cost.NewLearner(cost.DefaultConfig())
	most := func(limit scoring.Tokens) scoring.Tokens { return l.Answer(300, limit).MostTokens }
	for i := range scoring.Tokens(8) {
		require.Less(t, most(1000), scoring.Tokens(528), "too few to tell")
		l.Output(300, 520+i, 520+i)
	}
	require.Equal(t, cost.Forecast{MeanTokens: 1000, MostTokens: 1000}, l.Answer(300, 1000), "they took all of it")
	require.EqualValues(t, 600, most(600))
	for range 100 {
		l.Output(300, 200, 4096)
	}
	require.EqualValues(t, 201, most(4096), "49 thousandths")
	require.EqualValues(t, 1000, most(1000))
	require.Zero(t, most(0))
	require.EqualValues(t, 1, most(1))
}

// TestForecastOfKnownLengths: drawn from a distribution, lengths are forecast with its mean, quantile and variance.
func TestForecastOfKnownLengths(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, tc := range []struct {
		name                 string
		draw                 func() float64
		mean, most, variance float64
	}{
		{"uniform 1 to 1000", func() float64 { return 1 + 999*rng.Float64() }, 500, 900, 1000 * 1000 / 12.0},
		{"memoryless of mean 300", func() float64 { return 1 + 300*rng.ExpFloat64() }, 300, 300 * math.Log(10), 300 * 300},
		{"constant", func() float64 { return 200 }, 200, 200, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := cost.NewLearner(cost.DefaultConfig())
			for range 512 {
				l.Output(1000, scoring.Tokens(tc.draw()), 0)
			}
			f := l.Answer(1000, 100_000)
			require.InDelta(t, tc.mean, float64(f.MeanTokens), 0.1*tc.mean)
			require.InDelta(t, tc.most, float64(f.MostTokens), 0.15*tc.most)
			require.InDelta(t, tc.variance, f.Variance, 0.3*tc.variance)
		})
	}
}

// TestBusy: seconds of prefill of the last half minute, forgotten by e in 30 s.
func TestBusy(t *testing.T) {
	l := cost.NewLearner(cost.DefaultConfig())
	share := func(after time.Duration, id scoring.ReplicaID) float64 {
		_, busy := l.At(start.Add(after), id)
		return busy
	}
	require.Zero(t, share(0, "a"))
	step := cost.DefaultRates().StepSeconds
	l.FirstToken(start, "a", 60_000, 0, seconds(3+step))
	require.InEpsilon(t, 0.1, share(0, "a"), 1e-6)
	require.InEpsilon(t, 0.1/math.E, share(30*time.Second, "a"), 1e-6)
	require.Zero(t, share(0, "b"))
	for i := range 300 {
		l.FirstToken(start.Add(time.Duration(i)*time.Second), "a", 20_000, 0, time.Second+seconds(step))
	}
	busy := share(299*time.Second, "a")
	require.Greater(t, busy, 0.95, "it does nothing else")
	require.Less(t, busy, 1.0)
	l.FirstToken(start.Add(299*time.Second), "a", 20_000, 0, time.Minute)
	require.Less(t, share(299*time.Second, "a"), 1.0)
}

// TestASlowReplicaIsNotSlowForEver: what a replica has shown weighs all for five minutes without anything new, then less and less, until it
// counts as its fellows do. What it shows then outweighs what it showed before; how long a prefill may take stays known.
func TestASlowReplicaIsNotSlowForEver(t *testing.T) {
	prior := cost.DefaultRates()
	l := cost.NewLearner(cost.DefaultConfig())
	show := func(now time.Time, id scoring.ReplicaID, slower float64) {
		l.FirstToken(now, id, 2000, 0, seconds(slower*prior.StepSeconds+slower*prior.PrefillSeconds(2000, 0)))
		l.Step(now, id, 1, 1000, seconds(slower*prior.StepSecondsAt(1, 1000)))
	}
	for range 200 {
		show(start, "slow", 3)
	}
	for range 200 { // the fleet's are those that were seen last
		show(start, "fast", 1)
	}
	prefill := func(after time.Duration) float64 {
		r, _ := l.At(start.Add(after), "slow")
		return r.PrefillSeconds(2000, 0) / prior.PrefillSeconds(2000, 0)
	}
	step := func(after time.Duration) float64 {
		r, _ := l.At(start.Add(after), "slow")
		return r.StepSecondsAt(1, 1000) / prior.StepSecondsAt(1, 1000)
	}
	fleet, _ := l.At(start, "none")
	usualStep := fleet.StepSecondsAt(1, 1000) / prior.StepSecondsAt(1, 1000)
	known, usual := prefill(0), fleet.PrefillSeconds(2000, 0)/prior.PrefillSeconds(2000, 0)
	require.Greater(t, known, 2.9)
	require.Less(t, usual, 1.1)
	require.Equal(t, known, prefill(5*time.Minute)) //nolint:testifylint // the same to the last bit
	at := step(0)
	require.Equal(t, at, step(5*time.Minute)) //nolint:testifylint // likewise
	require.Greater(t, at, 1.5*usualStep)
	for after := 6 * time.Minute; after <= 15*time.Minute; after += time.Minute {
		require.Less(t, prefill(after), known)
		require.Less(t, step(after), at)
		known, at = prefill(after), step(after)
	}
	for _, after := range []time.Duration{20 * time.Minute, 24 * time.Hour, 1 << 62} {
		require.InEpsilon(t, usual, prefill(after), 0.02)
		require.InEpsilon(t, usualStep, step(after), 0.03)
	}
	require.True(t, l.KnowsPrefill("slow", 2000, 0))
	for range 3 {
		show(start.Add(20*time.Minute), "slow", 1)
	}
	require.Less(t, prefill(20*time.Minute), 1.1)
	require.Less(t, step(20*time.Minute), 1.05*usualStep)
}

// TestTrueRatesUnderNoiseAndOutliers: whatever the device, one observation in twelve being up to a hundred times too long does
// not hide its rates, nor one prefill in twenty that took a tenth, since the cache had what nobody knew of: prefill and steps are found
// within 30 %. Prompts that share a pass show all of its time at the first. Each twelve have their outlier somewhere: were they drawn
// one by one, some run of them would be long enough now and then to be taken for a change of speed.
func TestTrueRatesUnderNoiseAndOutliers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 9))
		slower := math.Exp(rapid.Float64Range(math.Log(0.2), math.Log(100)).Draw(t, "slower"))
		steeper := rapid.Float64Range(0.3, 3).Draw(t, "steeper")
		truth := cost.DefaultRates()
		truth.PrefillSecondsPerToken *= slower
		truth.PrefillSecondsPerToken2 *= slower
		truth.StepSeconds *= slower
		truth.StepSecondsPerKVToken *= slower * steeper
		noise := func() func() float64 {
			left, odd := 0, 0
			return func() float64 {
				if left == 0 {
					left, odd = 12, rng.IntN(12)
				}
				if left--; left == odd {
					return 1 + 99*rng.Float64()
				}
				return 0.8 + 0.4*rng.Float64()
			}
		}
		prefillNoise, stepNoise := noise(), noise()
		l := cost.NewLearner(cost.DefaultConfig())
		for range 600 {
			tokens, hit := scoring.Tokens(200+rng.IntN(20_000)), scoring.Tokens(rng.IntN(20_000))
			took := truth.PrefillSeconds(tokens, hit)
			if rng.IntN(20) == 0 {
				took /= 10
			}
			if rng.IntN(4) == 0 { // two in one pass
				l.FirstToken(start, "a", tokens, hit, seconds(truth.StepSeconds+prefillNoise()*2*took))
				l.FirstToken(start, "a", tokens, hit, 0)
			} else {
				l.FirstToken(start, "a", tokens, hit, seconds(truth.StepSeconds+prefillNoise()*took))
			}
			for range 3 {
				kv := scoring.Tokens(rng.IntN(400_000))
				l.Step(start, "a", 1, kv, seconds(stepNoise()*truth.StepSecondsAt(1, kv)))
			}
		}
		got := l.Rates("a")
		require.InEpsilon(t, truth.PrefillSeconds(10_000, 5000), got.PrefillSeconds(10_000, 5000), 0.3)
		for _, kv := range []scoring.Tokens{100_000, 200_000, 350_000} {
			require.InEpsilon(t, truth.StepSecondsAt(1, kv), got.StepSecondsAt(1, kv), 0.3, "at %d", kv)
		}
	})
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// TestSpeedIsFollowed: a replica that has become so many times as fast or slow is known for it within four times as many first
// tokens as it had shown, and within three quarters of those that are kept.
func TestSpeedIsFollowed(t *testing.T) {
	truth := cost.DefaultRates()
	for _, factor := range []float64{0.1, 0.25, 4, 10} {
		for _, tc := range []struct{ before, after int }{{5, 20}, {64, 48}, {500, 48}} {
			rng := rand.New(rand.NewPCG(3, 4))
			l := cost.NewLearner(cost.DefaultConfig())
			see := func(n int, factor float64) {
				for range n {
					tokens, hit := scoring.Tokens(2000+rng.IntN(10_000)), scoring.Tokens(rng.IntN(10_000))
					noise := 0.8 + 0.4*rng.Float64()
					l.FirstToken(start, "a", tokens, hit, seconds(truth.StepSeconds+noise*factor*truth.PrefillSeconds(tokens, hit)))
				}
			}
			see(tc.before, 1)
			see(tc.after, factor)
			require.InEpsilon(t, factor*truth.PrefillSeconds(10_000, 0), l.Rates("a").PrefillSeconds(10_000, 0), 0.3, "%d, then %g times %d", tc.before, factor, tc.after)
		}
	}
}

// TestSlowFleetIsLearnedFast is a fleet a hundred times slower than the prior: a replica not seen yet must not look like
// the prior's device beside one that is known, and a few first tokens must tell what a prefill costs there.
func TestSlowFleetIsLearnedFast(t *testing.T) {
	l := cost.NewLearner(cost.DefaultConfig())
	for range 3 {
		l.FirstToken(start, "seen", 92, 0, 450*time.Millisecond)
		for range 16 {
			l.Step(start, "seen", 1, 150, 55*time.Millisecond)
		}
	}
	seen, unseen := l.Rates("seen"), l.Rates("unseen")
	require.InEpsilon(t, seen.StepSecondsAt(1, 150), unseen.StepSecondsAt(1, 150), 0.01)
	require.InDelta(t, 0.055, unseen.StepSecondsAt(1, 150), 0.01)
	prefill := unseen.PrefillSeconds(92, 0)
	require.Greater(t, prefill, 0.2)
	require.Less(t, prefill, 0.6)
	require.InEpsilon(t, prefill, seen.PrefillSeconds(92, 0), 0.5)
}

// TestShortPromptsTellLittle is a replica that has seen only cached follow-ups, whose first token takes a pass: it must not
// count as slow at prefill beside one that has shown a long one.
func TestShortPromptsTellLittle(t *testing.T) {
	l := cost.NewLearner(cost.DefaultConfig())
	l.FirstToken(start, "long", 20_000, 0, 1300*time.Millisecond)
	for range 20 {
		l.FirstToken(start, "short", 10, 20_000, 14*time.Millisecond)
	}
	require.InEpsilon(t, l.Rates("long").PrefillSeconds(20_000, 0), l.Rates("short").PrefillSeconds(20_000, 0), 0.5)
}

// TestEqualReplicasAreNotToldApartByTheirMoments: two engines that are equal, on a machine that is now as busy and now half as much
// again, are seen at different moments. What is expected of them differs by a tenth at most, not by a quarter; of one that is half as
// slow again it is known.
func TestEqualReplicasAreNotToldApartByTheirMoments(t *testing.T) {
	apart := func(seed uint64, slower float64) float64 {
		rng := rand.New(rand.NewPCG(seed, 3))
		l := cost.NewLearner(cost.DefaultConfig())
		for range 12 { // moments, in each of which one of them has a batch
			for id, slower := range map[scoring.ReplicaID]float64{"a": 1, "b": slower} {
				moment := slower * (1 + 0.5*rng.Float64())
				for range 8 {
					l.FirstToken(start, id, 130, 0, seconds(moment*0.015))
					l.Step(start, id, 5, 800, seconds(moment*0.005))
				}
			}
		}
		a, b := l.Rates("a"), l.Rates("b")
		return b.StepSecondsAt(5, 800) / a.StepSecondsAt(5, 800)
	}
	worst, slow := 0.0, 0.0
	const runs = 40
	for seed := range uint64(runs) {
		worst = max(worst, math.Abs(math.Log(apart(seed, 1))))
		slow += apart(seed, 1.5) / runs
	}
	t.Logf("equal ones: %.3f apart at most; half as slow again: %.2f times", worst, slow)
	require.Less(t, worst, 0.12)
	require.InDelta(t, 1.5, slow, 0.2)
}

// TestTheLongestPrefillIsForgotten: what the fleet's speed weighs beside a replica's own goes by the longest prefill that was shown, but
// not for ever. One prompt of a day ago must not keep a replica that is slow from being known for it.
func TestTheLongestPrefillIsForgotten(t *testing.T) {
	prior := cost.DefaultRates()
	took := func(tokens scoring.Tokens, slower float64) time.Duration {
		return seconds(prior.StepSeconds + slower*prior.PrefillSeconds(tokens, 0))
	}
	known := func(since int) float64 {
		l := cost.NewLearner(cost.DefaultConfig())
		l.FirstToken(start, "a", 100_000, 0, took(100_000, 1))
		for range since {
			l.FirstToken(start, "a", 500, 0, took(500, 1))
		}
		for range 40 {
			l.FirstToken(start, "b", 500, 0, took(500, 3))
		}
		return l.Rates("b").PrefillSeconds(10_000, 0) / prior.PrefillSeconds(10_000, 0)
	}
	require.Less(t, known(0), 2.0, "it was shown a moment ago")
	require.Greater(t, known(7000), 2.5)
}
