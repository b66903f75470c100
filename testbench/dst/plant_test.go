package dst_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/dst"
)

// plantSeeds is within how many seeds a planted bug must be found by its checker.
const plantSeeds = 1000

// TestPlantedBugsAreFound: a simulator that finds nothing proves nothing.
func TestPlantedBugsAreFound(t *testing.T) {
	for _, plant := range dst.Plants() {
		t.Run(plant.Name, func(t *testing.T) {
			t.Parallel()
			others := map[string]int{}
			for seed := range uint64(plantSeeds) {
				r := dst.Run(dst.Config{Seed: seed, Plant: &plant})
				if r.Violation == nil {
					continue
				}
				if r.Violation.Checker == plant.Catches {
					t.Logf("after %d seeds: %v (other checkers before: %v)", seed+1, r.Violation, others)
					return
				}
				others[r.Violation.Checker.String()]++
			}
			require.Fail(t, "not found", "by %s; others: %v", plant.Catches, others)
		})
	}
}
