package policy_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring/cost"
	"plimsoll/scoring/policy"
)

var rewrite = flag.Bool("rewrite", false, "write the golden table anew")

// TestExplainGolden: the table as an operator reads it.
func TestExplainGolden(t *testing.T) {
	holder := with(idle("gpu-1"), func(c *policy.Candidate) { c.OverlapTokens, c.NeedBlocks = 96, 8 })
	busy := with(idle("gpu-2"), func(c *policy.Candidate) {
		c.Load.Reserved, c.Load.Running, c.Load.DecodeSlots, c.Load.SeatsBooked = 1, 2, 2, 3
		c.Load.QueuedPrefillTokens, c.Load.OldestPrefillTokens = 8000, 8000
		c.Load.DecodeKVTokens, c.Load.RemainingOutputTokens = 3000, 300
		c.Load.BookedBlocks, c.PendingBlocks = 700, 10
	})
	down := with(idle("gpu-4"), func(c *policy.Candidate) { c.State = policy.Down })
	fleet := []policy.Candidate{holder, busy, full("gpu-3"), down}
	p, err := policy.New("token-load", nil)
	require.NoError(t, err)
	dec := p.Decide(start, usual(), fleet)
	table := policy.Explain(start, usual(), fleet, dec, cost.DefaultWeights())
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

	held := policy.Explain(start, usual(), fleet[2:], p.Decide(start, usual(), fleet[2:]), cost.DefaultWeights())
	require.Contains(t, held.String(), "hold: no room\n")
}
