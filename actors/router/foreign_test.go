package router

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/policy"
)

// TestField20AnEngineThatOthersFillComesLast: 7 of its 8 seats are taken and 40 wait, by the engine's own figures, and none of them is
// ours. It has a seat to spare, but whoever is sent there waits behind forty. The other one gets all, as long as it has room (25 of 30
// went to the busy one).
func TestField20AnEngineThatOthersFillComesLast(t *testing.T) {
	for _, name := range policy.Names() {
		switch name {
		case "round-robin", "random", "session-affinity": // rank nothing
			continue
		case "prefix-affinity", "affinity-filter": // as published: by prompts, and these by what was sent there
			continue
		}
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			cfg.Policy.Name = name
			r := newRig(t, cfg, 0)
			limits := testLimits()
			limits.Seats, limits.KVBlocks = 8, 1000
			for _, id := range []scoring.ReplicaID{"busy", "free"} {
				r.add(id, limits)
			}
			used, running, waiting := scoring.Blocks(70), 7, 40
			sample := func() { r.site("busy").ledger.Sample(&used, &running, &waiting) }
			for range 3 {
				sample()
			}
			require.Equal(t, 40, r.site("busy").ledger.Load().ForeignWaiting)
			for i := range 30 {
				sub := r.submit(r.ask(i, 64, new(16)))
				places := r.places(sub)
				require.Len(t, places, 1)
				require.EqualValues(t, "free", places[0].Ref.ID, "chat %d", i)
				r.now = r.now.Add(time.Second)
				r.step(stream.FirstToken{Replica: "free", Ticket: places[0].Claim.Ticket, PrefillTokens: 64, Took: 20 * time.Millisecond})
				r.end(places[0])
				sample()
			}
			r.site("free").fill()
			last := r.submit(r.ask(99, 64, new(16)))
			r.pass(10 * time.Second) // it may wait for the other one, but not for long
			require.EqualValues(t, "busy", r.places(last)[0].Ref.ID, "it is not shut")
		})
	}
}

// TestOnesOwnRequestsAreNoOthers: what waits or runs in an engine because we have sent it there says nothing of others.
func TestOnesOwnRequestsAreNoOthers(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	s := r.site("a")
	s.fill()
	running, waiting := 1, 3 // of our four
	for range 4 {
		s.ledger.Sample(nil, &running, &waiting)
	}
	require.Zero(t, s.ledger.Load().ForeignWaiting)
	require.Zero(t, s.ledger.Load().ForeignSeats)
	waiting = 5
	for range 3 {
		s.ledger.Sample(nil, &running, &waiting)
	}
	require.Equal(t, 2, s.ledger.Load().ForeignWaiting)
	for range 3 {
		s.ledger.MissedSample()
	}
	require.Zero(t, s.ledger.Load().ForeignWaiting, "unknown is none")
	s.free()
	require.Equal(t, ledger.Load{Limits: testLimits()}, s.ledger.Load())
}
