package router

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// TestReranks: a refused reservation is ranked anew, and never where nothing has changed since it was refused; when all
// have refused it the request waits at the head.
func TestReranks(t *testing.T) {
	r := newRig(t, testConfig(), 8)
	sub := r.ask(1, 100, new(16))
	asked := map[scoring.ReplicaID]int{}
	r.step(sub)
	for len(r.sent) > 0 {
		// The snapshot says that there is room; the ledger knows better.
		e := r.sent[0]
		r.sent = r.sent[1:]
		asked[e.ref.ID]++
		snap := r.site(e.ref.ID).view().snap
		r.step(&fleet.Refused{Ticket: e.claim.Ticket, Replica: e.ref.ID, Reason: ledger.NoBlocks, Snapshot: snap})
		if len(asked) == 4 {
			require.Empty(t, r.sent, "after three re-ranks it rests")
			r.now = r.now.Add(refusedRest)
			r.step(tick{})
		}
	}
	require.Len(t, asked, 8)
	for id, n := range asked {
		require.Equal(t, 1, n, "%s was asked again although nothing changed there", id)
	}
	require.True(t, r.waits(sub))
	earlier := r.ask(2, 100, new(16))
	earlier.Arrival = sub.Arrival.Add(-time.Second)
	for _, s := range r.sites {
		s.snap.State = fleet.Warming
	}
	r.step(earlier)
	require.Equal(t, []*stream.Call{sub.Call, earlier.Call}, r.order(), "it is at the head, before who came earlier")
}

// TestAfterThreeReranksOthersComeFirst: who came earlier to the head of the queue is tried before it.
func TestAfterThreeReranksOthersComeFirst(t *testing.T) {
	r := newRig(t, testConfig(), 5)
	refuse := func() {
		e := r.sent[0]
		r.sent = r.sent[1:]
		snap := r.site(e.ref.ID).view().snap
		r.step(&fleet.Refused{Ticket: e.claim.Ticket, Replica: e.ref.ID, Reason: ledger.NoBlocks, Snapshot: snap})
	}
	sub := r.ask(1, 100, new(16))
	r.step(sub)
	for range 3 {
		refuse()
		require.Len(t, r.sent, 1)
		require.Empty(t, r.m.queuedAs, "it is ranked anew")
	}
	for _, s := range r.sites {
		s.snap.State = fleet.Warming
	}
	early := r.ask(2, 100, new(16))
	early.Again, early.Arrival = true, sub.Arrival.Add(-time.Second)
	r.step(early)
	require.True(t, r.waits(early))
	for _, s := range r.sites {
		s.snap.State = fleet.Ready
		for s.ledger.Load().FreeSeats() > 1 {
			s.hold(1)
		}
	}
	refuse()
	require.NotEmpty(t, r.sent)
	require.Equal(t, early.Call, r.m.tickets[r.sent[0].claim.Ticket].by.entry.sub.Call)
}

// TestPartialGrantsDoNotGoInCircles: what a submission gives back looks like room to itself. It rests before it tries again.
func TestPartialGrantsDoNotGoInCircles(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	s := r.site("a")
	sub := r.askFor(&stream.Request{N: 2, MaxTokens: new(16)}, ids(1, 100))
	r.step(sub)
	answers := 0
	for ; len(r.sent) > 0 && answers < 1000; answers++ {
		e := r.sent[0]
		r.sent = r.sent[1:]
		if s.ledger.Load().SeatsBooked == 0 {
			r.step(s.answer(r.now, e))
			continue
		}
		snap := s.view().snap // there seems to be room for the second leg too, and is not
		r.step(&fleet.Refused{Ticket: e.claim.Ticket, Replica: "a", Reason: ledger.NoBlocks, Snapshot: snap})
	}
	require.Less(t, answers, 20)
	require.True(t, r.waits(sub))
	require.True(t, s.ledger.Empty())
	at, ok := r.m.nextTick()
	require.True(t, ok)
	require.Equal(t, r.now.Add(refusedRest), at)
	r.pass(refusedRest)
	require.Len(t, r.places(sub), 2)
	r.empty()
}

// TestABarIsLifted: a replica that refused is asked again when it has more room, when its epoch or life changes, or after
// a while.
func TestABarIsLifted(t *testing.T) {
	for name, change := range map[string]func(*rig, *site){
		"more room":   func(r *rig, s *site) { s.free(); r.step(fleet.Room{}) },
		"a new life":  func(r *rig, s *site) { s.snap.Incarnation++; r.step(fleet.Room{}) },
		"a new epoch": func(r *rig, s *site) { s.snap.Epoch++; r.step(fleet.Room{}) },
		"a while":     func(r *rig, _ *site) { r.pass(recheck) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, testConfig(), 1)
			s := r.site("a")
			s.hold(10)
			sub := r.ask(1, 100, new(16))
			r.step(sub)
			ticket := r.sent[0].claim.Ticket
			r.sent = nil
			r.step(&fleet.Refused{Ticket: ticket, Replica: "a", Reason: ledger.NoBlocks, Snapshot: s.view().snap})
			require.True(t, r.waits(sub))
			for range 5 {
				r.step(fleet.Room{})
			}
			require.Empty(t, r.sent, "nothing has changed")
			change(r, s)
			r.deliver()
			require.Len(t, r.places(sub), 1)
			r.empty()
		})
	}
}

// TestUnknownAnswers: a grant that this instance did not ask for is given back; one by a replica actor that has failed
// since counts as refused, because its successor will never hear of it.
func TestUnknownAnswers(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	c := claimOf(77, 5)
	require.Equal(t, ledger.None, r.site("a").ledger.Reserve(r.now, c))
	r.step(&fleet.Granted{Ticket: c.Ticket, Replica: "a", Snapshot: r.site("a").view().snap})
	require.Equal(t, 1, r.back)
	require.True(t, r.site("a").ledger.Empty())
	r.step(&fleet.Granted{Ticket: c.Ticket, Replica: "nobody", Snapshot: r.site("a").view().snap})
	r.step(&fleet.Refused{Ticket: c.Ticket, Replica: "a", Snapshot: r.site("a").view().snap})
	r.empty()

	sub := r.ask(1, 100, new(16))
	r.step(sub)
	answer := r.site("a").answer(r.now, r.sent[0])
	r.sent = nil
	r.site("a").snap.Epoch, r.site("a").snap.Recovering = 2, true
	r.step(answer)
	require.True(t, r.waits(sub))
	require.Equal(t, 2, r.back)
	r.site("a").snap.Recovering = false
	r.step(fleet.Room{Replica: "a"})
	r.deliver()
	require.Len(t, r.places(sub), 1)
	r.empty()
}

// TestUnanswered: a replica's actor that never answers, because it failed or was removed, holds nobody up for long. What it
// grants all the same is given back.
func TestUnanswered(t *testing.T) {
	r := newRig(t, testConfig(), 2)
	sub := r.ask(1, 100, new(16))
	r.step(sub)
	lost := r.sent[0]
	r.sent = nil
	r.pass(r.m.cfg.ReserveWait - 1)
	require.Empty(t, r.answers(sub))
	r.pass(1)
	require.NotEqual(t, lost.ref, r.places(sub)[0].Ref)
	r.empty()
	r.sent = append(r.sent, lost)
	r.deliver()
	require.Equal(t, 1, r.back)
	require.True(t, r.site(lost.ref.ID).ledger.Empty())

	gone := newRig(t, testConfig(), 1)
	sub = gone.ask(2, 100, new(16))
	gone.step(sub)
	gone.sites, gone.sent = nil, nil
	gone.pass(gone.m.cfg.ReserveWait)
	require.Equal(t, fault.NoReplica, gone.fault(sub).Kind)
	gone.empty()
}
