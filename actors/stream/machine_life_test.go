package stream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

func TestOneRequestFromSubmissionToEnd(t *testing.T) {
	r := newRig(t, DefaultConfig(), &Request{CacheSalt: "s"})
	require.Equal(t, []string{"leg 0 is on plain", "start 1 for leg 0 on plain"}, r.run(100, "plain"))
	r.later(3 * time.Second)
	require.Equal(t, []string{
		"plain: started 1", "first token of plain after 3s", `plain: learned 3 "s"`, `leg 0: 1 "a"`,
	}, r.do(text(1, "a")), "an engine without events: its cache holds the prompt now")
	r.later(30 * time.Second)
	require.Equal(t, []string{`leg 0: 15 "bcdefghijklmnop"`}, r.do(text(1, "bcdefghijklmnop")))
	require.Equal(t, []string{"plain: progress 1 17", `leg 0: 1 "q"`}, r.do(text(1, "q")), "once a block")
	r.later(8 * time.Second)
	require.Equal(t, []string{
		"steps of plain at 35, 500ms each", `leg 0: 15 "rstuvwxyzabcdef"`,
	}, r.do(text(1, "rstuvwxyzabcdef")), "the first gap, in which others may have had their prefill, is none of them")
	require.Equal(t, []string{"leg 0: stop after 32", "ended well"}, r.do(tokens(1).finish(engine.FinishStop)))
	require.False(t, r.m.done())
	require.Equal(t, []string{
		"plain: end 1 finished", "finished 1 on plain with 32", `plain: learned 35 "s"`,
	}, r.do(attemptEnded{attempt: 1}))
	require.True(t, r.m.done())
}

func TestLearnedEndsAtTheFirstLostID(t *testing.T) {
	r := newRig(t, DefaultConfig(), &Request{})
	r.run(100, "p")
	r.do(text(1, "ab"))
	lost := "yz"
	f := frame{attempt: 1, event: engine.Event{Tokens: []engine.Token{{ID: 'z', LostIDs: 1, Text: &lost}, {ID: 'c'}}}}
	r.do(f.finish(engine.FinishStop))
	with(t, r.do(attemptEnded{attempt: 1}), `p: learned 5 ""`)
}

func TestLegs(t *testing.T) {
	r := newRig(t, DefaultConfig(), &Request{N: 2, Input: Input{Tokens: [][]uint32{{1}, {2}}}})
	require.Equal(t, []Ask{{Leg: 0, Prompt: 0}, {Leg: 1, Prompt: 0}, {Leg: 2, Prompt: 1}, {Leg: 3, Prompt: 1}}, r.m.waiting.asks)
	r.run(100, "a", "b", "a", "b")
	for i := range 4 {
		effects := r.do(text(uint64(i)+1, "x").finish(engine.FinishStop)) //nolint:gosec // a count
		with(t, effects, "leg "+string(rune('0'+i))+": stop after 1")
		if i < 3 {
			without(t, effects, "ended")
		} else {
			with(t, effects, "ended well")
		}
		r.do(attemptEnded{attempt: uint64(i) + 1}) //nolint:gosec // a count
		require.Equal(t, i == 3, r.m.done())
	}
}

// TestFailures says, by kind of failure, what the replica hears and what becomes of the request.
func TestFailures(t *testing.T) {
	for _, c := range []struct {
		kind  engine.FailKind
		fault string // what the client hears when it is not, or no longer, routed anew
		never bool   // not routed anew
		lives string // the engine is as it was
	}{
		{engine.Shed, "contended", false, ""},
		{engine.Refused, "engine_failed", false, ""},
		{engine.Broken, "engine_failed", false, ""},
		{engine.Stalled, "deadline", false, ""},
		{engine.Operator, "engine_failed", false, " of one that lives"},
		{engine.Client, "engine_refused", true, ""},
	} {
		t.Run(c.kind.String(), func(t *testing.T) {
			for _, name := range []string{"a", "p"} { // confirms aborts, does not
				r := newRig(t, DefaultConfig(), &Request{})
				r.run(100, name)
				want := []string{name + ": attempt failed 1 " + c.kind.String()}
				if name == "a" && c.kind == engine.Stalled {
					want = append(want, "a: end 1 failed") // it lingered, but Generate has returned
				}
				want = append(want, "failed 1 on "+name)
				if c.never {
					want = append(want, "ended: "+c.fault)
				} else {
					want = append(want, "submit 2 again, leg 0 not "+name+"/1 after "+c.fault+c.lives)
				}
				require.Equal(t, want, r.do(attemptEnded{1, failure(c.kind)}))
				require.Equal(t, c.never, r.m.done())
			}
		})
		t.Run(c.kind.String()+" after tokens", func(t *testing.T) {
			r := newRig(t, DefaultConfig(), &Request{})
			r.run(100, "p")
			r.do(text(1, "ab"))
			effects := r.do(attemptEnded{1, failure(c.kind)})
			with(t, effects, "p: attempt failed 1 "+c.kind.String(), "finished 1 on p with 2")
			without(t, effects, "p: learned")
			last := effects[len(effects)-1]
			switch {
			case c.never:
				with(t, effects, "ended: "+c.fault, "same_distribution given_up with 0")
				without(t, effects, "submit")
			case c.kind == engine.Shed: // it cools down, and the leg may wait for it
				require.Equal(t, "submit 2 again begun, leg 0 with 2 of 100 after "+c.fault, last)
			default:
				require.Equal(t, "submit 2 again begun, leg 0 with 2 of 100 not p/1 after "+c.fault+c.lives, last)
			}
			require.Equal(t, c.never, r.m.done())
		})
		t.Run(c.kind.String()+" on every replica", func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.AttemptsMax = 3
			r := newRig(t, cfg, &Request{})
			r.run(100, "p1")
			if c.never || c.kind == engine.Operator { // that one is tried once more, and not on every replica
				return
			}
			r.do(attemptEnded{1, failure(c.kind)})
			r.run(100, "p2")
			require.Contains(t, r.do(attemptEnded{2, failure(c.kind)}), "submit 3 again, leg 0 not p1/1 not p2/1 after "+c.fault)
			r.run(100, "p3")
			with(t, r.do(attemptEnded{3, failure(c.kind)}), "p3: attempt failed 3 "+c.kind.String(), "ended: "+c.fault)
			require.True(t, r.m.done())
		})
	}
}

func TestAnErrorThatIsNoFailureIsBroken(t *testing.T) {
	r := newRig(t, DefaultConfig(), &Request{})
	r.run(100, "a")
	with(t, r.do(attemptEnded{1, errCancelled}), "a: attempt failed 1 broken", "submit 2 again, leg 0 not a/1 after engine_failed")
}

func TestAShedderSaysWhenToComeBack(t *testing.T) {
	f := failure(engine.Shed)
	require.Equal(t, time.Second, faultOf(f, "").RetryAfter)
	f.RetryAfter = 9 * time.Second
	require.Equal(t, 9*time.Second, faultOf(f, "").RetryAfter)
	f.RetryAfter = time.Hour
	require.Equal(t, time.Minute, faultOf(f, "").RetryAfter, "what one engine asks for is not what the fleet needs")
}

func TestTheEnginesRefusalIsPassedOn(t *testing.T) {
	f := &engine.Failure{Kind: engine.Client, FromEngine: true, Status: 422, Message: "no such grammar", Param: "grammar"}
	require.Equal(t, &fault.Fault{
		Kind: fault.EngineRefused, Status: 422, Message: "no such grammar", Param: "grammar", Err: f,
	}, faultOf(f, ""))
}

// TestAnAnswerWithoutAFinishIsNone: whatever Generate's return says.
func TestAnAnswerWithoutAFinishIsNone(t *testing.T) {
	t.Run("aborted on the engine, before a token", func(t *testing.T) {
		r := newRig(t, DefaultConfig(), &Request{})
		r.run(100, "a")
		require.Empty(t, r.do(tokens(1).finish(engine.FinishAbort)))
		require.Equal(t, []string{
			"a: end 1 failed", "failed 1 on a", "submit 2 again, leg 0 not a/1 after engine_failed",
		}, r.do(attemptEnded{attempt: 1}))
	})
	t.Run("aborted on the engine, after tokens", func(t *testing.T) {
		r := newRig(t, DefaultConfig(), &Request{})
		r.run(100, "a")
		with(t, r.do(text(1, "ab").finish(engine.FinishAbort)), `leg 0: 2 "ab"`)
		with(t, r.do(attemptEnded{attempt: 1}), "a: end 1 failed", "submit 2 again begun, leg 0 with 2 of 100 not a/1 after engine_failed")
	})
	t.Run("no finish at all", func(t *testing.T) {
		r := newRig(t, DefaultConfig(), &Request{})
		r.run(100, "a")
		with(t, r.do(attemptEnded{attempt: 1}), "a: end 1 failed", "submit 2 again, leg 0 not a/1 after engine_failed of one that lives")
	})
	t.Run("aborted on the engine, with the token that ends it", func(t *testing.T) {
		r := newRig(t, DefaultConfig(), &Request{})
		r.run(2, "a")
		with(t, r.do(text(1, "ab").finish(engine.FinishAbort)), "leg 0: length after 2", "ended well")
		with(t, r.do(attemptEnded{attempt: 1}), "a: end 1 finished")
	})
}

// TestALegFailsWhileAnotherWaits: there is one submission at a time, and what belongs to an older one is given back.
func TestALegFailsWhileAnotherWaits(t *testing.T) {
	r := newRig(t, DefaultConfig(), &Request{N: 3})
	r.run(100, "a", "b", "c")
	with(t, r.do(attemptEnded{2, failure(engine.Refused)}), "submit 2 again, leg 1 not b/1 after engine_failed")
	with(t, r.do(attemptEnded{1, failure(engine.Shed)}),
		"withdraw 2", "submit 3 again, leg 1 not b/1 after engine_failed, leg 0 not a/1 after contended")
	// The router had placed the older one before it heard of that.
	late := Placed{Number: 2, Placements: []Placement{r.place(1, "c", 100)}}
	require.Equal(t, []string{"c: end 4 cancelled", "failed 4 on c"}, r.do(late))
	require.Empty(t, r.do(Rejected{Number: 2, Fault: fault.New(fault.NoReplica, "late")}))
	require.Empty(t, r.do(Withdrawn{Number: 2}))
	require.NotNil(t, r.m.waiting.asks)
	with(t, r.run(100, "c", "b"), "start 4 for leg 1 on c", "start 5 for leg 0 on b")
	// Nor is a second answer to the same submission taken.
	again := Placed{Number: 3, Placements: []Placement{r.place(0, "c", 100)}}
	require.Equal(t, []string{"c: end 7 cancelled", "failed 7 on c"}, r.do(again))
	require.Empty(t, r.do(Rejected{Number: 3, Fault: fault.New(fault.NoReplica, "late")}))
	for _, id := range []uint64{3, 4, 5} {
		r.do(text(id, "x").finish(engine.FinishStop))
		r.do(attemptEnded{attempt: id})
	}
	require.True(t, r.m.done())
}

func TestALegThatFailsForGoodFailsTheRequest(t *testing.T) {
	r := newRig(t, DefaultConfig(), &Request{N: 2, Resume: ResumeOff})
	r.run(100, "a", "p")
	r.do(text(1, "x"))
	r.do(text(2, "y"))
	require.Equal(t, []string{
		"a: attempt failed 1 broken", "finished 1 on a with 1", "same_distribution declined with 0", "ended: engine_failed",
		"p: linger 2", "abort 2", "finished 2 on p with 1", `p: learned 4 ""`,
	}, r.do(attemptEnded{1, failure(engine.Broken)}))
	require.True(t, r.m.done())
	require.Empty(t, r.do(attemptEnded{2, errCancelled}), "the ledger has a bound for it")
}

func TestRejected(t *testing.T) {
	r := newRig(t, DefaultConfig(), &Request{})
	require.Equal(t, []string{"ended: no_replica"}, r.do(Rejected{Number: 1, Fault: fault.New(fault.NoReplica, "none")}))
	require.True(t, r.m.done())
}

// TestCancel: the step that takes the client's leaving says all there is to do, in every phase; no timer and no answer of
// the engine is needed.
func TestCancel(t *testing.T) {
	for _, leave := range []struct {
		name  string
		event any
		fault string
	}{
		{"client gone", clientGone{}, "ended: client_gone"},
		{"overrun", overrun{}, "ended: slow_reader"},
		{"shutdown", shutdown, "ended: shutting_down"},
	} {
		for _, c := range []struct {
			phase string
			begin func(r *rig)
			want  []string
		}{
			{"waiting", func(*rig) {}, []string{"withdraw 1"}},
			{"prefill", func(r *rig) { r.run(9, "a") }, []string{"a: linger 1", "abort 1", "failed 1 on a"}},
			{"decode", func(r *rig) { r.run(9, "a"); r.do(text(1, "xy")) }, []string{"a: linger 1", "abort 1", "finished 1 on a with 2", `a: learned 5 ""`}},
			{
				"decode where aborts aren't confirmed", func(r *rig) { r.run(9, "p"); r.do(text(1, "xy")) },
				[]string{"p: linger 1", "abort 1", "finished 1 on p with 2", `p: learned 5 ""`},
			},
			{
				"routed anew", func(r *rig) { r.run(9, "a"); r.do(attemptEnded{1, failure(engine.Shed)}) }, []string{"withdraw 2"},
			},
			{
				"routed anew after a stall", func(r *rig) { r.run(9, "a"); r.later(time.Hour); r.do(timeout{}) }, []string{"withdraw 2"},
			},
		} {
			t.Run(leave.name+"/"+c.phase, func(t *testing.T) {
				r := newRig(t, DefaultConfig(), &Request{})
				c.begin(r)
				require.Equal(t, append([]string{leave.fault}, c.want...), r.do(leave.event))
				require.True(t, r.m.done(), "nobody is waited for")
				require.Empty(t, r.do(leave.event), "once")
				_, timed := r.m.nextTimeout()
				require.False(t, timed)
				for _, answer := range []any{ // whatever the router answers all the same
					Withdrawn{Number: r.m.asked},
					Known{Number: r.m.asked},
					Lost{Number: r.m.asked},
					Rejected{Number: r.m.asked, Fault: fault.New(fault.NoReplica, "none")},
					RouterRestarted{},
				} {
					require.Empty(t, r.do(answer))
				}
				got := r.do(Placed{Number: r.m.asked, Placements: []Placement{r.place(0, "b", 9)}})
				require.Len(t, got, 2)
				require.Regexp(t, "^b: end [0-9]+ cancelled$", got[0])
				require.Regexp(t, "^failed [0-9]+ on b$", got[1], "what was speculated on it is withdrawn")
			})
		}
	}
}

func TestCancelOfSeveralLegsWhileOneWaits(t *testing.T) {
	r := newRig(t, DefaultConfig(), &Request{N: 3})
	r.run(9, "a", "p", "b")
	r.do(text(2, "x"))
	r.do(attemptEnded{1, failure(engine.Shed)})
	require.Equal(t, []string{
		"ended: client_gone", "withdraw 2",
		"p: linger 2", "abort 2", "finished 2 on p with 1", `p: learned 4 ""`, "b: linger 3", "abort 3", "failed 3 on b",
	}, r.do(clientGone{}))
	require.True(t, r.m.done())
}

// TestEndOfAborted: a ticket that lingers ends once, when the engine says that it has let go.
func TestEndOfAborted(t *testing.T) {
	for _, c := range []struct {
		engine string
		err    error
		want   []string
	}{
		{"a", errCancelled, []string{"a: end 1 cancelled"}},
		{"a", failure(engine.Broken), []string{"a: end 1 cancelled"}},
		{"a", nil, []string{"a: end 1 finished"}},
		{"p", errCancelled, []string{}},
		{"p", failure(engine.Broken), []string{}},
		{"p", nil, []string{"p: end 1 finished"}},
	} {
		r := newRig(t, DefaultConfig(), &Request{})
		r.run(9, c.engine)
		r.do(clientGone{})
		require.Equal(t, c.want, r.do(attemptEnded{1, c.err}), "%s %v", c.engine, c.err)
		require.True(t, r.m.done())
	}
}

func TestRouterRestarted(t *testing.T) {
	cfg := DefaultConfig()
	cfg.ResubmitsMax = 2
	r := newRig(t, cfg, &Request{N: 2})
	require.Equal(t, []string{"submit 2, leg 0, leg 1"}, r.do(RouterRestarted{}))
	// What the instance before had sent is void.
	require.Equal(t, []string{"a: end 1 cancelled", "failed 1 on a"}, r.do(Placed{Number: 1, Placements: []Placement{r.place(0, "a", 9)}}))
	require.Empty(t, r.do(Rejected{Number: 1, Fault: fault.New(fault.NoReplica, "none")}))
	r.run(9, "a", "b")
	require.Empty(t, r.do(RouterRestarted{}), "it owes nothing")
	r.do(attemptEnded{1, failure(engine.Shed)})
	require.Equal(t, []string{"submit 4 again, leg 0 not a/1 after contended"}, r.do(RouterRestarted{}))
	require.Equal(t, []string{"ended: internal", "withdraw 4", "b: linger 3", "abort 2", "failed 3 on b"}, r.do(RouterRestarted{}),
		"a request that breaks the router must not do so for ever")
	require.True(t, r.m.done())
}

// TestReplicaRestarted: each restart is answered once, with the tickets of that replica and their states.
func TestReplicaRestarted(t *testing.T) {
	r := newRig(t, DefaultConfig(), &Request{N: 4, Stop: []string{"!"}})
	ask := func(name string, n uint64) []string { return r.do(ReplicaRestarted{Ref: r.ref(name), Epoch: n}) }
	require.Equal(t, []string{"a: announced in 2"}, ask("a", 2), "none yet")
	r.run(9, "a", "a", "a", "b")
	r.do(text(2, "xy"))
	r.do(text(3, "x!"))
	require.Equal(t, []string{"a: announced in 3, 1 reserved 0, 2 running 2, 3 lingering 2"}, ask("a", 3))
	require.Equal(t, []string{"b: announced in 4, 4 reserved 0"}, ask("b", 4))
	r.do(attemptEnded{3, errCancelled})
	r.do(attemptEnded{4, failure(engine.Shed)})
	require.Equal(t, []string{"b: announced in 5"}, ask("b", 5))
	r.do(clientGone{})
	require.Equal(t, []string{"a: announced in 6, 1 lingering 0, 2 lingering 2"}, ask("a", 6))
	require.Equal(t, ledger.Claim{Ticket: scoring.Ticket{Boot: 1, Number: 2}, PromptTokens: 3, PrefillTokens: 2}, r.m.attempts[2].announcement().Claim)
	require.Equal(t, uint64(1), r.m.attempts[2].announcement().Incarnation)
}

// TestAGrantThatTheReplicaHasForgotten: it restarted after it granted, and was answered before the call knew the ticket.
func TestAGrantThatTheReplicaHasForgotten(t *testing.T) {
	r := newRig(t, DefaultConfig(), &Request{N: 2})
	r.do(ReplicaRestarted{Ref: r.ref("a"), Epoch: 3})
	old, other := r.place(0, "a", 9), r.place(1, "b", 9)
	old.Epoch, other.Epoch = 2, 1
	require.Equal(t, []string{"a: end 1 cancelled", "failed 1 on a", "b: end 2 cancelled", "failed 2 on b", "submit 2, leg 0, leg 1"},
		r.do(Placed{Number: 1, Placements: []Placement{old, other}}), "all legs or none")
	now := r.place(0, "a", 9)
	now.Epoch = 3
	with(t, r.do(Placed{Number: 2, Placements: []Placement{now, other}}), "start 1 for leg 0 on a", "start 2 for leg 1 on b")
}

func TestTimeouts(t *testing.T) {
	cfg := DefaultConfig()
	cfg.FirstTokenTimeout, cfg.TokenTimeout, cfg.SettleTimeout = 100*time.Second, 10*time.Second, time.Second
	due := func(r *rig) time.Duration {
		at, ok := r.m.nextTimeout()
		if !ok {
			return -1
		}
		return at.Sub(epoch)
	}
	t.Run("first token", func(t *testing.T) {
		r := newRig(t, cfg, &Request{})
		require.Equal(t, cfg.RouterWait, due(r), "the router's")
		r.run(9, "a")
		require.Equal(t, 100*time.Second, due(r))
		r.later(50 * time.Second)
		r.do(tokens(1).cached(3))
		require.Equal(t, 100*time.Second, due(r), "no token, no progress")
		r.later(49 * time.Second)
		require.Empty(t, r.do(timeout{}), "early")
		r.later(time.Second)
		require.Equal(t, []string{
			"a: attempt failed 1 stalled", "abort 1", "failed 1 on a", "submit 2 again, leg 0 not a/1 after deadline",
		}, r.do(timeout{}))
		require.Equal(t, 100*time.Second+cfg.RouterWait, due(r))
		r.run(9, "b")
		// The engine that stalled comes back to life: its tokens are nobody's, and its end is an end only of its ticket.
		require.Empty(t, r.do(text(1, "late")))
		require.Equal(t, []string{"a: end 1 cancelled"}, r.do(attemptEnded{1, errCancelled}))
		with(t, r.do(text(2, "x").finish(engine.FinishStop)), `leg 0: 1 "x"`, "ended well")
	})
	t.Run("token", func(t *testing.T) {
		r := newRig(t, cfg, &Request{})
		r.run(9, "a")
		r.later(5 * time.Second)
		r.do(text(1, "x"))
		require.Equal(t, 15*time.Second, due(r))
		r.later(9 * time.Second)
		r.do(tokens(1))
		require.Equal(t, 15*time.Second, due(r))
		r.later(time.Second)
		require.Equal(t, []string{
			"a: attempt failed 1 stalled", "abort 1", "finished 1 on a with 1", "submit 2 again begun, leg 0 with 1 of 9 not a/1 after deadline",
		}, r.do(timeout{}))
		require.Equal(t, 15*time.Second+cfg.RouterWait, due(r))
	})
	t.Run("of a replica's own pace", func(t *testing.T) {
		cfg := cfg
		cfg.FirstTokenTimeout, cfg.TokenTimeout, cfg.StallLeast = time.Hour, time.Minute, 5*time.Second
		for _, c := range []struct{ predicted, first, step time.Duration }{
			{10 * time.Millisecond, 5 * time.Second, 5 * time.Second}, // none is shorter
			{100 * time.Millisecond, 5 * time.Second, 10 * time.Second},
			{time.Second, 8 * time.Second, time.Minute}, // nor longer than without one
			{time.Hour, time.Hour, time.Minute},
		} {
			r := newRig(t, cfg, &Request{})
			place := r.place(0, "a", 9)
			place.FirstToken, place.Step = &c.predicted, &c.predicted
			r.do(Placed{Number: r.m.asked, Placements: []Placement{place}})
			require.Equal(t, c.first, due(r))
			r.do(text(1, "x"))
			require.Equal(t, c.step, due(r))
		}
	})
	t.Run("settle", func(t *testing.T) {
		r := newRig(t, cfg, &Request{})
		r.run(1, "a")
		with(t, r.do(text(1, "x")), "ended well")
		require.Equal(t, time.Second, due(r))
		r.later(500 * time.Millisecond)
		require.Empty(t, r.do(text(1, "on and on")))
		require.Equal(t, time.Second, due(r), "an engine that goes on after the end gets no more time")
		r.later(500 * time.Millisecond)
		require.Equal(t, []string{"a: linger 1", "abort 1", "finished 1 on a with 1", `a: learned 4 ""`}, r.do(timeout{}))
		require.True(t, r.m.done())
		require.Equal(t, []string{"a: end 1 cancelled"}, r.do(attemptEnded{1, errCancelled}))
	})
	t.Run("the soonest of several", func(t *testing.T) {
		r := newRig(t, cfg, &Request{N: 3})
		r.run(9, "a", "b", "c")
		r.later(2 * time.Second)
		r.do(text(2, "x"))
		require.Equal(t, 12*time.Second, due(r))
		r.do(text(3, "x").finish(engine.FinishStop))
		require.Equal(t, 3*time.Second, due(r))
	})
}

// TestAStalledEngineThatReturnsFailsItsLegOnce: the leg has another attempt by then, and both would write one answer.
func TestAStalledEngineThatReturnsFailsItsLegOnce(t *testing.T) {
	r := newRig(t, DefaultConfig(), &Request{})
	r.run(9, "a")
	r.later(time.Hour)
	r.do(timeout{})
	r.run(9, "b")
	effects := r.do(attemptEnded{1, failure(engine.Broken)})
	require.Equal(t, []string{"a: end 1 cancelled"}, effects)
	require.Len(t, r.m.attempts, 1)
}

// TestWhatLingersIsReported: an engine goes on until it hears that an attempt is over, and its replica books ahead of the last
// figure that it was told, so that figure is the true one. Whoever hears of the attempt for the first time can book it.
func TestWhatLingersIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		event any
		heard string
	}{
		"the client leaves": {clientGone{}, "p: linger 1"},
		"it breaks":         {attemptEnded{1, failure(engine.Broken)}, "p: attempt failed 1 broken"},
		"it stalls":         {timeout{}, "p: attempt failed 1 stalled"},
		"it is to leave":    {Leave{Leaving: fleet.Leaving{Incarnation: 1, Why: "drained"}}, "p: linger 1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, DefaultConfig(), &Request{})
			r.run(100, "p")
			without(t, r.do(text(1, "a")), "p: progress 1 1")
			without(t, r.do(text(1, "bcdefghijklmno")), "p: progress 1 15")
			r.later(DefaultConfig().TokenTimeout)
			event := c.event
			if l, ok := event.(Leave); ok {
				l.Ref = r.ref("p")
				event = l
			}
			with(t, r.do(event), c.heard)
			require.Equal(t, fleet.Attempt{
				Claim:    ledger.Claim{Ticket: scoring.Ticket{Boot: 1, Number: 1}, PromptTokens: 3, PrefillTokens: 2},
				Produced: 15, Incarnation: 1, Began: epoch,
			}, lastWords(t, r.m.out))
		})
	}
}

// lastWords is the attempt that a replica is told of.
func lastWords(t tester, effects []effect) fleet.Attempt {
	t.Helper()
	for _, e := range effects {
		if m, ok := e.(toReplica); ok {
			switch m := m.message.(type) {
			case fleet.Linger:
				return m.Attempt
			case fleet.AttemptFailed:
				return m.Attempt
			}
		}
	}
	require.Fail(t, "nothing lingers")
	return fleet.Attempt{}
}

// TestAFirstFrameOfManyTokensIsReported: that the first token has come says nothing of a second one.
func TestAFirstFrameOfManyTokensIsReported(t *testing.T) {
	r := newRig(t, DefaultConfig(), &Request{})
	r.run(100, "p")
	with(t, r.do(text(1, "abcdefghijklmno")), "p: started 1", "p: progress 1 15")
	without(t, r.do(text(1, "bcdefghijklmno")), "p: progress 1 29")
	with(t, r.do(text(1, "bc")), "p: progress 1 31")
}

// TestAnEngineThatLosesIDsIsReportedEarlier: what is booked ahead covers what it has computed and not told of, too.
func TestAnEngineThatLosesIDsIsReportedEarlier(t *testing.T) {
	r := newRig(t, DefaultConfig(), &Request{})
	r.run(100, "losing")
	r.do(text(1, "a"))
	without(t, r.do(text(1, "bcdefghijklm")), "losing: progress 1 13")
	with(t, r.do(text(1, "n")), "losing: progress 1 14")
}
