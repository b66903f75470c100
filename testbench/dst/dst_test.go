package dst_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/dst"
)

// TestSeeds: nothing is wrong, and each run is worth its time. make dst runs more of them.
func TestSeeds(t *testing.T) {
	t.Parallel()
	const seeds = 200
	total := dst.Sweep{Seeds: seeds, Workers: 2}.Run()
	require.Empty(t, total.Violations)
	require.GreaterOrEqual(t, total.Worth, uint64(seeds*9/10))
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
