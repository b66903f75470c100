package policy_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring/policy"
)

var rewrite = flag.Bool("rewrite", false, "write the golden table anew")

// TestExplainGolden: the table as an operator reads it.
func TestExplainGolden(t *testing.T) {
	holder := with(idle("gpu-1"), func(c *candidate) { c.OverlapTokens, c.NeedBlocks = 96, 8 })
	busy := with(idle("gpu-2"), func(c *candidate) {
		c.Load.Reserved, c.Load.Running, c.Load.SeatsBooked = 1, 2, 3
		c.Load.QueuedPrefillTokens, c.Load.OldestPrefillTokens = 8000, 8000
		c.Load.DecodeKVTokens, c.Load.RemainingOutputTokens = 3000, 300
		c.Load.BookedBlocks, c.PendingBlocks = 700, 10
	})
	down := with(idle("gpu-4"), func(c *candidate) { c.State = policy.Down })
	fleet := []candidate{holder, busy, full("gpu-3"), down}
	p, err := policy.New(named("token-load"), nil)
	require.NoError(t, err)
	table := explained(p, usual(), fleet)
	require.Len(t, table.Rows, 4)
	require.True(t, table.Rows[0].Chosen)
	for _, row := range table.Rows[1:] {
		require.False(t, row.Chosen)
	}
	name := filepath.Join("testdata", "explain.txt")
	if *rewrite {
		require.NoError(t, os.WriteFile(name, []byte(table.String()), 0o600))
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, string(want), table.String())

	require.Contains(t, explained(p, usual(), fleet[2:]).String(), "hold: no room\n")
	queued := with(idle("gpu-5"), func(c *candidate) {
		c.Load.Reserved, c.Load.QueuedPrefillTokens, c.OverlapTokens = 1, 4000, 80
	})
	slow := with(idle("gpu-6"), func(c *candidate) { c.Rates.StepSeconds = 0.1 })
	waits := explained(p, usual(), []candidate{queued, slow})
	require.Contains(t, waits.String(), "hold: better one busy\n")
	require.True(t, waits.Rows[0].Chosen)
	require.Equal(t, len(waits.Terms), len(waits.Rows[0].Values))
}

// explained lays out the first decision of a pass.
func explained(p policy.Policy, d *policy.Demand, fleet []candidate) policy.Table {
	pass, fits := looked(p, start, fleet, policy.Queue{})
	table := laid(p, pass, d, fits)
	table.Decided(p.Decide(d, fits))
	return table
}

// laid is a decision before it is made.
func laid(p policy.Policy, pass *policy.Pass, d *policy.Demand, fits []policy.Fit) policy.Table {
	return policy.Lay(p.Terms(), pass, d, fits, policy.Values(p, pass, d, fits, nil))
}

// TestEveryPolicyExplains: one value a term, for every candidate.
func TestEveryPolicyExplains(t *testing.T) {
	everyPolicy(t, func(t *testing.T, fresh func(uint64) policy.Policy) {
		t.Helper()
		p := fresh(1)
		table := explained(p, usual(), []candidate{idle("a"), full("b"), idle("c")})
		for _, row := range table.Rows {
			require.Len(t, row.Values, len(p.Terms()))
		}
	})
}

// TestExplainBeforeAndAfter: the terms of what is dispatched are the same before Decide and after it, until the policy is told; and
// deciding again decides alike but for ties: none is left here.
func TestExplainBeforeAndAfter(t *testing.T) {
	everyPolicy(t, func(t *testing.T, fresh func(uint64) policy.Policy) {
		t.Helper()
		p := fresh(1)
		holder := with(idle("a"), func(c *candidate) { c.OverlapTokens, c.NeedBlocks = 96, 8 })
		busy := with(idle("b"), func(c *candidate) { c.Load.Running, c.Load.DecodeKVTokens, c.Load.RemainingOutputTokens = 3, 900, 300 })
		d := usual()
		pass, fits := looked(p, start, []candidate{holder, busy, full("c")}, policy.Queue{})
		for range 3 {
			before := policy.Values(p, pass, d, fits, nil)
			dec := p.Decide(d, fits)
			require.Equal(t, policy.Dispatch, dec.Verdict)
			require.Equal(t, before, policy.Values(p, pass, d, fits, nil))
			require.Len(t, before, 3*len(p.Terms()))
			aim, ok := dec.Aim()
			require.True(t, ok)
			require.Equal(t, dec.Index, aim)
			p.OnDispatch(d, fits, dec.Index)
		}
	})
}
