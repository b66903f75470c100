package router

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
)

// TestALegThatMayGoToSomeReplicasAlone waits for those, but not for one that cannot take it for long or at all.
func TestALegThatMayGoToSomeReplicasAlone(t *testing.T) {
	for name, c := range map[string]struct {
		named func(*site, *stream.Ask)
		waits bool
	}{
		"it is full":       {func(s *site, _ *stream.Ask) { s.fill() }, true},
		"it is suspected":  {func(s *site, _ *stream.Ask) { s.snap.Suspect = true }, false},
		"it is down":       {func(s *site, _ *stream.Ask) { s.snap.State = fleet.Down }, false},
		"it cools down":    {func(s *site, _ *stream.Ask) { s.snap.CoolingUntil = start.Add(30 * time.Second) }, false},
		"it failed before": {func(_ *site, a *stream.Ask) { a.Excluded = []stream.Exclusion{{Replica: "a", Incarnation: 1}} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, testConfig(), 2)
			sub := r.broken(1, 64, 40)
			sub.Legs[0].Only = []scoring.ReplicaID{"a"}
			c.named(r.site("a"), &sub.Legs[0])
			r.submit(sub)
			require.Equal(t, c.waits, r.waits(sub))
			if !c.waits {
				require.Equal(t, scoring.ReplicaID("b"), r.places(sub)[0].Ref.ID)
			}
		})
	}
	r := newRig(t, testConfig(), 2)
	sub := r.broken(1, 64, 40)
	sub.Legs[0].Only = []scoring.ReplicaID{"b"}
	require.Equal(t, scoring.ReplicaID("b"), r.places(r.submit(sub))[0].Ref.ID)
}
