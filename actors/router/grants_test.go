package router

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// TestGrantsOfARouterThatFails: a grant that its call was not told of is known to nobody once the router has failed.
func TestGrantsOfARouterThatFails(t *testing.T) {
	ticket := func(n uint64) scoring.Ticket { return scoring.Ticket{Boot: 1, Number: n} }
	granted := func(n uint64) *fleet.Granted { return &fleet.Granted{Ticket: ticket(n), Replica: "a"} }
	refs := []*fleet.Ref{{ID: "a"}}
	back := func(lost []giveBack) (numbers []uint64) {
		for _, l := range lost {
			require.Equal(t, refs[0], l.ref)
			numbers = append(numbers, l.ticket.Number)
		}
		return numbers
	}

	g := grants{}
	for n := range uint64(5) {
		g.heard(granted(n), refs)
	}
	g.heard(fleet.Room{Replica: "a"}, refs)
	g.told(placed{&asking{placed: []stream.Placement{{Claim: ledger.Claim{Ticket: ticket(1)}}}}})
	g.told(tellCall{nil, stream.Withdrawn{}})
	g.told(giveBack{refs[0], ticket(3)})
	g.told(refused{fault.NoReplica, fault.Unserved})
	require.Equal(t, []uint64{0, 2, 4, 7}, back(g.lost(granted(7), refs)), "and the one it failed at")
	require.Empty(t, g.lost(nil, refs), "once")

	g.heard(&fleet.Granted{Ticket: ticket(1), Replica: "gone"}, refs)
	require.Empty(t, g, "a replica that has left has no ledger: nobody will ever be told of it")
}

// TestWhatAFailedRouterAskedForIsNotCached: the next one gives back what is granted, and takes back what was speculated.
func TestWhatAFailedRouterAskedForIsNotCached(t *testing.T) {
	for _, full := range []bool{false, true} {
		r := newRig(t, testConfig(), 1)
		site := r.sites[0]
		sub := r.ask(1, 320, new(16))
		r.step(sub)
		if full {
			site.fill()
		}
		stale := r.sent
		overlap := func() scoring.Blocks {
			keys := (&entry{sub: sub}).keysFor("m", 0, 16)
			return site.place.Index.Match(r.now, keys, nil)[site.place.Slot].Device
		}
		require.NotZero(t, overlap())
		next := newRig(t, testConfig(), 0)
		next.sites, next.index = r.sites, r.index
		next.step(site.answer(r.now, stale[0]))
		require.Zero(t, overlap(), "refused: %t", full)
	}
}

// TestAFailingRouterGivesBack: of two legs the first was granted, and the router fails at the second's grant.
func TestAFailingRouterGivesBack(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	r.step(r.askFor(&stream.Request{Model: "m", N: 2}, ids(1, 40)))
	require.Len(t, r.sent, 2)
	site := r.sites[0]
	first, second := site.answer(r.now, r.sent[0]), site.answer(r.now, r.sent[1])
	g := grants{}
	for _, e := range r.m.step(r.now, first, r.views()) {
		g.told(e)
	}
	g.heard(first, []*fleet.Ref{site.ref})
	for _, l := range g.lost(second, []*fleet.Ref{site.ref}) {
		site.ledger.End(l.ticket, ledger.Refused)
	}
	require.True(t, site.ledger.Empty())
}
