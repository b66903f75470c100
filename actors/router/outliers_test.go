package router

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/scoring/policy"
)

// slow has a replica's steps take a number of times as long as before.
func (r *rig) slow(id scoring.ReplicaID, factor int) {
	for range 200 {
		r.step(stream.Steps{Replica: id, KVTokens: 100, Gap: 10 * time.Millisecond})
	}
	for range 30 {
		r.step(stream.Steps{Replica: id, KVTokens: 100, Gap: time.Duration(factor) * 10 * time.Millisecond})
	}
}

// out lists who is ejected now.
func (r *rig) out() (ids []scoring.ReplicaID) {
	for _, s := range r.sites {
		if r.m.outliers.barred(r.now, s.ref.ID, r.views()) {
			ids = append(ids, s.ref.ID)
		}
	}
	return ids
}

// TestEjection is semantics 4: a replica that is much slower than its own past gets nothing for a while; never more than a
// third of a model's replicas, never the last one.
func TestEjection(t *testing.T) {
	for name, c := range map[string]struct {
		replicas int
		happen   func(*rig)
		out      []scoring.ReplicaID
	}{
		"one of three":                      {3, func(r *rig) { r.slow("b", 20) }, []scoring.ReplicaID{"b"}},
		"not for twice as long":             {3, func(r *rig) { r.slow("b", 2) }, nil},
		"one of three, though two are slow": {3, func(r *rig) { r.slow("b", 20); r.slow("c", 20) }, []scoring.ReplicaID{"b"}},
		"two of six": {6, func(r *rig) {
			for _, id := range []scoring.ReplicaID{"a", "b", "c", "d"} {
				r.slow(id, 20)
			}
		}, []scoring.ReplicaID{"a", "b"}},
		"none of two": {2, func(r *rig) { r.slow("b", 20) }, nil},
		"not the last that serves": {3, func(r *rig) {
			r.site("a").snap.State, r.site("c").snap.State = fleet.Down, fleet.Down
			r.slow("b", 20)
		}, nil},
		"not any more when the others are down": {3, func(r *rig) {
			r.slow("b", 20)
			r.site("a").snap.State, r.site("c").snap.Suspect = fleet.Down, true
		}, nil},
		"one that has left is forgotten": {3, func(r *rig) {
			r.slow("b", 20)
			r.sites = append(r.sites[:1], r.sites[2])
			r.m.outliers.prune(r.views())
			require.Empty(r.t, r.m.outliers.out)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, testConfig(), c.replicas)
			c.happen(r)
			require.Equal(t, c.out, r.out())
		})
	}
}

// TestEjectionEnds after a time that doubles while it stays slow, and starts anew once it has done well.
func TestEjectionEnds(t *testing.T) {
	r := newRig(t, testConfig(), 3)
	for _, seconds := range []int{5, 10, 20, 40, 80, 80} {
		want := time.Duration(seconds) * time.Second
		r.slow("b", 20)
		require.Equal(t, want, r.m.outliers.out["b"].until.Sub(r.now))
		r.now = r.now.Add(want)
		require.Empty(t, r.out())
	}
	r.now = r.now.Add(2 * ejectCap)
	r.slow("b", 20)
	require.Equal(t, ejectFirst, r.m.outliers.out["b"].until.Sub(r.now))
}

// TestWhoGetsNothing: suspected, ejected and ramping replicas, as a policy sees them.
func TestWhoGetsNothing(t *testing.T) {
	quota := 1
	for name, c := range map[string]struct {
		happen func(*rig)
		why    policy.Reason
	}{
		"suspected":                          {func(r *rig) { r.site("b").snap.Suspect = true }, policy.IsSuspect},
		"ejected":                            {func(r *rig) { r.slow("b", 20) }, policy.IsEjected},
		"ramping up, within its quota":       {func(r *rig) { r.site("b").snap.QuotaSeats = &quota }, policy.OK},
		"ramping up, beyond its quota":       {func(r *rig) { r.site("b").snap.QuotaSeats = &quota; r.site("b").hold(1) }, policy.WarmingQuota},
		"ramping up, as all others":          {func(r *rig) { r.ramp(&quota); r.site("b").hold(1); r.site("a").hold(1); r.site("c").hold(1) }, policy.OK},
		"ramping up, and another has a seat": {func(r *rig) { r.ramp(&quota); r.site("b").hold(1) }, policy.WarmingQuota},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, testConfig(), 3)
			c.happen(r)
			sub := r.ask(1, 40, nil)
			e := newEntry(1, sub)
			vs := r.views()
			r.m.look(r.now, vs)
			_, d, fits := r.m.prepare(r.now, e, sub.Legs[0], vs, nil)
			require.Equal(t, c.why, r.m.pass.pass.Eligible(d, fits, 1))
		})
	}
}

// ramp has all sites ramp up.
func (r *rig) ramp(quota *int) {
	for _, s := range r.sites {
		s.snap.QuotaSeats = quota
	}
}
