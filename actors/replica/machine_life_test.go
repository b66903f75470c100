package replica

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
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
			b := reach(t, fleet.Ready)
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
	for b.m.state != fleet.Down {
		b.probeFailed(kind)
	}
}

// TestRebirth: a new life voids tickets, cooling and distrust. What was granted since the old one was last seen may run on
// the new one already: it stays booked until its stream ends it.
func TestRebirth(t *testing.T) {
	b := reach(t, fleet.Ready)
	old := b.granted()
	lingering := b.granted()
	b.step(fleet.Linger{Attempt: of(lingering)})
	b.probed(status("a"))
	late := b.granted()
	b.m.shed(b.now, fleet.AttemptFailed{Failure: &engine.Failure{Kind: engine.Shed}})
	b.probed(status("b"))
	require.Equal(t, fleet.Warming, b.m.state)
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

// TestOnItsWayAtRebirth: what was granted a moment before the old life was last seen may have reached the new one.
func TestOnItsWayAtRebirth(t *testing.T) {
	for name, c := range map[string]struct {
		before time.Duration
		want   ledger.State
	}{
		"on its way": {testConfig().ReachWait / 2, ledger.Reserved},
		"arrived":    {2 * testConfig().ReachWait, ledger.Ended},
	} {
		t.Run(name, func(t *testing.T) {
			b := reach(t, fleet.Ready)
			ticket := b.granted()
			b.m.step(b.now.Add(c.before), Probed{Status: status("a"), Began: b.now.Add(c.before)})
			b.m.step(b.now.Add(c.before), Probed{Status: status("b"), Began: b.now.Add(c.before)})
			require.EqualValues(t, 2, b.m.life.incarnation)
			require.Equal(t, c.want, b.m.ledger.State(ticket))
		})
	}
}

// lingers is a bench with a ticket that lingers beside another that goes on, on an engine that tells its sequences and steps.
func lingers(t *testing.T, caps engine.Capabilities) (*bench, scoring.Ticket) {
	t.Helper()
	cfg := testConfig()
	cfg.HangLeast, cfg.HangBlind = time.Hour, time.Hour // silence is of no interest here
	b := newBench(t, cfg, caps)
	b.probed(figures(ptr(0), nil, 0))
	b.step(FeedReady{1})
	b.granted()
	ticket := b.granted()
	b.step(fleet.Linger{Attempt: of(ticket)})
	require.Equal(t, ledger.Lingering, b.m.ledger.State(ticket))
	return b, ticket
}

// figures is what an engine says that tells its sequences and its steps.
func figures(running, waiting *int, steps uint64) engine.Status {
	s := status("a")
	s.Load = engine.Load{RunningSequences: running, WaitingSequences: waiting, Steps: &steps}
	return s
}

// TestLingeringHasABound: a ticket whose engine does not confirm is freed when its bound has passed and the engine is there;
// one whose engine confirms is waited for.
func TestLingeringHasABound(t *testing.T) {
	b, ticket := lingers(t, withoutFeed)
	began := b.now
	at, ok := b.m.nextTick()
	require.True(t, ok)
	require.Equal(t, began.Add(withoutFeed.LingerBound), at)
	b.now = at.Add(-time.Second)
	require.True(t, has[hurryProbe](b.step(tick{})), "is it there?")
	require.Equal(t, ledger.Lingering, b.m.ledger.State(ticket))
	if next, wanted := b.m.nextTick(); wanted {
		require.NotEqual(t, at, next, "it is asked once")
	}
	b.now = at.Add(-time.Second)
	b.step(Probed{Status: status("a"), Began: at.Add(-1)})
	require.Equal(t, ledger.Lingering, b.m.ledger.State(ticket), "it may have been stopped since")
	b.now = b.now.Add(-time.Second)
	require.True(t, room(b.step(Probed{Status: status("a"), Began: at})))
	require.Equal(t, ledger.Ended, b.m.ledger.State(ticket))

	b, ticket = lingers(t, withFeed)
	b.now = b.now.Add(time.Minute)
	b.probed(figures(ptr(0), ptr(0), 99))
	require.Equal(t, ledger.Lingering, b.m.ledger.State(ticket), "however long it hangs")
	b.step(fleet.End{Ticket: ticket, Reason: ledger.Cancelled})
	require.Equal(t, ledger.Ended, b.m.ledger.State(ticket))
}

// TestFiguresEndLingering: where the engine's figures show that nothing runs or waits there, and its core has worked since the
// ticket was given up. The figures of a core that hangs are old.
func TestFiguresEndLingering(t *testing.T) {
	heard := func(after time.Duration) func(b *bench) {
		return func(b *bench) {
			at := b.now.Add(after)
			b.step(fleet.Beats{Last: &at})
		}
	}
	for name, c := range map[string]struct {
		before func(b *bench) // in the second after it was given up
		first  engine.Status
		then   engine.Status // half a second later
		ends   bool
	}{
		"its steps went on":                     {nil, figures(ptr(1), nil, 5), figures(ptr(0), ptr(0), 6), true},
		"it tells nothing of what waits":        {nil, figures(ptr(1), nil, 5), figures(ptr(0), nil, 6), true},
		"its steps stand still":                 {nil, figures(ptr(1), nil, 5), figures(ptr(0), ptr(0), 5), false},
		"its steps went on before that":         {nil, figures(ptr(0), nil, 5), figures(ptr(0), ptr(0), 5), false},
		"it still runs":                         {nil, figures(ptr(1), nil, 5), figures(ptr(1), ptr(0), 6), false},
		"what waits may be it":                  {nil, figures(ptr(1), nil, 5), figures(ptr(0), ptr(1), 6), false},
		"it tells nothing":                      {nil, figures(ptr(1), nil, 5), figures(nil, nil, 6), false},
		"a token came":                          {heard(time.Second), figures(ptr(0), nil, 5), figures(ptr(0), nil, 5), true},
		"a token that may have been on its way": {heard(100 * time.Millisecond), figures(ptr(0), nil, 5), figures(ptr(0), nil, 5), false},
	} {
		t.Run(name, func(t *testing.T) {
			b, ticket := lingers(t, withoutFeed)
			b.m.cfg.HangLeast = 250 * time.Millisecond
			if c.before != nil {
				c.before(b)
			}
			for _, s := range []engine.Status{c.first, c.then} {
				b.now = b.now.Add(-time.Second / 2)
				b.step(Probed{Status: s, Began: b.now.Add(time.Second - time.Millisecond)})
			}
			want := ledger.Lingering
			if c.ends {
				want = ledger.Ended
				require.True(t, room(b.last))
			}
			require.Equal(t, want, b.m.ledger.State(ticket))
		})
	}
}

// TestWhatLingersIsOnHold while its engine gives no sign of life: a process that is stopped lets go of nothing. With the first
// sign of life the whole bound begins anew.
func TestWhatLingersIsOnHold(t *testing.T) {
	late := ProbeFailed{Failure: &engine.Failure{Kind: engine.Broken, Err: context.DeadlineExceeded}}
	probe := func(b *bench) { b.probed(status("a")) }
	token := func(b *bench) { at := b.now.Add(time.Second); b.step(fleet.Beats{Last: &at}) }
	unanswered := func(b *bench) { late.Began = b.now; b.step(late) }
	suspected := func(b *bench) { b.m.suspect(b.now); b.step(tick{}) }
	struck := func(b *bench) { b.m.strike(b.now, hangs, "test"); b.step(tick{}) }
	canary := func(b *bench) {
		b.now = b.now.Add(time.Minute)
		b.step(tick{})
		b.step(canaryDone{b.m.watch.canaries, errors.New("cancelled")})
		b.step(canaryDone{b.m.watch.canaries, nil})
	}
	for name, c := range map[string]struct{ goes, comes func(b *bench) }{
		"a probe was not answered, and the next is": {unanswered, probe},
		"a probe was not answered, a token comes":   {unanswered, token},
		"suspected, a token comes":                  {suspected, token},
		"hung, a canary comes back":                 {struck, canary},
		"hung and not answering":                    {func(b *bench) { struck(b); unanswered(b) }, canary},
	} {
		t.Run(name, func(t *testing.T) {
			b, ticket := lingers(t, withoutFeed)
			c.goes(b)
			b.now = b.now.Add(time.Minute)
			b.step(fleet.Progress{Ticket: ticket, Produced: 1})
			require.Equal(t, ledger.Lingering, b.m.ledger.State(ticket))
			c.comes(b)
			probe(b)
			require.Equal(t, ledger.Lingering, b.m.ledger.State(ticket), "it has just begun to work again")
			b.now = b.now.Add(withoutFeed.LingerBound)
			probe(b)
			require.Equal(t, ledger.Ended, b.m.ledger.State(ticket))
		})
	}
	for name, c := range map[string]struct{ then func(b *bench) }{
		"nobody listens any more: nothing can linger there": {func(b *bench) {
			b.step(ProbeFailed{Failure: &engine.Failure{Kind: engine.Refused}, Began: b.now})
		}},
		"it leaves, and will grant nothing": {func(b *bench) { b.step(fleet.Drain{}); unanswered(b) }},
	} {
		t.Run(name, func(t *testing.T) {
			b, ticket := lingers(t, withoutFeed)
			unanswered(b)
			b.now = b.now.Add(time.Minute)
			c.then(b)
			b.now = b.now.Add(time.Minute)
			c.then(b)
			require.Equal(t, ledger.Ended, b.m.ledger.State(ticket))
		})
	}
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
	b := reach(t, fleet.Ready)
	reserved, running, lingering := b.claim(), b.claim(), b.claim()
	running.SequenceTokens = 500
	b.step(&fleet.Reserve{Claim: reserved, Incarnation: 1})
	b = restarted(b, 3)
	require.True(t, b.m.snapshot().Recovering)
	require.EqualValues(t, 2, b.m.snapshot().Epoch)
	require.Equal(t, fleet.Warming, b.m.state)
	require.Zero(t, b.m.snapshot().Load.BookedBlocks)
	b.now = b.now.Add(-time.Second)
	b.step(FeedReady{1})
	b.now = b.now.Add(-time.Second)
	b.probed(status("a"))
	require.Equal(t, fleet.Ready, b.m.state)
	require.EqualValues(t, 1, b.m.snapshot().Incarnation, "an epoch is no new life")

	announce := func(epoch uint64, as ...fleet.Announcement) {
		b.now = b.now.Add(-time.Second)
		b.step(fleet.Announced{Epoch: epoch, Tickets: as})
	}
	b.now = b.now.Add(-time.Second)
	require.Equal(t, ledger.Closed, b.reserve(b.claim()), "not before all have answered")
	announce(1, fleet.Announcement{Attempt: fleet.Attempt{Claim: reserved, Incarnation: 1}})
	require.Equal(t, ledger.Ended, b.m.ledger.State(reserved.Ticket), "an answer to an epoch before")
	announce(2, fleet.Announcement{Attempt: fleet.Attempt{Claim: reserved, Incarnation: 1}})
	announce(2,
		fleet.Announcement{Attempt: fleet.Attempt{Claim: running, Produced: 60, Incarnation: 1}, State: ledger.Running},
		fleet.Announcement{Attempt: fleet.Attempt{Claim: lingering, Incarnation: 1}, State: ledger.Lingering},
		fleet.Announcement{Attempt: fleet.Attempt{Claim: b.claim(), Incarnation: 0}, State: ledger.Running}) // of a life that is over
	require.True(t, b.m.snapshot().Recovering)
	announce(2)
	require.True(t, room(b.last))
	require.False(t, b.m.snapshot().Recovering)
	load := b.m.snapshot().Load
	require.Equal(t, [...]int{1, 1, 1}, [...]int{load.Reserved, load.Running, load.Lingering})
	require.EqualValues(t, 32, load.BookedBlocks)
	require.EqualValues(t, 2, load.OverdraftBlocks, "what it has produced is beyond its claim")
	b.step(fleet.End{Ticket: running.Ticket})
	require.Equal(t, ledger.None, b.reserve(b.claim()))
	announce(2, fleet.Announcement{Attempt: fleet.Attempt{Claim: b.claim(), Incarnation: 1}})
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
			b.step(fleet.Started{Ticket: claim.Ticket})
			b.step(fleet.Linger{Attempt: of(claim.Ticket)})
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
	b := reach(t, fleet.Ready)
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
	b.step(fleet.Announced{Epoch: 2, Tickets: []fleet.Announcement{
		{Attempt: fleet.Attempt{Claim: early, Incarnation: 1, Began: before}}, {Attempt: fleet.Attempt{Claim: late, Incarnation: 1, Began: after}},
	}})
	require.Equal(t, ledger.Ended, b.m.ledger.State(early.Ticket))
	require.Equal(t, ledger.Reserved, b.m.ledger.State(late.Ticket))
}

// TestRestartIsBounded: a call that does not answer is waited for a second, no longer.
func TestRestartIsBounded(t *testing.T) {
	b := restarted(reach(t, fleet.Ready), 1)
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
	for from := range fleet.NumStates {
		b := reach(t, from)
		b.m.coolingUntil = b.now.Add(time.Minute)
		before := b.m.snapshot()
		after := restarted(b, 0).m.snapshot()
		want := from
		switch from {
		case fleet.Ready:
			want = fleet.Warming // its children are new
		case fleet.Draining:
			want = fleet. // and nothing lives there
					Gone
		case fleet.Starting, fleet.Warming, fleet.Degraded, fleet.Down, fleet.Gone, fleet.NumStates:
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
	b := restarted(reach(t, fleet.Draining), 1)
	require.Equal(t, fleet.Draining, b.m.state)
	c := b.claim()
	b.now = b.now.Add(-time.Second)
	b.step(fleet.Announced{Epoch: 2, Tickets: []fleet.Announcement{{Attempt: fleet.Attempt{Claim: c, Incarnation: 1}}}})
	require.Equal(t, fleet.Draining, b.m.state)
	b.step(fleet.End{Ticket: c.Ticket})
	require.Equal(t, fleet.Gone, b.m.state)

	b = restarted(reach(t, fleet.Draining), 1)
	b.step(tick{})
	require.Equal(t, fleet.Gone, b.m.state, "nobody announced anything")
}
