package policy_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring"
	"plimsoll/scoring/policy"
)

// roomy is a replica of blocks of 10 tokens that can take anything.
func roomy(id string, change func(*candidate)) candidate {
	return with(idle(id), func(c *candidate) {
		c.Load.Limits = scoring.Limits{KVBlocks: 1_000_000, Seats: 1000, SequenceTokens: 1_000_000, BlockTokens: 10}
		change(c)
	})
}

func rival(t *testing.T, name string) policy.Policy {
	t.Helper()
	p, err := policy.New(named(name), rand.New(rand.NewPCG(1, 2)))
	require.NoError(t, err)
	return p
}

// hundred is a prompt of 100 tokens: ten blocks.
func hundred() *policy.Demand {
	d := usual()
	d.PromptTokens, d.MinSequenceTokens = 100, 101
	return d
}

// decisions are worked out by hand from what is published of a policy.
type decisions []struct {
	name  string
	fleet []candidate
	want  int
}

func (ds decisions) check(t *testing.T, policyName string) {
	t.Helper()
	for _, tc := range ds {
		t.Run(tc.name, func(t *testing.T) {
			got := decide(rival(t, policyName), start, hundred(), tc.fleet)
			require.Equal(t, policy.Decision{Verdict: policy.Dispatch, Index: tc.want}, got)
		})
	}
}

// running has so many sequences of 100 tokens decoding.
func running(n int) func(*candidate) {
	return func(c *candidate) {
		c.Load.Running, c.Load.SeatsBooked = n, n
		c.Load.DecodeKVTokens = scoring.Tokens(100 * n)
		c.Load.BookedBlocks = scoring.Blocks(20 * n)
	}
}

func both(changes ...func(*candidate)) func(*candidate) {
	return func(c *candidate) {
		for _, change := range changes {
			change(c)
		}
	}
}

// cached holds so many tokens of the prompt; those that run there pin them.
func cached(tokens scoring.Tokens) func(*candidate) {
	return func(c *candidate) { c.OverlapTokens, c.RideBlocks = tokens, scoring.Blocks(tokens/10) }
}

// queued has prompt tokens that wait for their prefill, of one request.
func queued(tokens scoring.Tokens) func(*candidate) {
	return func(c *candidate) {
		c.Load.Reserved, c.Load.QueuedPrefillTokens, c.Load.ReservedPromptTokens = 1, tokens, tokens
		c.Load.BookedBlocks += tokens.Blocks(10)
	}
}

// TestBlockCostByHand: Dynamo's documented example has workers with 8, 5 and 2 blocks to compute and 10, 5 and 9 to hold, at
// costs 18, 10 and 11: the second is taken.
func TestBlockCostByHand(t *testing.T) {
	// What a replica holds with this request: active ones, and the prompt's ten less those that are pinned there.
	holds := func(active scoring.Blocks, cachedBlocks scoring.Blocks) func(*candidate) {
		return func(c *candidate) {
			c.Load.Running = 1
			c.Load.BookedBlocks, c.Load.DecodeKVTokens = active, scoring.Tokens(active)*10
			c.OverlapTokens, c.RideBlocks = scoring.Tokens(cachedBlocks)*10, cachedBlocks
		}
	}
	decisions{
		{
			// to compute: 8, 5, 2; to hold: 2+8, 0+5, 7+2.
			"the documented example",
			[]candidate{roomy("1", holds(2, 2)), roomy("2", holds(0, 5)), roomy("3", holds(7, 8))},
			1,
		},
		{
			// 10+10 against 10+40: nobody has anything.
			"without overlap the fewest blocks",
			[]candidate{roomy("1", holds(30, 0)), roomy("2", holds(0, 0))},
			1,
		},
		{
			// 5+(10+10) to compute elsewhere? 20 tokens wait on the first: (20+50)/10 + 5 = 12 against 10+10 = 20.
			"prompts that wait count as to be computed",
			[]candidate{roomy("1", both(queued(20), cached(50))), roomy("2", holds(0, 0))},
			0,
		},
		{
			// (200+50)/10 + (20+5) = 50 against 20.
			"and outweigh the overlap",
			[]candidate{roomy("1", both(queued(200), cached(50))), roomy("2", holds(0, 0))},
			1,
		},
	}.check(t, "block-cost")

	p := rival(t, "block-cost")
	table := explained(p, hundred(), []candidate{roomy("1", holds(2, 2)), roomy("2", holds(0, 5)), roomy("3", holds(7, 8))})
	for i, want := range [][]float64{{8, 10, 18}, {5, 5, 10}, {2, 9, 11}} {
		require.InDeltaSlice(t, want, table.Rows[i].Values, 1e-9)
	}
}

// TestBlockCostWeighted: with an overlap weight of 3 the documented example costs 34, 20 and 15.
func TestBlockCostWeighted(t *testing.T) {
	cfg := named("block-cost")
	cfg.BlockCost.OverlapWeight = 3
	p, err := policy.New(cfg, rand.New(rand.NewPCG(1, 2)))
	require.NoError(t, err)
	holds := func(active, rides scoring.Blocks) candidate {
		return roomy(fmt.Sprint(active), func(c *candidate) {
			c.Load.BookedBlocks, c.Load.DecodeKVTokens = active, scoring.Tokens(active)*10
			c.OverlapTokens, c.RideBlocks = scoring.Tokens(rides)*10, rides
		})
	}
	require.Equal(t, 2, decide(p, start, hundred(), []candidate{holds(2, 2), holds(0, 5), holds(7, 8)}).Index)
}

// TestBlockCostDraws: at a temperature the chances are exp(-scaled cost / temperature), costs scaled so that the least and the most
// are one apart: of costs 20, 30 and 40 at temperature 0.5 they are as 1 : e^-1 : e^-2.
func TestBlockCostDraws(t *testing.T) {
	cfg := named("block-cost")
	cfg.BlockCost.Temperature = 0.5
	p, err := policy.New(cfg, rand.New(rand.NewPCG(1, 2)))
	require.NoError(t, err)
	holds := func(active scoring.Blocks) candidate {
		return roomy(fmt.Sprint(active), func(c *candidate) {
			c.Load.BookedBlocks, c.Load.DecodeKVTokens = active, scoring.Tokens(active)*10
		})
	}
	fleet := []candidate{holds(0), holds(10), holds(20), full("full")}
	_, fits := looked(p, start, fleet, policy.Queue{})
	taken := make([]int, len(fleet))
	for range 10_000 {
		taken[p.Decide(hundred(), fits).Index]++
	}
	for i, want := range []float64{6652, 2447, 900, 0} { // 10,000 / (1 + 0.3679 + 0.1353), and so on
		require.InDelta(t, want, taken[i], 200)
	}
	same := []candidate{holds(5), roomy("other", func(c *candidate) { c.Load.BookedBlocks, c.Load.DecodeKVTokens = 5, 50 })}
	require.Equal(t, policy.Dispatch, decide(p, start, hundred(), same).Verdict, "equal costs are no division by zero")
}

// TestLMetricByHand: new prompt tokens times requests, both with this one.
func TestLMetricByHand(t *testing.T) {
	decisions{
		{
			// 20 x 4 = 80 against 100 x 1 = 100.
			"a cache that is worth its batch",
			[]candidate{roomy("1", both(running(3), cached(80))), roomy("2", func(*candidate) {})},
			0,
		},
		{
			// 20 x 6 = 120 against 100.
			"a batch that is too large for it",
			[]candidate{roomy("1", both(running(5), cached(80))), roomy("2", func(*candidate) {})},
			1,
		},
		{
			// (50+20) x 2 = 140 against 100 x 1.
			"what waits there is to be computed, too",
			[]candidate{roomy("1", both(queued(50), cached(80))), roomy("2", func(*candidate) {})},
			1,
		},
		{
			// A whole hit computes one token: 1 x 31 against 10 x 4.
			"a whole hit is not for nothing",
			[]candidate{roomy("1", both(running(30), cached(100))), roomy("2", both(running(3), cached(90)))},
			0,
		},
	}.check(t, "lmetric")
}

// TestAffinityFilterByHand follows llm-d's documented behaviour: sticky at four fifths of the prompt's whole blocks, unless the best of
// those would take 18 s longer at 15,928 tokens a second; then the least tokens to be computed.
func TestAffinityFilterByHand(t *testing.T) {
	decisions{
		{
			// 10,000 tokens are 0.63 s.
			"it sticks to a cache though others are idle",
			[]candidate{roomy("1", both(queued(10_000), cached(90))), roomy("2", func(*candidate) {})},
			0,
		},
		{
			// 300,000 tokens are 18.8 s.
			"saturation breaks it",
			[]candidate{roomy("1", both(queued(300_000), cached(90))), roomy("2", func(*candidate) {})},
			1,
		},
		{
			// 286,000 tokens are 17.96 s.
			"but not before",
			[]candidate{roomy("1", both(queued(286_000), cached(90))), roomy("2", func(*candidate) {})},
			0,
		},
		{
			// It holds 5 of 10 blocks: 1,000+50 against 100+100.
			"too little of the prompt draws nobody",
			[]candidate{roomy("1", both(queued(1000), cached(50))), roomy("2", queued(100))},
			1,
		},
		{
			// 80 of 100 is enough; of the two that hold enough the one with less to compute: 500+20 against 400+10.
			"the least loaded of those that hold enough",
			[]candidate{roomy("1", both(queued(500), cached(80))), roomy("2", both(queued(400), cached(90))), roomy("3", func(*candidate) {})},
			1,
		},
		{
			"a full one cannot hold anybody",
			[]candidate{with(full("1"), cached(90)), roomy("2", func(*candidate) {})},
			1,
		},
	}.check(t, "affinity-filter")
}

// TestPrefixAffinityByHand follows SMG's documented thresholds: out of balance if the busiest has more than 64 requests more and more
// than 1.5 times as many as the least busy; else the longest match, if it is more than 0.3 of the prompt, else the smallest tree.
func TestPrefixAffinityByHand(t *testing.T) {
	decisions{
		{"the longest match", []candidate{roomy("1", cached(40)), roomy("2", both(running(64), cached(50)))}, 1},
		{"not above 64 more, and 1.5 times as many", []candidate{roomy("1", cached(40)), roomy("2", both(running(65), cached(50)))}, 0},
		{"65 more but not 1.5 times as many is balanced", []candidate{roomy("1", running(200)), roomy("2", both(running(265), cached(50)))}, 1},
		{"in balance 1.5 times as many do not matter", []candidate{roomy("1", running(1)), roomy("2", both(running(60), cached(50)))}, 1},
	}.check(t, "prefix-affinity")

	p := rival(t, "prefix-affinity")
	fleet := []candidate{roomy("1", cached(30)), roomy("2", func(*candidate) {}), roomy("3", func(*candidate) {})}
	_, fits := looked(p, start, fleet, policy.Queue{})
	taken := map[int]int{}
	for range 3 {
		dec := p.Decide(hundred(), fits)
		p.OnDispatch(hundred(), fits, dec.Index)
		taken[dec.Index]++
	}
	require.Equal(t, map[int]int{0: 1, 1: 1, 2: 1}, taken, "30 of 100 is too short a match: the smallest tree takes it")
	// The first tree has grown by 70 tokens, the others by 100.
	require.Equal(t, 0, p.Decide(hundred(), fits).Index)
}

// TestSessionsByHash: a session goes to one replica as long as that can take it; when a replica leaves only its sessions move, and
// they move back. Requests without one go where the fewest are.
func TestSessionsByHash(t *testing.T) {
	p := rival(t, "session-affinity")
	fleet := make([]candidate, 8)
	for i := range fleet {
		fleet[i] = roomy(fmt.Sprintf("r%d", i), running(i))
	}
	to := func(fleet []candidate, session int) scoring.ReplicaID {
		d := hundred()
		d.Session = fmt.Sprintf("chat-%d", session)
		return fleet[decide(p, start, d, fleet).Index].ID
	}
	const sessions = 4000
	taken, moved := map[scoring.ReplicaID]int{}, 0
	for s := range sessions {
		first := to(fleet, s)
		taken[first]++
		require.Equal(t, first, to(fleet, s))
		without := to(fleet[1:], s)
		if first == "r0" {
			moved++
		} else {
			require.Equal(t, first, without)
		}
	}
	require.Equal(t, taken["r0"], moved)
	for _, c := range fleet {
		require.InDelta(t, sessions/len(fleet), taken[c.ID], 100)
	}
	require.Equal(t, 0, decide(p, start, hundred(), fleet).Index, "no session: the fewest requests")
}

// TestLeastByHand: the yardsticks.
func TestLeastByHand(t *testing.T) {
	fleet := []candidate{
		roomy("1", func(c *candidate) { c.Load.Running, c.Load.DecodeKVTokens = 3, 900 }),
		roomy("2", func(c *candidate) { c.Load.Running, c.Load.DecodeKVTokens, c.Pending.Requests = 1, 5000, 1 }),
		roomy("3", func(c *candidate) { c.Load.Reserved, c.Load.ReservedPromptTokens, c.Pending.PromptTokens = 4, 300, 500 }),
	}
	require.Equal(t, 1, decide(rival(t, "least-requests"), start, hundred(), fleet).Index, "3, 2 and 4 requests")
	require.Equal(t, 2, decide(rival(t, "least-tokens"), start, hundred(), fleet).Index, "900, 5000 and 800 tokens")
}

// TestP2CByHand: two different ones of those that can take it are drawn, all pairs alike, and the one with fewer requests takes it;
// of two that have as many, the first that was drawn. What else is known of them does not count.
func TestP2CByHand(t *testing.T) {
	decisions{
		{"of two both are drawn", []candidate{roomy("1", running(3)), roomy("2", running(2))}, 1},
		{"asked but not seen there yet counts", []candidate{roomy("1", running(2)), roomy("2", func(c *candidate) { c.Pending.Requests = 3 })}, 0},
		{"neither cache nor length do", []candidate{roomy("1", both(running(3), cached(100))), roomy("2", queued(10_000))}, 1},
		{"who has no room is not drawn", []candidate{full("1"), roomy("2", running(9)), full("3")}, 1},
	}.check(t, "p2c")

	// Of 0, 1, 2 and 3 requests there are six pairs: the least is in three of them, the next in two others, the next in one.
	fleet := []candidate{roomy("1", running(2)), roomy("2", running(0)), roomy("3", running(3)), roomy("4", running(1)), full("5")}
	p := rival(t, "p2c")
	_, fits := looked(p, start, fleet, policy.Queue{})
	draws := rand.New(rand.NewPCG(1, 2)) // those of the policy
	taken := make([]int, len(fleet))
	for range 12_000 {
		first, second := draws.IntN(4), draws.IntN(3)
		if second >= first {
			second++
		}
		want := first
		if fleet[second].Load.Running < fleet[first].Load.Running {
			want = second
		}
		got := p.Decide(hundred(), fits).Index
		require.Equal(t, want, got)
		taken[got]++
	}
	for i, want := range []float64{2000, 6000, 0, 4000, 0} {
		require.InDelta(t, want, taken[i], 200)
	}

	same := []candidate{roomy("1", running(5)), roomy("2", running(5))}
	_, fits = looked(p, start, same, policy.Queue{})
	for range 50 {
		require.Equal(t, draws.IntN(2), p.Decide(hundred(), fits).Index)
		draws.Uint64() // the other one
	}
}
