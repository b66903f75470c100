package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring"
	"plimsoll/scoring/cost"
	"plimsoll/scoring/policy"
	"plimsoll/scoring/queue"
)

// plainRates make sums that can be done by hand: a millisecond a prompt token, 10 ms a step.
func plainRates(c *candidate) {
	c.Rates = cost.Rates{PrefillSecondsPerToken: 0.001, StepSeconds: 0.01}
}

// answer is a demand of 1000 prompt tokens, of which the answer takes 100.
func answer() *policy.Demand {
	d := usual()
	d.PromptTokens, d.MinSequenceTokens, d.OutputTokens, d.LeastPrefillSeconds = 1000, 1001, 100, 1
	return d
}

func quick(id string, change func(*candidate)) candidate {
	return roomy(id, both(plainRates, func(c *candidate) { c.NeedBlocks = 111 }, change))
}

// parts are the terms of a candidate by name.
func parts(t *testing.T, table policy.Table, i int) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for j, name := range table.Terms {
		out[name] = table.Rows[i].Values[j]
	}
	return out
}

// TestTokenLoadByHand: the terms of three replicas, worked out. Nobody prefills, so that decode is priced at its least, 0.5.
func TestTokenLoadByHand(t *testing.T) {
	p := rival(t, "token-load")
	decoding := quick("2", func(c *candidate) {
		c.Load.Running, c.Load.DecodeKVTokens, c.Load.RemainingOutputTokens = 4, 2000, 200
		c.Rates.StepSecondsPerKVToken = 1e-6
		c.OverlapTokens = 600
	})
	table := explained(p, answer(), []candidate{quick("1", func(*candidate) {}), decoding})
	first, second := parts(t, table, 0), parts(t, table, 1)
	require.InDelta(t, 1, first["prefill"], 1e-9)
	require.InDelta(t, 0.5*100*0.01, first["decode"], 1e-9)
	require.InDelta(t, 1.5, first["total"], 1e-9)
	require.InDelta(t, 0.4, second["prefill"], 1e-9, "400 tokens to compute")
	require.InDelta(t, 0.5*100*(0.01+1e-6*3000), second["decode"], 1e-9)
	require.InDelta(t, 4*0.4, second["stall"], 1e-9, "four answers stand still")
	require.InDelta(t, 0.5*4*1e-6*1000*50, second["slower"], 1e-9, "for the 50 tokens that each of them has left")
	require.Equal(t, 0, table.Decision.Index)
}

// TestDecodeIsPricedByLoad: at a mean busy share of 0.8 a second of decode counts four, and never more than six.
func TestDecodeIsPricedByLoad(t *testing.T) {
	for _, tc := range []struct{ busy, price float64 }{{0, 0.5}, {0.5, 1}, {0.8, 4}, {0.95, 6}} {
		table := explained(rival(t, "token-load"), answer(), []candidate{
			quick("1", func(c *candidate) { c.Busy = tc.busy }),
			quick("2", func(c *candidate) { c.Busy = tc.busy }),
			quick("3", func(c *candidate) { c.State = policy.Down }), // counts for nothing
		})
		require.InDelta(t, tc.price*100*0.01, parts(t, table, 0)["decode"], 1e-9, "at %v", tc.busy)
	}
}

// TestHitsPriceNewBlocks: after requests of which three quarters were cached the odds are 3, and new blocks cost 1.5 times their
// prefill; six times at most.
func TestHitsPriceNewBlocks(t *testing.T) {
	for _, tc := range []struct {
		hit   scoring.Tokens
		price float64
	}{{0, 0}, {500, 0.5}, {750, 1.5}, {990, 6}} {
		p := rival(t, "token-load")
		_, fits := looked(p, start, []candidate{quick("1", cached(tc.hit))}, policy.Queue{})
		p.OnDispatch(answer(), fits, 0)
		table := explained(p, answer(), []candidate{quick("1", func(*candidate) {})})
		require.InDelta(t, tc.price, parts(t, table, 0)["new blocks"], 1e-6, "%d cached", tc.hit)
	}
}

// TestReliefFadesTheHarm: who has waited one and a half times as long as a first-come fleet would have made it wait counts the harm to others half, who
// has waited twice as long a seventeenth.
func TestReliefFadesTheHarm(t *testing.T) {
	d := answer()
	d.FCFSSeconds, d.LeastPrefillSeconds = 1.1, 1 // 1.5 * 1.1 + 0.1 * 1 + 0.25: two seconds
	for _, tc := range []struct{ waited, share float64 }{{0, 1}, {2, 0.5}, {4, 1.0 / 17}} {
		d.Arrival = start.Add(-time.Duration(tc.waited * float64(time.Second)))
		table := explained(rival(t, "token-load"), d, []candidate{quick("1", running(2))})
		require.InDelta(t, tc.share*2*1, parts(t, table, 0)["stall"], 1e-9, "%v s", tc.waited)
	}
}

// TestGate: a replica takes no prompt while its prefill queue is 0.15 s or longer. Who wants it waits for it, and is looked at
// again when the queue may have shrunk to that; a dearer one that would take it at once gets it only past the bound.
func TestGate(t *testing.T) {
	queue := func(tokens scoring.Tokens) candidate { return quick("1", both(queued(tokens), cached(900))) }
	slow := quick("2", func(c *candidate) { c.Rates.StepSeconds = 0.1 })
	p := rival(t, "token-load")
	require.Equal(t, policy.Decision{Verdict: policy.Dispatch}, decide(p, start, answer(), []candidate{queue(149), slow}))
	held := decide(p, start, answer(), []candidate{queue(350), slow})
	require.Equal(t, policy.Decision{Verdict: policy.Hold, Cause: policy.BetterBusy, Until: start.Add(200 * time.Millisecond)}, held)
	d := answer()
	d.Arrival = start.Add(-1399 * time.Millisecond) // four times 0.1 * 1 + 0.25 s less a moment
	require.Equal(t, policy.Hold, decide(p, start, d, []candidate{queue(350), slow}).Verdict)
	d.Arrival = start.Add(-1400 * time.Millisecond)
	require.Equal(t, policy.Decision{Verdict: policy.Dispatch}, decide(p, start, d, []candidate{queue(350), slow}), "the best that can take it")
	d = answer()
	d.Urgent = true
	require.Equal(t, policy.Dispatch, decide(p, start, d, []candidate{queue(350), slow}).Verdict, "an answer that broke off waits for nobody")
}

// TestWaitForRoom: a replica that is short of 11 of its 1000 blocks has it after an eighth and more of what its residents have to go;
// that is less than what it costs to compute the prompt elsewhere, and more when they have long to go.
func TestWaitForRoom(t *testing.T) {
	holder := func(left scoring.Tokens) candidate {
		return quick("1", both(cached(990), func(c *candidate) {
			c.Load.Limits.KVBlocks, c.Load.BookedBlocks = 1000, 900
			c.Load.Running, c.Load.RemainingOutputTokens = 10, 10*left
		}))
	}
	other := quick("2", func(*candidate) {})
	// 11 of 900 blocks, twice 40 tokens at 10 ms: 9.8 ms, and 10 residents stalled by 10 ms.
	held := decide(rival(t, "token-load"), start, answer(), []candidate{holder(40), other})
	require.Equal(t, policy.Hold, held.Verdict)
	require.Equal(t, policy.BetterFull, held.Cause)
	table := explained(rival(t, "token-load"), answer(), []candidate{holder(40), other})
	require.InDelta(t, 11.0/900*2*40*0.01, parts(t, table, 0)["memory"], 1e-9)
	// 11 of 900, twice 10,000 tokens: 2.4 s against a prefill of 1 s.
	require.Equal(t, 1, decide(rival(t, "token-load"), start, answer(), []candidate{holder(10_000), other}).Index)
}

// TestHeldCountsAsLoad: what waits for a replica in a pass stands before those behind it: its prefill, and itself as one more that
// would be stalled. The next pass begins anew.
func TestHeldCountsAsLoad(t *testing.T) {
	fleet := []candidate{
		quick("1", both(queued(200), func(c *candidate) { c.Load.Limits.KVBlocks = 1000 })),
		quick("2", func(c *candidate) { c.Rates.StepSeconds = 0.05 }),
	}
	p := rival(t, "token-load")
	pass, fits := looked(p, start, fleet, policy.Queue{})
	before := laid(p, pass, answer(), fits)
	require.Equal(t, policy.BetterBusy, p.Decide(answer(), fits).Cause)
	after := laid(p, pass, answer(), fits)
	require.InDelta(t, 1, parts(t, after, 0)["held"]-parts(t, before, 0)["held"], 1e-9)
	require.InDelta(t, 1, parts(t, after, 0)["stall"]-parts(t, before, 0)["stall"], 1e-9)
	require.Equal(t, policy.Decision{Verdict: policy.Dispatch, Index: 1}, p.Decide(answer(), fits), "the next one goes elsewhere")
	p.Begin(pass)
	require.Equal(t, policy.BetterBusy, p.Decide(answer(), fits).Cause)
}

// TestOneClassKeepsNothing: who waits for room lets those of its class pass who fit beside it.
func TestOneClassKeepsNothing(t *testing.T) {
	fleet := []candidate{quick("1", func(c *candidate) {
		c.Load.Limits.KVBlocks, c.Load.BookedBlocks = 1000, 900
		c.Load.Running, c.Load.RemainingOutputTokens = 5, 100
	})}
	p := rival(t, "token-load")
	pass, fits := looked(p, start, fleet, policy.Queue{})
	require.Equal(t, policy.NoRoom, p.Decide(answer(), fits).Cause, "it needs 111 of 100")
	pass.Keep(queue.Flex, answer(), &fits[0], 0)
	require.Empty(t, pass.Serve(queue.Flex))
	fits[0].NeedBlocks = 20
	require.Equal(t, policy.Dispatch, p.Decide(answer(), fits).Verdict)
}

// TestPrefillDelaysTheQueue: six wait for two replicas, so that each second of prefill makes three wait a second longer. What counts is
// the work that is brought to the fleet: the same on a fast and a slow replica, less where the prompt is cached.
func TestPrefillDelaysTheQueue(t *testing.T) {
	slow := quick("2", both(cached(400), func(c *candidate) { c.Rates.PrefillSecondsPerToken = 0.003 }))
	p := rival(t, "token-load")
	pass, fits := looked(p, start, []candidate{quick("1", func(*candidate) {}), slow}, policy.Queue{Requests: 6})
	table := laid(p, pass, answer(), fits)
	require.InDelta(t, 3*1000*0.002, parts(t, table, 0)["queue"], 1e-9)
	require.InDelta(t, 3*600*0.002, parts(t, table, 1)["queue"], 1e-9)
}

// TestIdle: what a router asks before it decides for all that wait.
func TestIdle(t *testing.T) {
	p := rival(t, "token-load")
	looked(p, start, []candidate{quick("1", queued(150)), quick("2", queued(400))}, policy.Queue{})
	wake, idle := p.Idle()
	require.True(t, idle)
	require.Equal(t, start.Add(10*time.Millisecond), wake)
	looked(p, start, []candidate{quick("1", queued(350)), quick("2", queued(149))}, policy.Queue{})
	_, idle = p.Idle()
	require.False(t, idle)
	looked(p, start, []candidate{full("1"), quick("2", func(c *candidate) { c.State = policy.Down })}, policy.Queue{})
	_, idle = p.Idle()
	require.False(t, idle, "there is room for a small one")
	looked(p, start, []candidate{with(full("1"), func(c *candidate) { c.Load.BookedBlocks = 1000 })}, policy.Queue{})
	_, idle = p.Idle()
	require.True(t, idle)
}

// TestWeightsLean: reuse draws to the cache, a short first token away from a queue.
func TestWeightsLean(t *testing.T) {
	of := func(reuse, ttft float64) int {
		cfg := named("token-load")
		cfg.Weights = cost.Weights{Reuse: reuse, TTFT: ttft}
		p, err := policy.New(cfg, nil)
		require.NoError(t, err)
		fleet := []candidate{quick("1", both(running(3), cached(500))), quick("2", func(*candidate) {})}
		_, fits := looked(p, start, fleet, policy.Queue{})
		p.OnDispatch(answer(), fits, 0)
		return decide(p, start, answer(), fleet).Index
	}
	// The first costs 0.5 s of prefill, 1.5 s of stall and a quarter for new blocks, the second 1 s and half a second.
	require.Equal(t, 1, of(1, 1))
	require.Equal(t, 0, of(4, 1))
	require.Equal(t, 0, of(1, 4))
	for _, w := range []cost.Weights{{Reuse: -1, TTFT: 1}, {Reuse: 1}} {
		cfg := policy.DefaultConfig()
		cfg.Weights = w
		require.Error(t, cfg.Validate())
	}
}
