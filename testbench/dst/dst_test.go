package dst_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/testbench/dst"
)

// TestSeeds: nothing is wrong, and each run is worth its time. make dst runs more of them.
func TestSeeds(t *testing.T) {
	t.Parallel()
	const seeds = 200
	total := dst.Sweep{Seeds: seeds, Workers: 2}.Run()
	require.Empty(t, total.Violations)
	require.GreaterOrEqual(t, total.Worth, uint64(seeds*9/10))
	require.GreaterOrEqual(t, total.Hedges, uint64(seeds/2))
	require.GreaterOrEqual(t, total.HedgesWon, uint64(seeds/16))
	require.GreaterOrEqual(t, total.PutOff, uint64(seeds/32))

	for _, f := range []dst.Fault{dst.RefuseOne, dst.ForAnHour, dst.Trailing} {
		require.Positive(t, total.Coverage[f][dst.Decode], "%s", f)
	}
	for state, least := range map[fleet.IndexState]uint64{
		fleet.IndexVoid: 4 * seeds, fleet.IndexLive: 4 * seeds, fleet.IndexReplaying: 2 * seeds, fleet.IndexPartial: seeds / 2,
		fleet.IndexApproximate: seeds / 2,
	} {
		require.Greater(t, total.Index.Entered[state], least, "indexes that were %s", state)
	}
	require.Greater(t, total.Index.Exact, uint64(2*seeds), "feeds that hold all that their engines do")
	require.Greater(t, total.Index.Live, uint64(200*seeds), "comparisons of live feeds with what was published")
	require.Greater(t, total.Index.Less, uint64(20*seeds), "of others")
	require.Greater(t, total.Queue.Before, uint64(seeds), "places that somebody of a lower class could have taken")
	require.Greater(t, total.Queue.Turns, uint64(seeds), "turns of one tenant before another")
	require.Greater(t, total.Queue.Missed, uint64(seeds/2), "requests refused for their SLO")
	for p, n := range total.Coverage[dst.LongStep] {
		require.GreaterOrEqual(t, n, uint64(seeds/20), "passes of half a minute while %s", dst.Phase(p)) //nolint:gosec // an enum
	}
	require.False(t, total.Risky(), "%d legs put a second replica at risk", total.Twice)
	require.Positive(t, total.Index.Returned, "feeds that were silent and are heard again")
}

// TestEqualSeedsHaveEqualLogs: a seed is a bug report.
func TestEqualSeedsHaveEqualLogs(t *testing.T) {
	t.Parallel()
	const seeds = 8
	different := map[uint64]bool{}
	for seed := range uint64(seeds) {
		a, b := dst.Run(dst.Config{Seed: seed}), dst.Run(dst.Config{Seed: seed})
		require.Equal(t, a, b)
		different[a.Digest] = true
	}
	require.Len(t, different, seeds)
}
