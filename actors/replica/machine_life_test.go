package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// TestIncarnation: what shows another life of the engine, and what does not.
func TestIncarnation(t *testing.T) {
	steps := func(s engine.Status, n uint64) engine.Status {
		s.Load.Steps = &n
		return s
	}
	for name, c := range map[string]struct {
		happen func(*bench)
		reborn bool
	}{
		"the same evidence":           {func(b *bench) { b.probed(status("a")) }, false},
		"other evidence":              {func(b *bench) { b.probed(status("b")) }, true},
		"no evidence for once":        {func(b *bench) { b.probed(status("")); b.probed(status("a")) }, false},
		"other evidence after none":   {func(b *bench) { b.probed(status("")); b.probed(status("b")) }, true},
		"counters go on":              {func(b *bench) { b.probed(steps(status(""), 5)); b.probed(steps(status(""), 9)) }, false},
		"counters back":               {func(b *bench) { b.probed(steps(status(""), 5)); b.probed(steps(status(""), 4)) }, true},
		"evidence beats counters":     {func(b *bench) { b.probed(steps(status("a"), 5)); b.probed(steps(status("a"), 4)) }, false},
		"another size of blocks":      {func(b *bench) { s := status(""); s.BlockTokens = ptr(32); b.probed(s) }, true},
		"down for a while, same name": {func(b *bench) { down(b, engine.Refused); b.probed(status("a")) }, false},
		"refused, nothing lives":      {func(b *bench) { down(b, engine.Refused); b.probed(status("")) }, true},
		"refused, something lives":    {func(b *bench) { b.granted(); down(b, engine.Refused); b.probed(status("")) }, false},
		"refused once":                {func(b *bench) { b.probeFailed(engine.Refused); b.probed(status("")) }, false},
		"no answer, nothing lives":    {func(b *bench) { down(b, engine.Broken); b.probed(status("")) }, false},
		"refused, then no evidence, then evidence": {func(b *bench) {
			down(b, engine.Refused)
			b.probed(status("")) // reborn
			b.probed(status("b"))
			b.probed(status("b"))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := reach(t, Ready)
			b.all = nil
			c.happen(b)
			want := uint64(1)
			if c.reborn {
				want = 2
			}
			require.Equal(t, want, b.m.snapshot().Incarnation)
			tuned, ok := find[tuneFeed](b.all)
			require.Equal(t, c.reborn, ok)
			if c.reborn {
				require.EqualValues(t, 2, tuned.incarnation)
				require.True(t, has[voidIndex](b.all))
			}
		})
	}
}

// down lets probes fail until the replica counts as down.
func down(b *bench, kind engine.FailKind) {
	for b.m.state != Down {
		b.probeFailed(kind)
	}
}

// TestRebirth: a new life voids tickets, cooling and distrust. What was granted since the old one was last seen may run on
// the new one already: it stays booked until its stream ends it.
func TestRebirth(t *testing.T) {
	b := reach(t, Ready)
	old := b.granted()
	lingering := b.granted()
	b.step(Linger{of(lingering)})
	b.probed(status("a"))
	late := b.granted()
	b.m.shed(b.now, 0)
	b.probed(status("b"))
	require.Equal(t, Warming, b.m.state)
	require.Equal(t, ledger.Ended, b.m.ledger.State(old))
	require.Equal(t, ledger.Ended, b.m.ledger.State(lingering))
	require.Equal(t, ledger.Reserved, b.m.ledger.State(late))
	require.Zero(t, b.m.snapshot().CoolingUntil)
	require.EqualValues(t, 2, b.m.ledger.Counters().Ends[ledger.Lost])
	b.step(FeedReady{2})
	require.Equal(t, ledger.Closed, b.reserveAt(b.claim(), 1), "the life that was ranked is over")
	b.failed(late, engine.Broken)
	require.True(t, b.m.ledger.Empty())
	b.failed(old, engine.Broken)
	require.True(t, b.m.ledger.Empty(), "streams of the old life end late and change nothing")

	// Nobody listened at some moment after the grant: the ticket can't run on what answers now.
	early := b.granted()
	down(b, engine.Refused)
	b.probed(status("c"))
	require.Equal(t, ledger.Ended, b.m.ledger.State(early))
}

// TestLingering: a ticket whose engine does not confirm is freed when the bound has passed, or before that when a probe
// sent after it was given up shows no sequence too many.
func TestLingering(t *testing.T) {
	figures := func(running, waiting *int) engine.Status {
		s := status("a")
		s.Load = engine.Load{RunningSequences: running, WaitingSequences: waiting}
		return s
	}
	linger := func(caps engine.Capabilities) (*bench, scoring.Ticket) {
		b := newBench(t, testConfig(), caps)
		b.probed(figures(ptr(0), nil))
		b.step(FeedReady{1})
		b.granted() // another that goes on
		ticket := b.granted()
		b.step(Linger{of(ticket)})
		require.Equal(t, ledger.Lingering, b.m.ledger.State(ticket))
		return b, ticket
	}
	state := func(b *bench, s engine.Status, ticket scoring.Ticket) ledger.State {
		b.probed(s)
		return b.m.ledger.State(ticket)
	}

	b, ticket := linger(withoutFeed)
	at, ok := b.m.nextTick()
	require.True(t, ok)
	require.Equal(t, b.now.Add(3*time.Second), at)
	b.now = at.Add(-time.Second)
	require.True(t, room(b.step(tick{})))
	require.Equal(t, ledger.Ended, b.m.ledger.State(ticket))
	b.step(End{Ticket: scoring.Ticket{Boot: 1, Number: ticket.Number - 1}}) // the other one
	_, ok = b.m.nextTick()
	require.False(t, ok)

	b, ticket = linger(withoutFeed)
	require.Equal(t, ledger.Lingering, state(b, figures(ptr(2), nil), ticket), "it still runs")
	require.Equal(t, ledger.Lingering, state(b, figures(nil, nil), ticket), "nothing is told")
	require.Equal(t, ledger.Lingering, state(b, figures(ptr(1), ptr(1)), ticket), "what waits may be it")
	require.Equal(t, ledger.Ended, state(b, figures(ptr(1), ptr(0)), ticket))
	require.True(t, room(b.last))

	b, ticket = linger(withoutFeed)
	b.step(Probed{Status: figures(ptr(1), ptr(0)), Began: b.now})
	require.Equal(t, ledger.Lingering, b.m.ledger.State(ticket), "the probe was sent before it was given up")

	b, ticket = linger(withFeed)
	require.Equal(t, ledger.Lingering, state(b, figures(ptr(1), ptr(0)), ticket), "this engine confirms, so it is waited for")
	b.now = b.now.Add(time.Minute)
	b.step(tick{})
	require.Equal(t, ledger.Lingering, b.m.ledger.State(ticket), "however long it hangs")
	b.step(End{Ticket: ticket, Reason: ledger.Cancelled})
	require.Equal(t, ledger.Ended, b.m.ledger.State(ticket))
}

// restarted is the machine of a second epoch over what the first published, awaiting calls.
func restarted(b *bench, calls int) *bench {
	old := *b.m.snapshot()
	old.Epoch++
	next := &bench{t: b.t, now: b.now, next: b.next}
	next.m = newMachine(b.now, b.m.cfg, b.m.caps, b.m.rng, b.m.life, calls, &old)
	next.last = next.m.start(b.now)
	return next
}

// TestRestart: after a panic of ours nothing is granted before every live call has announced its tickets; what they
// announce is booked as it was.
func TestRestart(t *testing.T) {
	b := reach(t, Ready)
	reserved, running, lingering := b.claim(), b.claim(), b.claim()
	running.SequenceTokens = 500
	b.step(&Reserve{Claim: reserved, Incarnation: 1})
	b = restarted(b, 3)
	require.True(t, b.m.snapshot().Recovering)
	require.EqualValues(t, 2, b.m.snapshot().Epoch)
	require.Equal(t, Warming, b.m.state)
	require.Zero(t, b.m.snapshot().Load.BookedBlocks)
	b.now = b.now.Add(-time.Second)
	b.step(FeedReady{1})
	b.now = b.now.Add(-time.Second)
	b.probed(status("a"))
	require.Equal(t, Ready, b.m.state)
	require.EqualValues(t, 1, b.m.snapshot().Incarnation, "an epoch is no new life")

	announce := func(epoch uint64, as ...Announcement) {
		b.now = b.now.Add(-time.Second)
		b.step(Announced{Epoch: epoch, Tickets: as})
	}
	b.now = b.now.Add(-time.Second)
	require.Equal(t, ledger.Closed, b.reserve(b.claim()), "not before all have answered")
	announce(1, Announcement{Attempt: Attempt{Claim: reserved, Incarnation: 1}})
	require.Equal(t, ledger.Ended, b.m.ledger.State(reserved.Ticket), "an answer to an epoch before")
	announce(2, Announcement{Attempt: Attempt{Claim: reserved, Incarnation: 1}})
	announce(2,
		Announcement{Attempt{Claim: running, Produced: 60, Incarnation: 1}, ledger.Running},
		Announcement{Attempt{Claim: lingering, Incarnation: 1}, ledger.Lingering},
		Announcement{Attempt{Claim: b.claim(), Incarnation: 0}, ledger.Running}) // of a life that is over
	require.True(t, b.m.snapshot().Recovering)
	announce(2)
	require.True(t, room(b.last))
	require.False(t, b.m.snapshot().Recovering)
	load := b.m.snapshot().Load
	require.Equal(t, [...]int{1, 1, 1}, [...]int{load.Reserved, load.Running, load.Lingering})
	require.EqualValues(t, 32, load.BookedBlocks)
	require.EqualValues(t, 2, load.OverdraftBlocks, "what it has produced is beyond its claim")
	b.step(End{Ticket: running.Ticket})
	require.Equal(t, ledger.None, b.reserve(b.claim()))
	announce(2, Announcement{Attempt: Attempt{Claim: b.claim(), Incarnation: 1}})
	require.Equal(t, 3, b.m.snapshot().Load.SeatsBooked, "all have answered: nobody is asked any more")
}

// TestLingeringOutlivesAPanic: where the engine does not say when it lets go, the attempt has returned and nobody announces
// what it may still hold.
func TestLingeringOutlivesAPanic(t *testing.T) {
	for name, c := range map[string]struct {
		caps engine.Capabilities
		want ledger.State
	}{
		"the engine confirms": {withFeed, ledger.Ended}, // its attempt has not returned, and is announced
		"it does not":         {withoutFeed, ledger.Lingering},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, testConfig(), c.caps)
			b.probed(status("a"))
			b.step(FeedReady{1})
			claim := b.claim()
			require.Equal(t, ledger.None, b.reserve(claim))
			b.step(Started{claim.Ticket})
			b.step(Linger{of(claim.Ticket)})
			bound, lingers := b.m.ledger.NextExpiry()
			require.True(t, lingers)
			b = restarted(restarted(b, 0), 0)
			require.Equal(t, c.want, b.m.ledger.State(claim.Ticket))
			if c.want == ledger.Lingering {
				still, _ := b.m.ledger.NextExpiry()
				require.Equal(t, bound, still, "it lingers no longer than it would have")
			}
		})
	}
}

// TestWhatCameToALaterLifeOutlivesAPanic: a ticket that was granted before anybody knew that the engine had been restarted
// may run on its new life. It names the old one, and is booked again all the same.
func TestWhatCameToALaterLifeOutlivesAPanic(t *testing.T) {
	b := reach(t, Ready)
	early, late := b.claim(), b.claim()
	require.Equal(t, ledger.None, b.reserve(early))
	before := b.now
	b.probed(status("a"))
	require.Equal(t, ledger.None, b.reserve(late))
	after := b.now
	b.probed(status("b"))
	require.EqualValues(t, 2, b.m.snapshot().Incarnation)
	require.Equal(t, ledger.Ended, b.m.ledger.State(early.Ticket))
	require.Equal(t, ledger.Reserved, b.m.ledger.State(late.Ticket))
	b = restarted(b, 1)
	b.step(Announced{Epoch: 2, Tickets: []Announcement{
		{Attempt: Attempt{Claim: early, Incarnation: 1, Began: before}}, {Attempt: Attempt{Claim: late, Incarnation: 1, Began: after}},
	}})
	require.Equal(t, ledger.Ended, b.m.ledger.State(early.Ticket))
	require.Equal(t, ledger.Reserved, b.m.ledger.State(late.Ticket))
}

// TestRestartIsBounded: a call that does not answer is waited for a second, no longer.
func TestRestartIsBounded(t *testing.T) {
	b := restarted(reach(t, Ready), 1)
	at, ok := b.m.nextTick()
	require.True(t, ok)
	require.Equal(t, b.now.Add(time.Second), at)
	require.True(t, room(b.step(tick{})))
	require.False(t, b.m.snapshot().Recovering)
	_, ok = b.m.nextTick()
	require.False(t, ok, "a machine that waits for a probe wants no tick: the wait for the feed counts from there")
}

// TestRestartInEveryState: what the engine was found to be holds on, whoever looks.
func TestRestartInEveryState(t *testing.T) {
	for from := range NumStates {
		b := reach(t, from)
		b.m.coolingUntil = b.now.Add(time.Minute)
		before := b.m.snapshot()
		after := restarted(b, 0).m.snapshot()
		want := from
		switch from {
		case Ready:
			want = Warming // its children are new
		case Draining:
			want = Gone // and nothing lives there
		case Starting, Warming, Degraded, Down, Gone, NumStates:
		}
		require.Equal(t, want, after.State)
		require.Equal(t, before.Told, after.Told)
		require.Equal(t, before.Load.Limits, after.Load.Limits)
		require.Equal(t, before.CoolingUntil, after.CoolingUntil)
		require.Equal(t, before.EngineModel, after.EngineModel)
		require.Equal(t, before.LastError, after.LastError)
		require.False(t, after.Recovering)
	}
}

// TestRestartWhileDraining: what is announced is drained yet.
func TestRestartWhileDraining(t *testing.T) {
	b := restarted(reach(t, Draining), 1)
	require.Equal(t, Draining, b.m.state)
	c := b.claim()
	b.now = b.now.Add(-time.Second)
	b.step(Announced{Epoch: 2, Tickets: []Announcement{{Attempt: Attempt{Claim: c, Incarnation: 1}}}})
	require.Equal(t, Draining, b.m.state)
	b.step(End{Ticket: c.Ticket})
	require.Equal(t, Gone, b.m.state)

	b = restarted(reach(t, Draining), 1)
	b.step(tick{})
	require.Equal(t, Gone, b.m.state, "nobody announced anything")
}
