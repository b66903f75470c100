package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/prefix"
)

// TestStates is the table of the life cycle: what each event makes of each state.
func TestStates(t *testing.T) {
	const st, wa, re, de, dr, do, gone = fleet.Starting, fleet.Warming, fleet.Ready, fleet.Degraded, fleet.Draining, fleet.Down, fleet.Gone
	events := []struct {
		name   string
		happen func(*bench)
		// to, from Starting, Warming, Ready, Degraded, Draining (one ticket booked), Down and Gone; the last
		// five have had a feed.
		to [fleet.NumStates]fleet.State
	}{
		{"a probe succeeds", func(b *bench) { b.probed(status("a")) }, [...]fleet.State{wa, wa, re, re, dr, re, gone}}, // its feed goes on
		{"a probe shows another process", func(b *bench) { b.probed(status("b")) }, [...]fleet.State{wa, wa, wa, wa, gone, wa, gone}},
		{"a probe shows no room at all", func(b *bench) {
			s := status("a")
			s.KVBlocks = ptr(0)
			b.probed(s)
		}, [...]fleet.State{de, de, de, de, dr, de, gone}},
		{"a probe is refused", func(b *bench) { b.probeFailed(engine.Refused) }, [...]fleet.State{do, wa, re, de, dr, do, gone}},
		{"two probes are refused", func(b *bench) {
			b.probeFailed(engine.Refused)
			b.probeFailed(engine.Refused)
		}, [...]fleet.State{do, do, do, do, gone, do, gone}},
		{"two probes find it loading", func(b *bench) {
			b.probeFailed(engine.Shed)
			b.probeFailed(engine.Shed)
		}, [...]fleet.State{do, do, do, do, dr, do, gone}},
		{"two probes break", func(b *bench) {
			b.probeFailed(engine.Broken)
			b.probeFailed(engine.Broken)
		}, [...]fleet.State{do, do, do, do, dr, do, gone}},
		{"a failure between successes", func(b *bench) {
			for range 3 {
				b.probeFailed(engine.Broken)
				b.probed(status("a"))
			}
		}, [...]fleet.State{re, re, re, re, dr, re, gone}}, // three probes take longer than the wait for the feed
		{"a probe finds our key refused", func(b *bench) { b.probeFailed(engine.Operator) }, [...]fleet.State{de, de, de, de, dr, de, gone}},
		{"the feed begins", func(b *bench) { b.step(FeedReady{b.m.life.incarnation}) }, [...]fleet.State{st, re, re, de, dr, do, gone}},
		{"the feed of another life begins", func(b *bench) { b.step(FeedReady{7}) }, [...]fleet.State{st, wa, re, de, dr, do, gone}},
		{"the wait for the feed is over", func(b *bench) {
			b.now = b.now.Add(b.m.cfg.FeedWait)
			b.step(tick{})
		}, [...]fleet.State{st, re, re, de, dr, do, gone}},
		{"it is asked to drain", func(b *bench) { b.step(fleet.Drain{}) }, [...]fleet.State{gone, gone, gone, gone, dr, gone, gone}},
		{"its only ticket ends", func(b *bench) {
			b.step(fleet.End{Ticket: scoring.Ticket{Boot: 1, Number: 1}, Reason: ledger.Finished})
		}, [...]fleet.State{st, wa, re, de, gone, do, gone}},
		{"an attempt that is not booked is refused", func(b *bench) {
			b.failed(scoring.Ticket{Boot: 9, Number: 9}, engine.Operator)
		}, [...]fleet.State{st, wa, re, de, dr, do, gone}},
	}
	for _, ev := range events {
		for from := range fleet.NumStates {
			t.Run(ev.name+" while "+from.String(), func(t *testing.T) {
				b := reach(t, from)
				incarnation := b.m.life.incarnation
				b.all = nil
				ev.happen(b)
				require.Equal(t, ev.to[from], b.m.state)
				snap := b.m.snapshot()
				require.Equal(t, ev.to[from], snap.State)
				if ev.to[from] != from {
					require.True(t, has[entered](b.all), "a change of state is told")
				}
				if b.m.life.incarnation != incarnation {
					require.True(t, has[voidIndex](b.all))
					require.True(t, has[tuneFeed](b.all))
				}
				if from != fleet.Down && from != fleet.Starting && ev.to[from] == fleet.Down {
					require.True(t, has[voidIndex](b.all), "a dead engine holds nothing")
				}
				if from == fleet.Draining {
					return // its one ticket may be there
				}
				want := ledger.Closed
				if ev.to[from].Routable() {
					want = ledger.None
				}
				require.Equal(t, want, b.reserve(b.claim()))
			})
		}
	}
}

// TestStateTraits: what a state means for others.
func TestStateTraits(t *testing.T) {
	for s := range fleet.NumStates {
		require.NotEmpty(t, s.String())
		require.Equal(t, s == fleet.Ready, s.Routable(), s)
		require.Equal(t, s == fleet.Warming || s == fleet.Ready || s == fleet.Degraded || s == fleet.Draining, s.LegsStay(), s)
		require.Equal(t, s == fleet.Ready || s == fleet.Degraded || s == fleet.Draining, s.IndexValid(), s)
	}
}

// TestLimits: the vector of what the engine tells and what the operator says.
func TestLimits(t *testing.T) {
	type say struct{ block, blocks, seats, sequence *int }
	type order struct {
		capacity, sequence *scoring.Tokens
		seats              *int
	}
	tokens := func(n scoring.Tokens) *scoring.Tokens { return &n }
	for name, c := range map[string]struct {
		engine   say
		operator order
		want     scoring.Limits
	}{
		"all is told":                     {say{ptr(16), ptr(100), ptr(4), ptr(1000)}, order{}, scoring.Limits{BlockTokens: 16, KVBlocks: 100, Seats: 4, SequenceTokens: 1000}},
		"a sequence never exceeds the KV": {say{ptr(16), ptr(10), ptr(4), ptr(1000)}, order{}, scoring.Limits{BlockTokens: 16, KVBlocks: 10, Seats: 4, SequenceTokens: 160}},
		"no longest sequence is told":     {say{ptr(16), ptr(10), ptr(4), nil}, order{}, scoring.Limits{BlockTokens: 16, KVBlocks: 10, Seats: 4, SequenceTokens: 160}},
		"no seats are told":               {say{ptr(16), ptr(10), nil, nil}, order{}, scoring.Limits{BlockTokens: 16, KVBlocks: 10, Seats: 1, SequenceTokens: 160}},
		"no block size is told":           {say{nil, ptr(100), ptr(2), nil}, order{}, scoring.Limits{BlockTokens: 1, KVBlocks: 100, Seats: 2, SequenceTokens: 100}},
		"figures that are none":           {say{ptr(16), ptr(10), ptr(0), ptr(0)}, order{}, scoring.Limits{BlockTokens: 16, KVBlocks: 10, Seats: 1, SequenceTokens: 160}},
		"below nothing":                   {say{ptr(-16), ptr(10), ptr(-1), ptr(-1)}, order{seats: ptr(2)}, scoring.Limits{BlockTokens: 1, KVBlocks: 10, Seats: 2, SequenceTokens: 10}},
		"misread ones":                    {say{ptr(1 << 50), ptr(10), ptr(1 << 50), ptr(1 << 50)}, order{}, scoring.Limits{BlockTokens: 1, KVBlocks: 10, Seats: 1, SequenceTokens: 10}},
		"the operator lowers all":         {say{ptr(16), ptr(100), ptr(4), ptr(1000)}, order{tokens(800), tokens(500), ptr(2)}, scoring.Limits{BlockTokens: 16, KVBlocks: 50, Seats: 2, SequenceTokens: 500}},
		"the operator raises nothing":     {say{ptr(16), ptr(100), ptr(4), ptr(1000)}, order{tokens(9999), tokens(9999), ptr(99)}, scoring.Limits{BlockTokens: 16, KVBlocks: 100, Seats: 4, SequenceTokens: 1000}},
		"the operator fills all in":       {say{}, order{tokens(800), tokens(500), ptr(2)}, scoring.Limits{BlockTokens: 1, KVBlocks: 800, Seats: 2, SequenceTokens: 500}},
		"capacity is cut to whole blocks": {say{ptr(16), nil, ptr(4), nil}, order{capacity: tokens(815)}, scoring.Limits{BlockTokens: 16, KVBlocks: 50, Seats: 4, SequenceTokens: 800}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			cfg.CapacityTokens, cfg.SequenceTokens, cfg.Seats = c.operator.capacity, c.operator.sequence, c.operator.seats
			b := newBench(t, cfg, withoutFeed)
			b.probed(engine.Status{BlockTokens: c.engine.block, KVBlocks: c.engine.blocks, Seats: c.engine.seats, SequenceTokens: c.engine.sequence})
			require.Equal(t, fleet.Ready, b.m.state)
			require.Equal(t, c.want, b.m.snapshot().Load.Limits)
			require.True(t, b.m.snapshot().Told)
			b.probed(engine.Status{})
			require.Equal(t, c.want, b.m.snapshot().Load.Limits, "what a probe leaves out is as it was told")
			require.EqualValues(t, 1, b.m.life.incarnation)
		})
	}
}

// TestCapacityNobodyTells: such an engine is never sent anything, which is said once, until somebody tells.
func TestCapacityNobodyTells(t *testing.T) {
	b := newBench(t, testConfig(), withoutFeed)
	alarms := 0
	for range 5 {
		if has[alarm](b.probed(engine.Status{Seats: ptr(4)})) {
			alarms++
		}
		require.Equal(t, fleet.Degraded, b.m.state)
		require.False(t, b.m.snapshot().Told, "no request is refused for ever because of it")
	}
	require.Equal(t, 1, alarms)
	b.probed(status(""))
	require.Equal(t, fleet.Ready, b.m.state)
}

// TestChangedLimits: an engine may change its mind within one life; only what concerns the index makes the feed begin anew.
func TestChangedLimits(t *testing.T) {
	b := reach(t, fleet.Ready)
	s := status("a")
	s.Seats = ptr(2)
	require.False(t, has[tuneFeed](b.probed(s)))
	s.KVBlocks = ptr(20)
	tuned, ok := find[tuneFeed](b.probed(s))
	require.True(t, ok)
	require.Equal(t, tune{blockTokens: 16, capacity: 320, incarnation: 1}, tuned.tune)
	require.Equal(t, scoring.Limits{BlockTokens: 16, KVBlocks: 20, Seats: 2, SequenceTokens: 320}, b.m.snapshot().Load.Limits)
	require.Equal(t, fleet.Ready, b.m.state)
}

// TestGrants: a place is granted at the right life and state only, and at most once.
func TestGrants(t *testing.T) {
	b := reach(t, fleet.Ready)
	require.Equal(t, ledger.Closed, b.reserveAt(b.claim(), 0), "another life was ranked")
	require.Equal(t, ledger.Closed, b.reserveAt(b.claim(), 2))
	c := b.claim()
	require.Equal(t, ledger.None, b.reserve(c))
	require.Equal(t, ledger.Duplicate, b.reserve(c))
	require.EqualValues(t, 10, b.m.snapshot().Load.BookedBlocks)
	require.Equal(t, c.Ticket, b.m.snapshot().Answered)
	for range 3 {
		b.granted()
	}
	require.Equal(t, ledger.NoSeats, b.reserve(b.claim()))
	big := b.claim()
	big.PrivateBlocks = 101
	require.Equal(t, ledger.TooLarge, b.reserve(big))
	require.True(t, room(b.step(fleet.End{Ticket: c.Ticket, Reason: ledger.Finished})))
	require.False(t, room(b.step(fleet.End{Ticket: c.Ticket, Reason: ledger.Finished})), "a second end frees nothing")
	require.EqualValues(t, 1, b.m.ledger.Counters().LateEnds)
	require.Equal(t, ledger.Duplicate, b.reserve(c), "an ended ticket is not granted again")
	b.granted()
}

// TestMilestones: a first token takes the prompt off the prefill queue; growth past the claim is overdraft, and bars where there
// is no room for as much again.
func TestMilestones(t *testing.T) {
	b := reach(t, fleet.Ready)
	ticket := b.granted()
	require.EqualValues(t, 100, b.m.snapshot().Load.QueuedPrefillTokens)
	require.False(t, room(b.step(fleet.Started{Ticket: ticket})), "a first token makes no room")
	require.Equal(t, b.now, b.m.snapshot().PrefilledAt, "until then it was at the prompt")
	require.Zero(t, b.m.snapshot().Load.QueuedPrefillTokens)
	require.Empty(t, b.step(fleet.Started{Ticket: ticket}), "once")
	require.True(t, has[publish](b.step(fleet.Progress{Ticket: ticket, Produced: 20})))
	require.Equal(t, ledger.None, b.reserve(b.claim()))
	b.step(fleet.Progress{Ticket: ticket, Produced: 60})
	require.Zero(t, b.m.snapshot().Load.OverdraftBlocks, "the claim is 160 tokens long")
	c := b.claim()
	c.SequenceTokens = 500
	require.Equal(t, ledger.None, b.reserve(c))
	b.step(fleet.Started{Ticket: c.Ticket})
	b.step(fleet.Progress{Ticket: c.Ticket, Produced: 60})
	require.EqualValues(t, 2, b.m.snapshot().Load.OverdraftBlocks, "what it is in, and what it may come to before it is heard of again")
	large := b.claim()
	large.PrivateBlocks, large.SequenceTokens = b.m.snapshot().Load.FreeBlocks()-1, 1000
	require.Equal(t, ledger.None, b.reserve(large))
	require.Equal(t, ledger.Overdraft, b.reserve(b.claim()))
	require.True(t, room(b.step(fleet.End{Ticket: c.Ticket, Reason: ledger.Finished})))
	b.granted()
	require.Empty(t, b.step(fleet.Progress{Ticket: c.Ticket, Produced: 99}), "of an ended ticket")
}

// TestSharing: the ledger books a prefix once, and the snapshot tells how many blocks may be ridden on.
func TestSharing(t *testing.T) {
	b := reach(t, fleet.Ready)
	c := b.claim()
	c.SharedKeys, c.PrivateBlocks = []prefix.Key{1, 2, 3, 4, 5, 6}, 4
	require.Equal(t, ledger.None, b.reserve(c))
	c.Ticket.Number++
	b.next++
	require.Equal(t, ledger.None, b.reserve(c))
	require.EqualValues(t, 14, b.m.snapshot().Load.BookedBlocks)
	require.EqualValues(t, 6, b.m.snapshot().Load.SharedBlocks)
}

// TestShed: a replica that sheds cools down: as long as it asks for, else twice as long each time up to the cap; a first
// token shows that it takes work again. It is no strike against it.
func TestShed(t *testing.T) {
	b := reach(t, fleet.Ready)
	cooling := func(want time.Duration) {
		t.Helper()
		require.Equal(t, want, b.m.snapshot().CoolingUntil.Sub(b.now))
		require.Equal(t, fleet.Ready, b.m.state)
		require.False(t, has[hurryProbe](b.last))
		c := b.claim()
		b.now = b.m.coolingUntil.Add(-time.Second - 1)
		require.Equal(t, ledger.Closed, b.reserve(c))
		at, ok := b.m.nextTick()
		require.True(t, ok)
		require.Equal(t, b.m.coolingUntil, at)
		b.now = at.Add(-time.Second)
		require.True(t, room(b.step(tick{})), "who waits hears of it")
		require.Zero(t, b.m.snapshot().CoolingUntil)
		_, ok = b.m.nextTick()
		require.False(t, ok)
	}
	shed := func(after time.Duration) {
		t.Helper()
		ticket := b.granted()
		b.step(fleet.AttemptFailed{Attempt: of(ticket), Failure: &engine.Failure{Kind: engine.Shed, RetryAfter: after}})
		require.Equal(t, ledger.Ended, b.m.ledger.State(ticket))
	}
	for _, want := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 8 * time.Second} {
		shed(0)
		cooling(want)
	}
	shed(11 * time.Second)
	cooling(11 * time.Second)
	require.Equal(t, ptr(1), b.m.snapshot().QuotaSeats, "one request sees whether it takes work again")
	for _, started := range []scoring.Ticket{b.granted(), b.granted()} {
		b.step(fleet.Started{Ticket: started})
		b.step(fleet.End{Ticket: started})
	}
	require.Nil(t, b.m.snapshot().QuotaSeats)
	shed(0)
	cooling(500 * time.Millisecond)

	// Several at once are one sign: they were sent before the first came back.
	x, y, z := b.granted(), b.granted(), b.granted()
	b.failed(x, engine.Shed)
	until := b.m.coolingUntil
	require.Equal(t, time.Second, until.Sub(b.now))
	b.now = b.now.Add(-time.Second)
	b.failed(y, engine.Shed)
	require.Equal(t, until, b.m.coolingUntil)
	b.now = b.now.Add(-time.Second)
	b.step(fleet.AttemptFailed{Attempt: of(z), Failure: &engine.Failure{Kind: engine.Shed, RetryAfter: time.Millisecond}})
	require.Equal(t, until, b.m.coolingUntil, "a shorter time does not end the longer one")
	b.failed(z, engine.Shed)
	require.Equal(t, until, b.m.coolingUntil, "a ticket that has ended tells nothing")
}

// TestDegradedByProbe: the first probe that was sent after it ends it.
func TestDegradedByProbe(t *testing.T) {
	b := reach(t, fleet.Ready)
	b.probeFailed(engine.Operator)
	b.step(Probed{Status: status("a"), Began: b.now.Add(-time.Second)})
	require.Equal(t, fleet.Degraded, b.m.state, "sent before")
	b.probed(status("a"))
	require.Equal(t, fleet.Ready, b.m.state)
}

// TestFailedAttempts: what each kind of failure means for the ticket and the engine.
func TestFailedAttempts(t *testing.T) {
	for _, c := range []struct {
		kind            engine.FailKind
		caps            engine.Capabilities
		want            ledger.State
		hurry, degraded bool
	}{
		{engine.Shed, withoutFeed, ledger.Ended, false, false},
		{engine.Client, withoutFeed, ledger.Ended, false, false},
		{engine.Refused, withoutFeed, ledger.Ended, true, false},
		{engine.Operator, withoutFeed, ledger.Ended, true, false}, // one alone: the probe tells
		{engine.Broken, withoutFeed, ledger.Lingering, true, false},
		{engine.Stalled, withoutFeed, ledger.Lingering, true, false},
		{engine.Broken, withFeed, ledger.Ended, true, false},      // Generate has returned: the engine has let go
		{engine.Stalled, withFeed, ledger.Lingering, true, false}, // it has not: its end confirms
	} {
		t.Run(c.caps.Kind+" "+c.kind.String(), func(t *testing.T) {
			b := newBench(t, testConfig(), c.caps)
			b.probed(status("a"))
			b.step(FeedReady{1})
			ticket := b.granted()
			b.failed(ticket, c.kind)
			require.Equal(t, c.want, b.m.ledger.State(ticket))
			require.Equal(t, c.hurry, has[hurryProbe](b.last))
			require.Equal(t, c.degraded, b.m.state == fleet.Degraded)
			require.Equal(t, c.want == ledger.Ended, room(b.last))
			require.Equal(t, c.want == ledger.Ended, b.m.ledger.Empty())
		})
	}
}

// TestFailedProbes: a probe that fails once makes for another at once; a success forgives.
func TestFailedProbes(t *testing.T) {
	b := reach(t, fleet.Ready)
	require.True(t, has[hurryProbe](b.probeFailed(engine.Broken)))
	require.Equal(t, fleet.Ready, b.m.state)
	require.Equal(t, "engine broken: no", b.m.snapshot().LastError)
	b.probed(status("a"))
	require.True(t, has[hurryProbe](b.probeFailed(engine.Stalled)))
	require.False(t, has[hurryProbe](b.probeFailed(engine.Stalled)))
	require.Equal(t, fleet.Down, b.m.state)
}

// TestDrain: nothing new, and gone when the last has ended, whatever ends it.
func TestDrain(t *testing.T) {
	for name, end := range map[string]func(*bench, scoring.Ticket){
		"finished": func(b *bench, t scoring.Ticket) { b.step(fleet.End{Ticket: t, Reason: ledger.Finished}) },
		"failed":   func(b *bench, t scoring.Ticket) { b.failed(t, engine.Shed) },
		"broken": func(b *bench, t scoring.Ticket) {
			b.failed(t, engine.Broken)
			b.now = b.now.Add(time.Hour)
			b.step(tick{})
		},
		"gave up": func(b *bench, t scoring.Ticket) {
			b.step(fleet.Linger{Attempt: of(t)})
			b.now = b.now.Add(time.Minute)
			b.step(tick{})
		},
		"the process": func(b *bench, _ scoring.Ticket) { b.probed(status("a")); b.probed(status("b")) },
		"died":        func(b *bench, _ scoring.Ticket) { b.probeFailed(engine.Refused); b.probeFailed(engine.Refused) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, testConfig(), withoutFeed)
			b.probed(status("a"))
			ticket := b.granted()
			b.step(fleet.Drain{})
			require.Equal(t, fleet.Draining, b.m.state)
			require.Equal(t, ledger.Closed, b.reserve(b.claim()))
			require.Equal(t, ledger.Reserved, b.m.ledger.State(ticket))
			end(b, ticket)
			require.Equal(t, fleet.Gone, b.m.state)
			require.True(t, b.m.ledger.Empty())
		})
	}
}

// TestForeignUse: what others use is not granted; figures that stop coming are alarmed about once, and forgotten.
func TestForeignUse(t *testing.T) {
	b := reach(t, fleet.Ready)
	s := status("a")
	s.Load.UsedBlocks, s.Load.RunningSequences = ptr(95), ptr(2)
	for range 3 {
		b.probed(s)
	}
	require.EqualValues(t, 95, b.m.snapshot().Load.ForeignBlocks)
	require.Equal(t, ledger.NoBlocks, b.reserve(b.claim()))
	s.Load.UsedBlocks = ptr(80)
	require.True(t, room(b.probed(s)), "less of others is more room")
	ticket := b.granted()
	s.Load.UsedBlocks = ptr(90)
	for range 5 {
		b.probed(s)
	}
	require.EqualValues(t, 80, b.m.snapshot().Load.ForeignBlocks, "ours are not foreign")
	b.step(fleet.End{Ticket: ticket})

	alarms := 0
	s.Load = engine.Load{}
	for range 6 {
		if has[alarm](b.probed(s)) {
			alarms++
		}
	}
	require.Equal(t, 1, alarms)
	require.Zero(t, b.m.snapshot().Load.ForeignBlocks)
	for range 6 {
		if has[alarm](b.probeFailed(engine.Broken)) {
			alarms++
		}
	}
	require.Equal(t, 1, alarms, "it has been said")

	quiet := newBench(t, testConfig(), withoutFeed)
	for range 6 {
		require.False(t, has[alarm](quiet.probed(engine.Status{KVBlocks: ptr(100)})), "it never told")
	}
	for range 6 {
		require.False(t, has[alarm](quiet.probeFailed(engine.Broken)))
	}
}

// TestForeignUseExpiresWithAFailedProbe: who waits hears of the room, also where a single failure between answers without
// figures makes it expire while the replica serves on.
func TestForeignUseExpiresWithAFailedProbe(t *testing.T) {
	b := reach(t, fleet.Ready)
	s := status("a")
	s.Load.UsedBlocks, s.Load.RunningSequences = ptr(95), ptr(2)
	for range 3 {
		b.probed(s)
	}
	s.Load = engine.Load{}
	b.probed(s)
	b.probed(s)
	require.EqualValues(t, 95, b.m.snapshot().Load.ForeignBlocks)
	told := b.probeFailed(engine.Broken)
	require.Equal(t, fleet.Ready, b.m.state)
	require.Zero(t, b.m.snapshot().Load.ForeignBlocks)
	require.True(t, room(told))
}

// TestNoCacheEvents: a feed that never begins is waited for a bounded time, and said once each time.
func TestNoCacheEvents(t *testing.T) {
	b := reach(t, fleet.Warming)
	at, ok := b.m.nextTick()
	require.True(t, ok)
	require.Equal(t, b.now.Add(b.m.cfg.FeedWait), at)
	b.now = at.Add(-time.Second)
	require.True(t, has[alarm](b.step(tick{})))
	require.Equal(t, fleet.Ready, b.m.state)
	for range 5 {
		require.False(t, has[alarm](b.probed(status("a"))))
	}
	require.False(t, has[alarm](newBench(t, testConfig(), withoutFeed).probed(status("a"))), "none is expected")
}
