package router

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
)

// TestRoutingAllocatesNothing: match, rank and reserve work in memory that the router has; so does a pump.
func TestRoutingAllocatesNothing(t *testing.T) {
	for _, tokens := range []int{1000, 100_000} {
		r := fleetOf(t, 64)
		r.learned()
		way := newRoad(r, tokens)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			require.True(t, way.drive())
			way.giveUp()
		}))
	}
	r := fleetOf(t, 8)
	for _, s := range r.sites {
		s.hold(24_950)
	}
	for i := range 200 {
		r.step(r.ask(i, 2000, nil))
	}
	vs := r.views()
	require.Zero(t, testing.AllocsPerRun(100, func() { r.m.step(r.now, fleet.Room{}, vs) }))
	require.Equal(t, 200, r.m.waiting.Len())
}

// TestARequestLeavesWhatOthersKeep: from the submission to the answer of the replica a request takes no memory that the router does
// not use again but what others keep: its block keys, which the index and the replica's ledger do, and what its call is told, its
// placements and when to expect the first token.
func TestARequestLeavesWhatOthersKeep(t *testing.T) {
	r := fleetOf(t, 64)
	r.learned()
	vs, prompt := r.views(), ids(1, 1000)
	submit, grant, end := 0.0, 0.0, stream.Failed{}
	for range 3 { // the memory grows to what is needed
		sub := r.askFor(&stream.Request{Model: "m", N: 1, MaxTokens: new(256)}, prompt)
		granted := &fleet.Granted{}
		steps := []struct {
			message any
			allocs  *float64
		}{{sub, &submit}, {granted, &grant}}
		for _, s := range steps {
			*s.allocs = allocs(func() {
				for _, e := range r.m.step(r.now, s.message, vs) {
					if e, ok := e.(reserve); ok {
						p := &e.place
						*granted = fleet.Granted{Ticket: p.Claim.Ticket, Replica: p.Ref.ID, Snapshot: snapOf(vs, p.Ref.ID)}
						end = stream.Failed{Replica: p.Ref.ID, Ticket: p.Claim.Ticket}
					}
				}
			})
		}
		require.Empty(t, r.m.tickets)
		r.m.step(r.now, end, vs)
	}
	require.LessOrEqual(t, submit, 1.0)
	require.LessOrEqual(t, grant, 2.0)
}

// allocs counts the allocations of one call.
func allocs(f func()) float64 {
	done := false
	return testing.AllocsPerRun(1, func() {
		if done { // the first call is a warm-up
			f()
		}
		done = true
	})
}
