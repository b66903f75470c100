package router

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/replica"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// TestCanItEverFit: 400 only where every configured replica is too small, whatever its state; 503 where only one that
// does not serve could hold it, or none serves; else it is placed or waits.
func TestCanItEverFit(t *testing.T) {
	type is struct {
		state    replica.State
		told     bool
		sequence scoring.Tokens
	}
	ready := func(n scoring.Tokens) is { return is{replica.Ready, true, n} }
	const placed, waits = fault.NumKinds, fault.NumKinds + 1
	for name, c := range map[string]struct {
		fleet             []is
		prompt, minTokens int
		want              fault.Kind
	}{
		"it fits":                           {[]is{ready(1000)}, 999, 0, placed},
		"one token too long":                {[]is{ready(1000)}, 1000, 0, fault.ContextLength},
		"room for min_tokens":               {[]is{ready(1000)}, 900, 100, placed},
		"no room for min_tokens":            {[]is{ready(1000)}, 900, 101, fault.ContextLength},
		"min_tokens 1 is the least":         {[]is{ready(1000)}, 999, 1, placed},
		"the larger one takes it":           {[]is{ready(500), ready(1000)}, 700, 0, placed},
		"too long for both":                 {[]is{ready(500), ready(1000)}, 1000, 0, fault.ContextLength},
		"only one that is down could":       {[]is{ready(500), {replica.Down, true, 1000}}, 700, 0, fault.NoReplica},
		"only one that drains could":        {[]is{ready(500), {replica.Draining, true, 1000}}, 700, 0, fault.NoReplica},
		"only one that is degraded could":   {[]is{ready(500), {replica.Degraded, true, 1000}}, 700, 0, fault.NoReplica},
		"too long even for the one down":    {[]is{ready(500), {replica.Down, true, 1000}}, 1000, 0, fault.ContextLength},
		"too long for all, and all down":    {[]is{{replica.Down, true, 1000}}, 1000, 0, fault.ContextLength},
		"one was never reached":             {[]is{ready(500), {replica.Starting, false, 0}}, 9999, 0, fault.NoReplica},
		"none was ever reached":             {[]is{{replica.Down, false, 0}, {replica.Starting, false, 0}}, 10, 0, fault.NoReplica},
		"none serves":                       {[]is{{replica.Down, true, 1000}, {replica.Gone, true, 1000}}, 10, 0, fault.NoReplica},
		"no replica is configured":          {nil, 10, 0, fault.NoReplica},
		"the one that could is warming":     {[]is{ready(500), {replica.Warming, true, 1000}}, 700, 0, waits},
		"one is down, another takes it":     {[]is{ready(1000), {replica.Down, true, 1000}}, 10, 0, placed},
		"an empty prompt can't be answered": {[]is{ready(1000)}, 0, 0, fault.BadInput},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, testConfig(), 0)
			for i, s := range c.fleet {
				limits := testLimits()
				limits.SequenceTokens = s.sequence
				added := r.add(scoring.ReplicaID('a'+rune(i)), limits)
				added.snap.State, added.snap.Told = s.state, s.told
			}
			sub := r.submit(r.askFor(&stream.Request{N: 1, MinTokens: c.minTokens}, ids(1, c.prompt)))
			require.Equal(t, c.want == waits, r.waits(sub))
			if c.want == placed {
				require.Len(t, r.places(sub), 1)
			}
			if c.want < fault.NumKinds {
				require.Equal(t, c.want, r.fault(sub).Kind)
				require.Equal(t, []fault.Kind{c.want}, r.kinds, "counted")
				r.empty()
			}
		})
	}
}

// TestFaultsSayWhatToDo: numbers, parameter and Retry-After.
func TestFaultsSayWhatToDo(t *testing.T) {
	r := newRig(t, testConfig(), 2)
	f := r.fault(r.submit(r.askFor(&stream.Request{N: 1, MinTokens: 7}, ids(1, 995))))
	require.Equal(t, "this model's maximum context length is 1000 tokens, but the prompt has 995 and the answer needs at least 7; "+
		"lower min_tokens or shorten the prompt", f.Message)
	require.Equal(t, "min_tokens", f.Param)
	require.Zero(t, f.RetryAfter, "trying again is no use")

	for _, s := range r.sites {
		s.snap.State = replica.Down
	}
	f = r.fault(r.submit(r.ask(1, 10, nil)))
	require.Contains(t, f.Message, "try again later")
	require.Positive(t, f.RetryAfter)
}

// TestContention: what does not fit now waits its time; then it is refused and told when to come back.
func TestContention(t *testing.T) {
	r := newRig(t, testConfig(), 2)
	for _, s := range r.sites {
		s.fill()
	}
	sub := r.submit(r.ask(1, 100, nil))
	require.True(t, r.waits(sub))
	r.pass(r.m.cfg.QueueTimeout - time.Millisecond)
	require.True(t, r.waits(sub))
	r.pass(time.Millisecond)
	f := r.fault(sub)
	require.Equal(t, fault.Contended, f.Kind)
	require.Contains(t, f.Message, "30s")
	require.GreaterOrEqual(t, f.RetryAfter, time.Second)
	require.LessOrEqual(t, f.RetryAfter, time.Minute)
	r.empty()

	again := r.ask(2, 100, nil)
	again.Again, again.Arrival = true, r.now.Add(-time.Hour)
	r.submit(again)
	r.pass(r.m.cfg.QueueTimeout - time.Millisecond)
	require.True(t, r.waits(again), "an attempt's failure is not the request's fault: it has the whole time again")
	r.site("b").free()
	r.pass(time.Second)
	require.Len(t, r.places(again), 1)
	r.empty()
}

// TestRetryAfterIsBounded: a second at least and a minute at most, more the more waits, and not the same for all.
func TestRetryAfterIsBounded(t *testing.T) {
	cfg := testConfig()
	cfg.Queue.RequestsMax, cfg.Queue.TokensMax = 100_000, 1<<40
	r := newRig(t, cfg, 1)
	r.m.nextID++
	asked := newEntry(r.m.nextID, r.ask(1, 900, nil))
	before := time.Duration(0)
	for waiting, want := range []struct{ least, most time.Duration }{{time.Second, 2 * time.Second}, {2 * time.Second, time.Minute}, {time.Minute, time.Minute}} {
		seen, least := map[time.Duration]bool{}, time.Hour
		for range 50 {
			d := r.m.retryAfter(r.now, asked, r.views())
			require.GreaterOrEqual(t, d, want.least)
			require.LessOrEqual(t, d, want.most)
			seen[d], least = true, min(least, d)
		}
		require.True(t, len(seen) > 1 || want.least == want.most, "%v", seen)
		require.GreaterOrEqual(t, least, before)
		before = least
		r.site("a").fill()
		for i := range 20 + 400*waiting {
			r.step(r.ask(waiting*1000+i, 900, nil))
		}
	}
}

// TestQueueTimeoutZero: without a wait, what does not fit now is refused at the next tick, which is due at once.
func TestQueueTimeoutZero(t *testing.T) {
	cfg := testConfig()
	cfg.QueueTimeout = 0
	r := newRig(t, cfg, 1)
	r.site("a").fill()
	sub := r.submit(r.ask(1, 100, nil))
	r.pass(0)
	require.Equal(t, fault.Contended, r.fault(sub).Kind)
}

// TestAllLeave: requests that wait are told as soon as nobody is left who could take them.
func TestAllLeave(t *testing.T) {
	r := newRig(t, testConfig(), 2)
	for _, s := range r.sites {
		s.fill()
	}
	sub := r.submit(r.ask(1, 100, nil))
	r.site("a").snap.State = replica.Down
	r.step(replica.Room{})
	require.True(t, r.waits(sub))
	r.site("b").snap.State = replica.Draining
	r.pass(recheck)
	require.Equal(t, fault.NoReplica, r.fault(sub).Kind)
	r.empty()
}

// TestReservationSizes: strict mode books the whole answer, expected mode what is predicted and a block a seat more.
func TestReservationSizes(t *testing.T) {
	for name, c := range map[string]struct {
		admission  Admission
		prompt     int
		maxTokens  *int
		wantBlocks scoring.Blocks
		wantMax    int // what the engine is asked for
	}{
		"strict, max_tokens":                  {Strict, 100, new(60), 10, 60},
		"strict, max_tokens beyond the room":  {Strict, 900, new(500), 63, 100},
		"strict, absent":                      {Strict, 100, nil, 15, 128},
		"strict, absent, little room":         {Strict, 950, nil, 63, 50},
		"strict, max_tokens above default":    {Strict, 100, new(300), 25, 300},
		"expected, before any answer":         {Expected, 100, nil, 40, 900}, // 612 tokens are 39 blocks
		"expected, short max_tokens":          {Expected, 100, new(20), 8, 20},
		"expected, no margin past the end":    {Expected, 100, new(12), 7, 12},
		"expected, max_tokens at the room":    {Expected, 900, new(500), 63, 100},
		"expected, prompt fills all but one":  {Expected, 999, nil, 63, 1},
		"expected, max_tokens above expected": {Expected, 100, new(700), 40, 700},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			cfg.Admission = c.admission
			r := newRig(t, cfg, 1)
			p := r.places(r.submit(r.ask(1, c.prompt, c.maxTokens)))[0]
			require.Equal(t, c.wantMax, p.MaxTokens)
			require.Equal(t, c.wantBlocks, r.site("a").ledger.Load().BookedBlocks)
			require.EqualValues(t, c.prompt+c.wantMax, p.Claim.SequenceTokens)
		})
	}
}

// TestPredictionFollowsAnswers: the p90 of the answers seen is reserved.
func TestPredictionFollowsAnswers(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	for i := range 10 {
		r.step(stream.Finished{Replica: "a", Produced: scoring.Tokens(10 * (i + 1))})
	}
	p := r.places(r.submit(r.ask(1, 100, nil)))[0]
	require.EqualValues(t, 90, p.Claim.PredictedOutputTokens)
	require.EqualValues(t, 13, r.site("a").ledger.Load().BookedBlocks) // 190 tokens are 12
}

// TestStrictNeverExceeds: whatever is granted in strict mode, all answers together never need more than there is.
func TestStrictNeverExceeds(t *testing.T) {
	cfg := testConfig()
	cfg.Admission = Strict
	r := newRig(t, cfg, 2)
	for i := range 40 {
		r.submit(r.ask(i, 50+13*i, new(1+29*i%300)))
	}
	most := map[scoring.ReplicaID]scoring.Blocks{}
	for _, p := range r.placed {
		most[p.Ref.ID] += (p.Claim.PromptTokens + scoring.Tokens(p.MaxTokens)).Blocks(16)
	}
	for _, s := range r.sites {
		require.Equal(t, s.ledger.Load().BookedBlocks, most[s.ref.ID])
		require.LessOrEqual(t, most[s.ref.ID], scoring.Blocks(100))
	}
	require.Greater(t, len(r.placed), 3)
}

// TestOptimisticBooking: until a replica answers, the router counts what it asked for: two requests do not race for one
// seat. Afterwards only what was published counts.
func TestOptimisticBooking(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	var subs []*stream.Submit
	for i := range 5 {
		subs = append(subs, r.ask(i, 100, new(16)))
		r.step(subs[i])
	}
	require.Len(t, r.sent, 4)
	require.Equal(t, 4, r.m.booked["a"].seats)
	require.True(t, r.waits(subs[4]))
	r.deliver()
	require.Empty(t, r.m.booked)
	require.True(t, r.waits(subs[4]))
	r.end(r.places(subs[0])[0])
	r.deliver()
	require.Len(t, r.places(subs[4]), 1)
	r.empty()
}

// TestWhatASnapshotShowsIsNotCountedTwice: answers wait behind other messages, while the snapshot shows their outcome.
func TestWhatASnapshotShowsIsNotCountedTwice(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	var subs []*stream.Submit
	for i := range 2 {
		subs = append(subs, r.ask(i, 100, new(16)))
		r.step(subs[i])
	}
	answer := r.site("a").answer(r.now, r.sent[0])
	r.step(stream.Finished{})
	require.Equal(t, 1, r.m.booked["a"].seats, "the other one is not answered")
	third, fourth := r.ask(3, 100, new(16)), r.ask(4, 100, new(16))
	r.step(third)
	r.step(fourth)
	require.Len(t, r.sent, 4, "there are four seats, one of which the snapshot shows as taken")
	r.sent = r.sent[1:]
	r.step(answer)
	r.deliver()
	for _, sub := range append(subs, third, fourth) {
		require.Len(t, r.places(sub), 1)
	}
	r.empty()
}

// TestLegs: all are placed or none; the same prompt is booked once where it is shared; long ones find room first.
func TestLegs(t *testing.T) {
	t.Run("placed together", func(t *testing.T) {
		r := newRig(t, testConfig(), 2)
		sub := r.ask(1, 100, new(16))
		sub.Call.Request.N = 6
		sub = r.submit(r.askFor(sub.Call.Request, ids(1, 100)))
		require.Len(t, r.places(sub), 6)
		legs := map[int]bool{}
		for _, p := range r.places(sub) {
			legs[p.Leg] = true
		}
		require.Len(t, legs, 6)
		r.empty()
	})
	t.Run("or not at all", func(t *testing.T) {
		r := newRig(t, testConfig(), 2)
		r.site("a").fill()
		sub := r.submit(r.askFor(&stream.Request{N: 5, MaxTokens: new(16)}, ids(1, 100)))
		require.True(t, r.waits(sub), "four seats are free, five are wanted")
		require.Empty(t, r.m.booked)
		require.Zero(t, r.site("b").ledger.Load().BookedBlocks)
		r.site("a").free()
		r.step(replica.Room{})
		r.deliver()
		require.Len(t, r.places(sub), 5)
	})
	t.Run("a partial grant is given back", func(t *testing.T) {
		r := newRig(t, testConfig(), 2)
		sub := r.askFor(&stream.Request{N: 8, MaxTokens: new(16)}, ids(1, 100))
		r.step(sub)
		require.Len(t, r.sent, 8)
		r.site("b").hold(1) // somebody else was faster there
		r.deliver()
		require.True(t, r.waits(sub))
		require.Equal(t, 7, r.back)
		require.Zero(t, r.site("a").ledger.Load().SeatsBooked)
		r.site("b").free()
		r.pass(recheck)
		require.Len(t, r.places(sub), 8)
		r.empty()
	})
	t.Run("a shared prompt is booked once", func(t *testing.T) {
		r := newRig(t, testConfig(), 1)
		sub := r.submit(r.askFor(&stream.Request{N: 4, MaxTokens: new(16)}, ids(1, 960))) // 61 blocks each
		require.Len(t, r.places(sub), 4)
		require.EqualValues(t, 59+4*2, r.site("a").ledger.Load().BookedBlocks)
	})
	t.Run("not where it is not shared", func(t *testing.T) {
		r := newRig(t, testConfig(), 1)
		r.site("a").ref.Capabilities = engine.Capabilities{Sharing: engine.SharingNever}
		f := r.fault(r.submit(r.askFor(&stream.Request{N: 2, MaxTokens: new(16)}, ids(1, 960))))
		require.Equal(t, fault.BadInput, f.Kind)
		require.Equal(t, "n", f.Param)
		require.Contains(t, f.Message, "2 answers at once do not fit")
	})
	t.Run("long prompts first", func(t *testing.T) {
		r := newRig(t, testConfig(), 2)
		sub := r.submit(r.askFor(&stream.Request{N: 1, MaxTokens: new(16)}, ids(1, 300), ids(2, 310), ids(3, 960), ids(4, 950)))
		require.Len(t, r.places(sub), 4)
	})
	t.Run("more than there are seats", func(t *testing.T) {
		r := newRig(t, testConfig(), 2)
		require.Equal(t, fault.BadInput, r.fault(r.submit(r.askFor(&stream.Request{N: 9, MaxTokens: new(1)}, ids(1, 16)))).Kind)
		r.add("c", testLimits()).snap.State = replica.Down
		require.True(t, r.waits(r.submit(r.askFor(&stream.Request{N: 9, MaxTokens: new(1)}, ids(1, 16)))), "with c they would fit")
		r.add("d", testLimits()).snap.Told = false
		require.True(t, r.waits(r.submit(r.askFor(&stream.Request{N: 99, MaxTokens: new(1)}, ids(1, 16)))), "d may have seats for all")
	})
	t.Run("one of them too long", func(t *testing.T) {
		r := newRig(t, testConfig(), 2)
		f := r.fault(r.submit(r.askFor(&stream.Request{N: 1}, ids(1, 10), ids(2, 1000), ids(3, 10))))
		require.Equal(t, fault.ContextLength, f.Kind)
		require.Contains(t, f.Message, "the prompt has 1000")
	})
}

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
		r.step(&replica.Refused{Ticket: e.claim.Ticket, Replica: e.ref.ID, Reason: ledger.NoBlocks, Snapshot: snap})
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
		s.snap.State = replica.Warming
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
		r.step(&replica.Refused{Ticket: e.claim.Ticket, Replica: e.ref.ID, Reason: ledger.NoBlocks, Snapshot: snap})
	}
	sub := r.ask(1, 100, new(16))
	r.step(sub)
	for range 3 {
		refuse()
		require.Len(t, r.sent, 1)
		require.Empty(t, r.m.queuedAs, "it is ranked anew")
	}
	for _, s := range r.sites {
		s.snap.State = replica.Warming
	}
	early := r.ask(2, 100, new(16))
	early.Again, early.Arrival = true, sub.Arrival.Add(-time.Second)
	r.step(early)
	require.True(t, r.waits(early))
	for _, s := range r.sites {
		s.snap.State = replica.Ready
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
		r.step(&replica.Refused{Ticket: e.claim.Ticket, Replica: "a", Reason: ledger.NoBlocks, Snapshot: snap})
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
		"more room":   func(r *rig, s *site) { s.free(); r.step(replica.Room{}) },
		"a new life":  func(r *rig, s *site) { s.snap.Incarnation++; r.step(replica.Room{}) },
		"a new epoch": func(r *rig, s *site) { s.snap.Epoch++; r.step(replica.Room{}) },
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
			r.step(&replica.Refused{Ticket: ticket, Replica: "a", Reason: ledger.NoBlocks, Snapshot: s.view().snap})
			require.True(t, r.waits(sub))
			for range 5 {
				r.step(replica.Room{})
			}
			require.Empty(t, r.sent, "nothing has changed")
			change(r, s)
			r.deliver()
			require.Len(t, r.places(sub), 1)
			r.empty()
		})
	}
}

// TestExclusion: a life of a replica that failed a leg does not get it again; the fault of that failure is what the client
// hears if nobody else is left.
func TestExclusion(t *testing.T) {
	r := newRig(t, testConfig(), 2)
	broke := fault.New(fault.EngineFailed, "it broke")
	again := func(excluded ...stream.Exclusion) *stream.Submit {
		sub := r.ask(1, 100, new(16))
		sub.Again = true
		sub.Legs[0].Excluded, sub.Legs[0].LastFault = excluded, broke
		return r.submit(sub)
	}
	for range 10 {
		p := r.places(again(stream.Exclusion{Replica: "a", Incarnation: 1}))[0]
		require.Equal(t, scoring.ReplicaID("b"), p.Ref.ID)
		r.end(p)
	}
	both := []stream.Exclusion{{Replica: "a", Incarnation: 1}, {Replica: "b", Incarnation: 1}}
	require.Same(t, broke, r.fault(again(both...)))
	r.site("a").snap.Incarnation = 2
	require.Equal(t, scoring.ReplicaID("a"), r.places(again(both...))[0].Ref.ID, "an exclusion ends with the life")
	r.site("a").fill()
	require.True(t, r.waits(again(both...)), "it waits for the one that may take it")
	r.site("a").snap.State = replica.Down
	require.Same(t, broke, r.fault(again(both...)))
}

// TestCooling: a replica that shed gets nothing before its time; those that wait for it are tried then.
func TestCooling(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	r.site("a").snap.CoolingUntil = r.now.Add(300 * time.Millisecond)
	sub := r.submit(r.ask(1, 100, new(16)))
	require.True(t, r.waits(sub))
	at, ok := r.m.nextTick()
	require.True(t, ok)
	require.Equal(t, r.site("a").snap.CoolingUntil, at)
	r.pass(300 * time.Millisecond)
	require.Len(t, r.places(sub), 1)
}

// TestQueueOrder: by arrival; what has had an attempt first; one that does not fit lets others pass, where nothing is kept for it.
func TestQueueOrder(t *testing.T) {
	cfg := testConfig()
	cfg.Policy.Name = "least-requests"
	r := newRig(t, cfg, 1)
	s := r.site("a")
	s.fill()
	at := func(seconds int, again bool, tokens int) *stream.Submit {
		sub := r.ask(seconds, tokens, new(16))
		sub.Arrival, sub.Again = start.Add(time.Duration(seconds)*time.Second), again
		return r.submit(sub)
	}
	large, third, second, head := at(1, false, 900), at(3, false, 100), at(2, false, 100), at(9, true, 100)
	s.free()
	s.hold(70)
	for s.ledger.Load().FreeSeats() > 1 {
		s.hold(1)
	}
	for _, want := range []*stream.Submit{head, second, third} {
		r.step(replica.Room{})
		r.deliver()
		r.end(r.places(want)[0])
		r.deliver()
	}
	require.True(t, r.waits(large))
	s.free()
	r.step(replica.Room{})
	r.deliver()
	require.Len(t, r.places(large), 1)
	r.empty()
}

// TestNewcomersDoNotOvertake: room of which the router has not heard yet goes to those who wait.
func TestNewcomersDoNotOvertake(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	s := r.site("a")
	s.fill()
	first := r.submit(r.ask(1, 100, new(16)))
	s.ledger.End(claimOf(1, 1).Ticket, ledger.Finished) // its Room is on its way
	second := r.submit(r.ask(2, 100, new(16)))
	require.Len(t, r.places(first), 1)
	require.True(t, r.waits(second))
}

// TestQueueBounds: at the bound newcomers are refused with the number; what was let in before comes back all the same.
func TestQueueBounds(t *testing.T) {
	cfg := testConfig()
	cfg.Queue.RequestsMax, cfg.Queue.TokensMax = 2, 500
	r := newRig(t, cfg, 1)
	r.site("a").fill()
	r.submit(r.ask(1, 100, nil))
	f := r.fault(r.submit(r.ask(2, 450, nil)))
	require.Equal(t, fault.Contended, f.Kind)
	require.Contains(t, f.Message, "500 tokens")
	require.Positive(t, f.RetryAfter)
	r.submit(r.ask(3, 100, nil))
	f = r.fault(r.submit(r.ask(4, 10, nil)))
	require.Contains(t, f.Message, "2 requests")
	again := r.ask(5, 450, nil)
	again.Again = true
	require.True(t, r.waits(r.submit(again)))
}

// TestDeadlineOrder: each is refused when its own time is up, wherever it stands and however many stand before it.
func TestDeadlineOrder(t *testing.T) {
	cfg := testConfig()
	cfg.ScanMax = 2
	r := newRig(t, cfg, 1)
	r.site("a").fill()
	var subs []*stream.Submit
	for i := range 6 {
		sub := r.ask(i, 100, nil)
		sub.Again = i%2 == 0 // these go to the head, in the order of their arrival
		sub.Arrival = start.Add(-time.Duration(i) * time.Second)
		subs = append(subs, r.submit(sub))
		r.now = r.now.Add(10 * time.Millisecond)
	}
	due := func(i int) time.Time {
		if subs[i].Again {
			return start.Add(time.Duration(10*i) * time.Millisecond).Add(cfg.QueueTimeout)
		}
		return subs[i].Arrival.Add(cfg.QueueTimeout)
	}
	for _, i := range []int{5, 3, 1, 0, 2, 4} {
		r.pass(due(i).Sub(r.now) - 1)
		require.True(t, r.waits(subs[i]), i)
		r.pass(1)
		require.Equal(t, fault.Contended, r.fault(subs[i]).Kind, i)
	}
	r.empty()
}

// TestAtTheDeadlineItIsTriedOnceMore: also one that no scan reaches.
func TestAtTheDeadlineItIsTriedOnceMore(t *testing.T) {
	cfg := testConfig()
	cfg.ScanMax = 1
	r := newRig(t, cfg, 1)
	s := r.site("a")
	s.hold(60)
	large := r.submit(r.ask(1, 900, new(16)))
	require.True(t, r.waits(large))
	s.hold(39)
	small := r.ask(2, 16, new(16))
	small.Arrival = small.Arrival.Add(time.Second)
	r.submit(small)
	require.True(t, r.waits(small))
	r.pass(cfg.QueueTimeout - time.Millisecond)
	s.ledger.End(claimOf(2, 0).Ticket, ledger.Finished)
	r.pass(2 * time.Millisecond)
	require.Equal(t, fault.Contended, r.fault(large).Kind)
	r.pass(time.Second)
	require.Len(t, r.places(small), 1)
}

// TestWithdraw in every phase: the answer is Withdrawn, once, and nothing is left of the submission.
func TestWithdraw(t *testing.T) {
	withdraw := func(sub *stream.Submit, number uint64) stream.Withdraw {
		return stream.Withdraw{Call: sub.Call, Number: number}
	}
	t.Run("while it waits", func(t *testing.T) {
		r := newRig(t, testConfig(), 1)
		r.site("a").fill()
		sub := r.submit(r.ask(1, 100, nil))
		r.step(withdraw(sub, 7))
		require.True(t, r.waits(sub), "of another submission")
		r.step(withdraw(sub, 1))
		require.Equal(t, []any{stream.Withdrawn{Number: 1}}, r.answers(sub))
		r.empty()
		r.step(withdraw(sub, 1))
		require.Len(t, r.answers(sub), 1)
	})
	t.Run("whatever its number", func(t *testing.T) {
		r := newRig(t, testConfig(), 1)
		r.site("a").fill()
		sub := r.submit(r.ask(1, 100, nil))
		r.step(withdraw(sub, 0))
		require.Equal(t, []any{stream.Withdrawn{Number: 0}}, r.answers(sub))
		r.empty()
	})
	t.Run("while it reserves", func(t *testing.T) {
		r := newRig(t, testConfig(), 2)
		sub := r.askFor(&stream.Request{N: 3, MaxTokens: new(16)}, ids(1, 100))
		r.step(sub)
		r.deliverOne(0)
		r.step(withdraw(sub, 1))
		require.Equal(t, []any{stream.Withdrawn{Number: 1}}, r.answers(sub))
		r.deliver()
		require.Len(t, r.answers(sub), 1)
		require.Equal(t, 3, r.back, "what was granted is given back")
		for _, s := range r.sites {
			require.True(t, s.ledger.Empty())
		}
		r.empty()
	})
	t.Run("while it reserves and is refused", func(t *testing.T) {
		r := newRig(t, testConfig(), 1)
		sub := r.ask(1, 100, new(16))
		r.step(sub)
		r.step(withdraw(sub, 1))
		r.site("a").fill()
		r.deliver()
		require.Len(t, r.answers(sub), 1)
		r.empty()
	})
	t.Run("after it was placed", func(t *testing.T) {
		r := newRig(t, testConfig(), 1)
		sub := r.submit(r.ask(1, 100, new(16)))
		r.step(withdraw(sub, 1))
		require.Len(t, r.places(sub), 1, "it has its answer")
		r.empty()
	})
	t.Run("and asked anew at once", func(t *testing.T) {
		r := newRig(t, testConfig(), 1)
		sub := r.ask(1, 100, new(16))
		r.step(sub)
		r.step(withdraw(sub, 1))
		next := *sub
		next.Number = 2
		r.step(&next)
		r.deliver()
		require.Len(t, r.answers(sub), 2)
		placed, ok := r.answers(sub)[1].(stream.Placed)
		require.True(t, ok)
		require.EqualValues(t, 2, placed.Number)
		require.Equal(t, 1, r.back)
		require.Equal(t, 1, r.site("a").ledger.Load().SeatsBooked)
		r.empty()
	})
}

// TestSupersede: an instance that failed had the submission too; only the newest one counts.
func TestSupersede(t *testing.T) {
	for name, full := range map[string]bool{"while it waits": true, "while it reserves": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, testConfig(), 1)
			if full {
				r.site("a").fill()
			}
			sub := r.ask(1, 100, new(16))
			r.step(sub)
			next := *sub
			next.Number = 2
			r.step(&next)
			r.site("a").free()
			r.step(replica.Room{})
			r.deliver()
			r.pass(recheck)
			require.Len(t, r.answers(sub), 1)
			placed, ok := r.answers(sub)[0].(stream.Placed)
			require.True(t, ok)
			require.EqualValues(t, 2, placed.Number)
			require.Equal(t, 1, r.site("a").ledger.Load().SeatsBooked)
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
	r.step(&replica.Granted{Ticket: c.Ticket, Replica: "a", Snapshot: r.site("a").view().snap})
	require.Equal(t, 1, r.back)
	require.True(t, r.site("a").ledger.Empty())
	r.step(&replica.Granted{Ticket: c.Ticket, Replica: "nobody", Snapshot: r.site("a").view().snap})
	r.step(&replica.Refused{Ticket: c.Ticket, Replica: "a", Snapshot: r.site("a").view().snap})
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
	r.step(replica.Room{Replica: "a"})
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

// TestSpeculation: what was routed counts as cached there at once, until its attempt fails before a first token.
func TestSpeculation(t *testing.T) {
	r := newRig(t, testConfig(), 4)
	first := r.places(r.submit(r.ask(1, 800, new(16))))[0]
	require.Zero(t, first.OverlapTokens)
	r.end(first)
	second := r.places(r.submit(r.ask(1, 800, new(16))))[0]
	require.Equal(t, first.Ref, second.Ref)
	require.EqualValues(t, 784, second.OverlapTokens, "the block of the last token is computed anew")
	require.EqualValues(t, 16, second.Claim.PrefillTokens)
	r.step(stream.Failed{Replica: first.Ref.ID, Ticket: first.Claim.Ticket})
	r.step(stream.Failed{Replica: first.Ref.ID, Ticket: second.Claim.Ticket})
	require.Zero(t, r.places(r.submit(r.ask(1, 800, new(16))))[0].OverlapTokens)
	r.now = r.now.Add(r.m.cfg.SpeculationTTL)
	require.Zero(t, r.places(r.submit(r.ask(1, 800, new(16))))[0].OverlapTokens, "it ends by itself")

	salted := r.askFor(&stream.Request{N: 1, MaxTokens: new(16), CacheSalt: "s"}, ids(1, 800))
	require.Zero(t, r.places(r.submit(salted))[0].OverlapTokens, "salt isolates")
}

// TestAWaitingPrefixRides: a request that waits for blocks is tried when its prefix has just been dispatched: it needs
// less then, though no replica has more room.
func TestAWaitingPrefixRides(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	s := r.site("a")
	s.hold(60)
	rider := r.submit(r.ask(1, 800, new(16))) // 51 blocks
	require.True(t, r.waits(rider))
	s.ledger.End(claimOf(1, 0).Ticket, ledger.Finished)
	s.hold(45) // now there is room for one, and no more
	holder := r.ask(1, 800, new(16))
	holder.Arrival = holder.Arrival.Add(time.Second)
	r.submit(holder)
	require.Len(t, r.places(rider), 1)
	require.Len(t, r.places(holder), 1, "it rides on the other's blocks")
	require.EqualValues(t, 45+51+2, s.ledger.Load().BookedBlocks)
	r.empty()
}

// TestLearning: the time of a replica's prefill is counted once, and its steps are those of its whole batch.
func TestLearning(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	rate := func() float64 { return r.m.learner.Rates("a").PrefillSecondsPerToken }
	// A hundred prompts that came together and were prefilled one after the other, a second each.
	for i := range 100 {
		r.now = r.now.Add(time.Second)
		r.step(stream.FirstToken{Replica: "a", PrefillTokens: 20_000, Took: time.Duration(i+1) * time.Second})
	}
	require.InEpsilon(t, 1.0/20_000, rate(), 0.4)
	r.step(stream.FirstToken{Replica: "nobody", PrefillTokens: 1, Took: time.Hour})
	require.Len(t, r.m.first, 1)
	r.add("b", testLimits())
	for _, id := range []scoring.ReplicaID{"b", "b"} {
		r.step(stream.FirstToken{Replica: id, PrefillTokens: 1, Took: time.Second})
	}
	r.sites = r.sites[:1]
	r.step(stream.FirstToken{Replica: "a", PrefillTokens: 20_000, Took: time.Second})
	require.Len(t, r.m.first, 1, "a replica that has left is forgotten")

	s := r.site("a")
	c := claimOf(1, 10)
	c.PromptTokens = 50_000
	require.Equal(t, ledger.None, s.ledger.Reserve(r.now, c))
	before := r.m.learner.Rates("a")
	r.step(stream.Steps{Replica: "a", KVTokens: 100, Gap: time.Second})
	require.Equal(t, before, r.m.learner.Rates("a"), "a prefill is under way")
	s.ledger.Start(c.Ticket, r.now)
	s.snap.PrefilledAt = r.now
	r.step(stream.Steps{Replica: "a", KVTokens: 100, Since: r.now.Add(-time.Millisecond), Gap: time.Second})
	require.Equal(t, before, r.m.learner.Rates("a"), "one was, for some of these steps")
	for range 1000 {
		r.step(stream.Steps{Replica: "a", KVTokens: 100, Since: r.now, Gap: 50 * time.Millisecond})
	}
	require.InEpsilon(t, 0.05, r.m.learner.Rates("a").StepSecondsAt(50_000), 0.2)
}

// TestFirstTokenIsPredicted: on an idle replica it takes the prompt's prefill and a step, and nothing is predicted where the
// replica has not shown how fast it is with prompts of this length.
func TestFirstTokenIsPredicted(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	place := func(seed, tokens int) stream.Placement {
		places := r.places(r.submit(r.ask(seed, tokens, new(16))))
		require.Len(t, places, 1)
		r.site("a").free()
		return places[0]
	}
	require.Nil(t, place(1, 300).FirstToken)
	for range 100 {
		r.now = r.now.Add(time.Second)
		r.step(stream.FirstToken{Replica: "a", PrefillTokens: 100, Took: 100 * time.Millisecond})
	}
	rates := r.m.learner.Rates("a")
	got := place(2, 300)
	require.NotNil(t, got.FirstToken)
	require.InEpsilon(t, rates.PrefillSeconds(300, 0)+rates.StepSeconds, got.FirstToken.Seconds(), 1e-6)
	require.Nil(t, place(3, 900).FirstToken)
}

// TestAdmissionWords: what the flag takes is what it shows.
func TestAdmissionWords(t *testing.T) {
	for a := range NumAdmissions {
		got, err := ParseAdmission(a.String())
		require.NoError(t, err)
		require.Equal(t, a, got)
	}
	_, err := ParseAdmission("unknown")
	require.Error(t, err)
	require.Equal(t, "unknown", NumAdmissions.String())
}

// TestPromptBound: the operator's bound on prompts holds whatever the replicas could take.
func TestPromptBound(t *testing.T) {
	cfg := testConfig()
	most := scoring.Tokens(100)
	cfg.PromptTokensMax = &most
	r := newRig(t, cfg, 1)
	require.Len(t, r.places(r.submit(r.askFor(&stream.Request{N: 1}, ids(1, 100)))), 1)
	f := r.fault(r.submit(r.askFor(&stream.Request{N: 1}, ids(2, 101))))
	require.Equal(t, fault.ContextLength, f.Kind)
	require.Contains(t, f.Message, "101")
	require.Contains(t, f.Message, "100")
}
