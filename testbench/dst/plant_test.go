package dst_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/dst"
)

// foundAt is a seed from which on each plant is found at once: what plimsoll dst --plants prints. The search from seed 0 on
// is make dst-plants.
var foundAt = map[string]uint64{
	"skip a release":                                 0,
	"double release":                                 0,
	"linger skipped":                                 0,
	"linger skipped when the client leaves":          0,
	"growth not told":                                0,
	"release into a new incarnation":                 141,
	"ignore incarnation":                             37,
	"admit over capacity":                            3,
	"shared prefix charged to the first holder":      2,
	"ledger that hears of half the ends":             0,
	"resume off by one":                              0,
	"journal one short at a full block":              6,
	"max_tokens begins anew":                         0,
	"hold-back lost at the joint":                    0,
	"response ended twice":                           0,
	"forget exclusion":                               0,
	"grant after cancel":                             10,
	"speculation kept after a failure":               0,
	"everybody waits for the same one":               2,
	"a replica that stays out":                       0,
	"old feed's event after removal":                 0,
	"a gap ignored":                                  21,
	"a replay applied twice":                         0,
	"void ignored when the engine is down":           0,
	"another life's feed goes on":                    0,
	"void ignored at a restart":                      0,
	"the slower of two attempts goes on":             3,
	"hedges without a common budget":                 10,
	"a hedge that waits its turn":                    3,
	"a hedge on the replica that is slow":            3,
	"class ignored in the queue's order":             0,
	"promotion forgotten":                            46,
	"tenants served in the order of arrival":         28,
	"tenants' weights ignored":                       21,
	"SLO shed of a request that was begun":           3,
	"SLO that nobody has asked for":                  0,
	"SLO forgotten while it waits":                   0,
	"an order before its actor":                      7,
	"the last one drains":                            0,
	"calls found by their clients' names":            11,
	"refusals of one kind of request taken for many": 4,
}

// seedsOfPlant leaves room for changes of what a seed means.
const seedsOfPlant = 20

// TestPlantedBugsAreFound: a simulator that finds nothing proves nothing.
func TestPlantedBugsAreFound(t *testing.T) {
	t.Parallel()
	plants := dst.Plants()
	require.Len(t, foundAt, len(plants))
	for _, plant := range plants {
		t.Run(plant.Name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, foundAt, plant.Name)
			r, others := plant.Find(foundAt[plant.Name], seedsOfPlant)
			require.NotNil(t, r.Violation, "not found by %s; %d seeds violate something else", plant.Catches, others)
			t.Logf("seed %d: %v", r.Seed, r.Violation)
		})
	}
}
