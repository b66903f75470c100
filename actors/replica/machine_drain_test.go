package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// TestDrainDeadline: what runs at the deadline is told to leave, and told again while it finds no other place.
func TestDrainDeadline(t *testing.T) {
	w := newWatched(t, 100, false)
	w.m.cfg.HangBlind, w.m.cfg.HangLeast = time.Hour, time.Hour
	tickets := w.run(2)
	leave := w.now.Add(30 * time.Second)
	w.at(0, fleet.Drain{Leave: &leave})
	require.Equal(t, fleet.Draining, w.m.state)
	require.Equal(t, ledger.Closed, w.reserve(w.claim()))
	w.pass(28*time.Second, true)
	require.Zero(t, count[evict](w.all))
	w.pass(2*time.Second, true)
	e, ok := find[evict](w.all)
	require.True(t, ok)
	require.False(t, e.Hung)
	w.pass(10*time.Second, true)
	require.GreaterOrEqual(t, count[evict](w.all), 10)
	require.Equal(t, fleet.Draining, w.m.state)
	for _, ticket := range tickets {
		w.at(0, fleet.Linger{Attempt: of(ticket)})
	}
	told := count[evict](w.all)
	w.pass(time.Minute, true)
	require.Equal(t, told, count[evict](w.all))
	require.Equal(t, fleet.Gone, w.m.state)
	require.Zero(t, w.m.snapshot().Strikes)
}

// TestDrainAndBack: a replica that is to stay stays, from whatever state, and must show that it serves when it is asked back.
func TestDrainAndBack(t *testing.T) {
	for _, c := range []struct {
		from, back fleet.State
	}{{fleet.Starting, fleet.Down}, {fleet.Warming, fleet.Ready}, {fleet.Ready, fleet.Ready}, {fleet.Degraded, fleet.Ready}, {fleet.Down, fleet.Down}} {
		t.Run(c.from.String(), func(t *testing.T) {
			b := reach(t, c.from)
			b.step(fleet.Drain{Keep: true})
			require.Equal(t, fleet.Draining, b.m.state)
			require.True(t, b.m.snapshot().Kept)
			for range 3 {
				if c.back == fleet.Ready {
					b.probed(status("a"))
					b.step(FeedReady{1})
				}
				require.Equal(t, fleet.Draining, b.m.state)
			}
			require.Equal(t, ledger.Closed, b.reserve(b.claim()))
			again := restarted(b, 0)
			require.Equal(t, fleet.Draining, again.m.state, "a new instance knows of it")
			require.True(t, again.m.snapshot().Kept)
			b.step(fleet.Undrain{})
			require.Equal(t, c.back, b.m.state)
			require.False(t, b.m.snapshot().Kept)
			b.probed(status("a"))
			b.step(FeedReady{1})
			require.Equal(t, fleet.Ready, b.m.state)
			require.Equal(t, ledger.None, b.reserve(b.claim()))
		})
	}
	b := reach(t, fleet.Ready)
	b.step(fleet.Undrain{})
	require.Equal(t, fleet.Ready, b.m.state)
	b.step(fleet.Drain{Keep: true})
	b.step(fleet.Drain{})
	require.Equal(t, fleet.Gone, b.m.state, "a later order lets it go")
	b.step(fleet.Undrain{})
	require.Equal(t, fleet.Gone, b.m.state)
}

// TestUndrainOfOneThatHung: a canary decides.
func TestUndrainOfOneThatHung(t *testing.T) {
	w := newWatched(t, 100, false)
	w.run(1)
	w.at(0, fleet.Drain{Keep: true})
	w.pass(time.Second, true)
	require.Equal(t, fleet.Draining, w.m.state)
	require.True(t, w.m.snapshot().Hung)
	w.at(0, fleet.Undrain{})
	require.Equal(t, fleet.Down, w.m.state)
	w.pass(5*time.Second, true)
	w.probe()
	require.Equal(t, fleet.Down, w.m.state)
	w.at(0, canaryDone{w.canaryOf(), nil})
	require.Equal(t, fleet.Ready, w.m.state)
}

// TestRamp: a replica that becomes ready opens with its successes; with time only after the first of them.
func TestRamp(t *testing.T) {
	cfg := testConfig()
	cfg.RampSeats = 2
	b := newBench(t, cfg, withoutFeed)
	many := status("a")
	many.Seats, many.KVBlocks = ptr(64), ptr(10_000)
	b.probed(many)
	quota := func(want int) {
		t.Helper()
		require.NotNil(t, b.m.snapshot().QuotaSeats)
		require.Equal(t, want, *b.m.snapshot().QuotaSeats)
	}
	quota(2)
	b.now = b.now.Add(time.Hour)
	b.step(tick{})
	quota(2)
	first := b.granted()
	require.True(t, room(b.step(fleet.Started{Ticket: first})))
	quota(4)
	require.False(t, room(b.step(fleet.Started{Ticket: first})), "once")
	quota(4)
	b.now = b.now.Add(-time.Second)
	at, ok := b.m.nextTick()
	require.True(t, ok)
	b.now = at.Add(-time.Second)
	require.True(t, room(b.step(tick{})))
	require.Nil(t, b.m.snapshot().QuotaSeats)

	b.probeFailed(engine.Refused)
	b.probeFailed(engine.Refused)
	require.Nil(t, b.m.snapshot().QuotaSeats)
	b.probed(many)
	quota(2)
	for n := range 31 {
		quota(2 + 2*n)
		ticket := b.granted()
		b.now = b.now.Add(-time.Second)
		b.step(fleet.Started{Ticket: ticket})
		b.now = b.now.Add(-time.Second)
		b.step(fleet.End{Ticket: ticket, Reason: ledger.Finished})
		b.now = b.now.Add(-time.Second)
	}
	require.Nil(t, b.m.snapshot().QuotaSeats, "all are open")
	require.Positive(t, scoring.Tokens(b.m.snapshot().Load.Limits.Seats))
}

// TestAPutOffDrain: the last replica that serves waits for its successor, at most until what runs is to be moved. The machine
// says when it looks again, and an order takes the place of one that waits.
func TestAPutOffDrain(t *testing.T) {
	next := fleet.Peer{ID: "next", Rises: true}
	far := func(b *bench) *time.Time { return new(b.now.Add(time.Hour)) }
	for name, c := range map[string]struct {
		peers []fleet.Peer
		leave func(b *bench) *time.Time
		waits bool
	}{
		"nobody comes":                   {nil, far, false},
		"somebody comes":                 {[]fleet.Peer{next}, far, true},
		"somebody comes, and no hurry":   {[]fleet.Peer{next}, func(*bench) *time.Time { return nil }, true},
		"somebody comes, but it is time": {[]fleet.Peer{next}, func(b *bench) *time.Time { return new(b.now) }, false},
		"somebody serves":                {[]fleet.Peer{next, {ID: "other", Serves: true}}, far, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := reach(t, fleet.Ready)
			b.step(fleet.Beats{Peers: c.peers})
			b.step(fleet.Drain{Leave: c.leave(b), Keep: true})
			require.Equal(t, c.waits, b.m.state == fleet.Ready)
			if !c.waits {
				return
			}
			at, ok := b.m.nextTick()
			require.True(t, ok)
			require.False(t, at.After(b.now.Add(successorEvery)))
			b.now = b.now.Add(successorEvery)
			b.step(tick{})
			require.Equal(t, fleet.Ready, b.m.state, "there is nobody yet")
			b.step(fleet.Beats{Peers: []fleet.Peer{{ID: "next", Serves: true}}})
			b.now = b.now.Add(successorEvery)
			b.step(tick{})
			require.Equal(t, fleet.Draining, b.m.state)
			require.Nil(t, b.m.putOff)
		})
	}
	b := reach(t, fleet.Ready)
	b.step(fleet.Beats{Peers: []fleet.Peer{next}})
	b.step(fleet.Drain{Leave: far(b)})
	b.step(fleet.Undrain{})
	b.step(fleet.Beats{})
	b.now = b.now.Add(time.Minute)
	b.step(tick{})
	require.Equal(t, fleet.Ready, b.m.state, "it was asked back")
}

// TestWhatAnActorLeavesOfOrders: the order that it failed at takes the place of the drain that it had put off.
func TestWhatAnActorLeavesOfOrders(t *testing.T) {
	y := NewMemory()
	ref := fleet.NewRef("r", "m", &stub{}, nil)
	y.order = fleet.Drain{}
	y.fail(ref, fleet.Undrain{})
	y.fail(ref, fleet.Linger{})
	require.Equal(t, []any{fleet.Linger{}, fleet.Undrain{}}, y.inherit())
	require.Empty(t, y.inherit())
}
