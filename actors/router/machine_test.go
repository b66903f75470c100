package router

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

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

// TestAllLeave: requests that wait are told as soon as nobody is left who could take them.
func TestAllLeave(t *testing.T) {
	r := newRig(t, testConfig(), 2)
	for _, s := range r.sites {
		s.fill()
	}
	sub := r.submit(r.ask(1, 100, nil))
	r.site("a").snap.State = fleet.Down
	r.step(fleet.Room{})
	require.True(t, r.waits(sub))
	r.site("b").snap.State = fleet.Draining
	r.pass(recheck)
	require.Equal(t, fault.NoReplica, r.fault(sub).Kind)
	r.empty()
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
	wide := scoring.Limits{KVBlocks: 10_000, Seats: 4, SequenceTokens: 100_000, BlockTokens: 16}
	t.Run("on an idle replica at once, long as their prompts are", func(t *testing.T) {
		r := newRig(t, testConfig(), 0)
		r.add("a", wide)
		sub := r.submit(r.askFor(&stream.Request{N: 2, MaxTokens: new(16)}, ids(1, 8000), ids(2, 8000)))
		require.Len(t, r.places(sub), 4)
	})
	t.Run("what is dropped of those that wait is no load", func(t *testing.T) {
		r := newRig(t, testConfig(), 0)
		r.add("a", wide).fill()
		legs := r.askFor(&stream.Request{N: 1, MaxTokens: new(16)}, ids(1, 8000), ids(2, 8000))
		one := r.ask(3, 8000, new(16))
		r.step(legs)
		r.pass(2 * time.Second) // so that the shorter one is behind it
		one.Arrival = r.now
		r.step(one)
		r.site("a").free()
		r.site("a").hold(9_200)
		r.step(fleet.Room{})
		require.Len(t, r.sent, 1, "there is room for one prompt")
		r.deliver()
		require.True(t, r.waits(legs))
		require.Len(t, r.places(one), 1)
	})
	t.Run("or not at all", func(t *testing.T) {
		r := newRig(t, testConfig(), 2)
		r.site("a").fill()
		sub := r.submit(r.askFor(&stream.Request{N: 5, MaxTokens: new(16)}, ids(1, 100)))
		require.True(t, r.waits(sub), "four seats are free, five are wanted")
		require.Empty(t, r.m.booked)
		require.Zero(t, r.site("b").ledger.Load().BookedBlocks)
		r.site("a").free()
		r.step(fleet.Room{})
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
		r.add("c", testLimits()).snap.State = fleet.Down
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
	r.site("a").snap.State = fleet.Down
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
	require.InEpsilon(t, 0.05, r.m.learner.Rates("a").StepSecondsAt(1, 50_000), 0.2)
}

// TestFirstTokenIsPredicted: on an idle replica it takes the prompt's prefill, what a pass takes and a step, and nothing is predicted where the
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
	r.site("a").snap.Seen = &fleet.Seen{PromptTokens: 300}
	rates := r.m.learner.Rates("a")
	got := place(2, 300)
	require.NotNil(t, got.FirstToken)
	require.InEpsilon(t, rates.PrefillSeconds(300, 0)+rates.PassSeconds+rates.StepSeconds, got.FirstToken.Seconds(), 1e-6)
	require.Nil(t, place(3, 900).FirstToken)

	r.site("a").snap.Seen = &fleet.Seen{PromptTokens: 150}
	require.Nil(t, place(4, 300).FirstToken, "no prompt of half this length was ever seen there: it may take any time")
	r.site("a").snap.Seen = nil
	require.Nil(t, place(5, 300).FirstToken)
}
