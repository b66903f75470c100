package dst_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/dst"
)

// TestSeeds: nothing is wrong, and each run is worth its time.
func TestSeeds(t *testing.T) {
	worth := 0
	for seed := range uint64(150) {
		r := dst.Run(dst.Config{Seed: seed})
		require.Nil(t, r.Violation, "seed %d", seed)
		if r.Worth() {
			worth++
		}
	}
	require.GreaterOrEqual(t, worth, 140)
}

// TestEqualSeedsHaveEqualLogs: a seed is a bug report.
func TestEqualSeedsHaveEqualLogs(t *testing.T) {
	different := map[uint64]bool{}
	for seed := range uint64(20) {
		a, b := dst.Run(dst.Config{Seed: seed}), dst.Run(dst.Config{Seed: seed})
		require.Equal(t, a, b)
		different[a.Digest] = true
	}
	require.Len(t, different, 20)
}
