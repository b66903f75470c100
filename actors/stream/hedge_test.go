package stream

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/engine"
)

// predicted is how long the first tokens of these tests are predicted to take.
const predicted = 2 * time.Second

// hedging hedges after three times the prediction.
func hedging() Config {
	cfg := DefaultConfig()
	cfg.HedgeAfter = 3
	return cfg
}

// stuck starts a request whose first attempt, on a replica, has a prediction and brings nothing.
func stuck(t *testing.T, cfg Config, req *Request, name string) *rig {
	t.Helper()
	r := newRig(t, cfg, req)
	r.predict(name, 100)
	return r
}

// predict places what is asked for, with a prediction.
func (r *rig) predict(name string, maxTokens int) []string {
	p := r.place(r.m.waiting.asks[0].Leg, name, maxTokens)
	took := predicted
	p.FirstToken = &took
	return r.do(Placed{Number: r.m.asked, Placements: []Placement{p}})
}

// late lets the time of the hedge come.
func (r *rig) late() []string {
	at, ok := r.m.nextTimeout()
	require.True(r.t, ok)
	require.Equal(r.t, epoch.Add(3*predicted), at)
	r.now = at
	return r.do(timeout{})
}

// both has the first attempt on one replica and the hedge on another.
func both(t *testing.T, req *Request, first, second string) *rig {
	t.Helper()
	r := stuck(t, hedging(), req, first)
	r.late()
	require.Equal(t, []string{"hedge begun", "start 2 for leg 0 on " + second}, r.predict(second, 100))
	require.Equal(t, 1, r.of.taken)
	return r
}

// TestWhoIsHedged: what is one answer, of which nothing has come, whose first token was predicted.
func TestWhoIsHedged(t *testing.T) {
	asked := []string{"submit 2 again hedge, leg 0 not a/1"}
	for name, c := range map[string]struct {
		of    float64
		req   Request
		first func(r *rig) // what happens to its first attempt before its time
		want  []string
	}{
		"a stuck prefill":      {3, Request{}, nil, asked},
		"where it is off":      {0, Request{}, nil, []string{}},
		"before its time":      {3.5, Request{}, nil, []string{}},
		"whole answers too":    {3, Request{Whole: true}, nil, asked},
		"two answers":          {3, Request{N: 2}, nil, []string{}},
		"two prompts":          {3, Request{Input: Input{Tokens: [][]uint32{{1}, {2}}}}, nil, []string{}},
		"an answer that began": {3, Request{}, func(r *rig) { r.do(text(1, "x")) }, []string{}},
		"a finished one":       {3, Request{}, func(r *rig) { r.do(tokens(1).finish(engine.FinishStop)) }, []string{"a: linger 1", "abort 1", "failed 1 on a"}},
		"a frame without a token is none": {
			3, Request{}, func(r *rig) { r.do(tokens(1).cached(2)) }, asked,
		},
		"one whose client left": {3, Request{}, func(r *rig) { r.do(clientGone{}) }, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.HedgeAfter = c.of
			r := newRig(t, cfg, &c.req)
			took := predicted
			placed := Placed{Number: 1}
			for i := range r.m.legs {
				p := r.place(i, "a", 100)
				p.FirstToken = &took
				placed.Placements = append(placed.Placements, p)
			}
			r.do(placed)
			if c.first != nil {
				c.first(r)
			}
			r.later(3 * predicted)
			require.Equal(t, c.want, r.do(timeout{}))
		})
	}
}

// TestNothingIsPredicted: what nobody knows the time of is never late.
func TestNothingIsPredicted(t *testing.T) {
	r := newRig(t, hedging(), &Request{})
	r.run(100, "a")
	at, ok := r.m.nextTimeout()
	require.True(t, ok)
	require.Equal(t, epoch.Add(hedging().FirstTokenTimeout), at)
	r.later(time.Minute)
	require.Empty(t, r.do(timeout{}))
}

// TestRace is a request with two attempts, a on its first replica and b on the other, and what becomes of it.
func TestRace(t *testing.T) {
	leave := func(r *rig, name string, hung bool) []string {
		return r.do(Leave{Ref: r.ref(name), Leaving: fleet.Leaving{Incarnation: 1, Hung: hung}})
	}
	for name, c := range map[string]struct {
		first, second string
		does          func(r *rig) []string
		want          []string
		taken         int // of the retry budget afterwards
	}{
		"the hedge is first": {"a", "b", func(r *rig) []string { return r.do(text(2, "x")) }, []string{
			"a: late 1", "a: linger 1", "abort 1", "failed 1 on a", "leg 0 is on b", "hedge won",
			"b: started 2", "first token of b after 0s", `b: learned 3 ""`, `leg 0: 1 "x"`,
		}, 0},
		"the first one is first": {"p", "b", func(r *rig) []string { return r.do(text(1, "x")) }, []string{
			"b: linger 2", "abort 2", "failed 2 on b", "hedge lost",
			"p: started 1", "first token of p after 6s", `p: learned 3 ""`, `leg 0: 1 "x"`,
		}, 0},
		"an end is as good as a token": {"a", "b", func(r *rig) []string { return r.do(tokens(2).finish(engine.FinishStop)) }, []string{
			"a: late 1", "a: linger 1", "abort 1", "failed 1 on a", "leg 0 is on b", "hedge won", "leg 0: stop after 0", "ended well",
		}, 0},
		"an abort on the engine is none": {"a", "b", func(r *rig) []string { return r.do(tokens(2).finish(engine.FinishAbort)) }, []string{}, 1},
		"what is found cached is none":   {"a", "b", func(r *rig) []string { return r.do(tokens(2).cached(1)) }, []string{"b: cached 1 of 1 predicted"}, 1},
		"a token that cannot be read is none": {"a", "b", func(r *rig) []string { return r.do(tokens(1, idNone).finish(engine.FinishStop)) }, []string{
			"a: linger 1", "abort 1", "failed 1 on a",
		}, 1},
		"the hedge's token cannot be read": {"a", "b", func(r *rig) []string { return r.do(tokens(2, idNone)) }, []string{
			"b: linger 2", "abort 2", "failed 2 on b", "hedge failed",
		}, 0},
		"the first one fails": {"a", "b", func(r *rig) []string { return r.do(attemptEnded{1, failure(engine.Broken)}) }, []string{
			"a: attempt failed 1 broken", "failed 1 on a",
		}, 1},
		"the hedge fails": {"a", "b", func(r *rig) []string { return r.do(attemptEnded{2, failure(engine.Refused)}) }, []string{
			"b: attempt failed 2 refused", "failed 2 on b", "hedge failed",
		}, 0},
		"the hedge is shed": {"a", "b", func(r *rig) []string { return r.do(attemptEnded{2, failure(engine.Shed)}) }, []string{
			"b: attempt failed 2 shed", "failed 2 on b", "hedge failed",
		}, 0},
		"the hedge ends without a finish": {"a", "b", func(r *rig) []string { return r.do(attemptEnded{attempt: 2}) }, []string{
			"b: end 2 failed", "failed 2 on b", "hedge failed",
		}, 0},
		"the client's fault, says the first one": {"a", "b", func(r *rig) []string { return r.do(attemptEnded{1, failure(engine.Client)}) }, []string{
			"a: attempt failed 1 client", "failed 1 on a", "ended: engine_refused", "hedge failed", "b: linger 2", "abort 2", "failed 2 on b",
		}, 0},
		"the client's fault, says the hedge": {"a", "b", func(r *rig) []string { return r.do(attemptEnded{2, failure(engine.Client)}) }, []string{
			"b: attempt failed 2 client", "failed 2 on b", "hedge failed", "ended: engine_refused", "a: linger 1", "abort 1", "failed 1 on a",
		}, 0},
		"the client leaves": {"a", "p", func(r *rig) []string { return r.do(clientGone{}) }, []string{
			"ended: client_gone", "hedge failed", "a: linger 1", "abort 1", "failed 1 on a", "p: linger 2", "abort 2", "failed 2 on p",
		}, 0},
		"the node goes down": {"a", "b", func(r *rig) []string { return r.do(shutdown) }, []string{
			"ended: shutting_down", "hedge failed", "a: linger 1", "abort 1", "failed 1 on a", "b: linger 2", "abort 2", "failed 2 on b",
		}, 0},
		"the first one's replica is emptied": {"a", "b", func(r *rig) []string { return leave(r, "a", false) }, []string{
			"a: linger 1", "abort 1", "failed 1 on a",
		}, 1},
		"the first one's replica hangs": {"a", "b", func(r *rig) []string { return leave(r, "a", true) }, []string{
			"a: attempt failed 1 stalled", "abort 1", "failed 1 on a",
		}, 1},
		"the hedge's replica is emptied": {"a", "b", func(r *rig) []string { return leave(r, "b", false) }, []string{
			"b: linger 2", "abort 2", "failed 2 on b", "hedge failed",
		}, 0},
		"the router restarts": {"a", "b", func(r *rig) []string { return r.do(RouterRestarted{}) }, []string{}, 1},
		"a replica restarts": {"a", "b", func(r *rig) []string { return r.do(ReplicaRestarted{Ref: r.ref("b"), Epoch: 10}) }, []string{
			"b: announced in 10, 2 reserved 0",
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := both(t, &Request{}, c.first, c.second)
			require.Equal(t, c.want, c.does(r))
			require.Equal(t, c.taken, r.of.taken)
			_, late := r.m.hedgeAt()
			require.Nil(t, late, "once a request")
		})
	}
}

// TestWhoIsLeftGoesOn: where one attempt of two has failed, the other gives the answer.
func TestWhoIsLeftGoesOn(t *testing.T) {
	for _, c := range []struct {
		fails, gives uint64
		on           string
		want         []string
	}{
		{1, 2, "b", []string{"leg 0 is on b", "hedge won", "b: started 2", "first token of b after 0s", `b: learned 3 ""`, `leg 0: 1 "x"`}},
		{2, 1, "a", []string{"a: started 1", "first token of a after 6s", `a: learned 3 ""`, `leg 0: 1 "x"`}},
	} {
		r := both(t, &Request{}, "a", "b")
		r.do(attemptEnded{c.fails, failure(engine.Broken)})
		require.Equal(t, c.want, r.do(text(c.gives, "x")))
		require.Zero(t, r.of.taken)
		with(t, r.do(tokens(c.gives).finish(engine.FinishStop)), "leg 0: stop after 1", "ended well")
		r.do(attemptEnded{attempt: c.gives})
		require.True(t, r.m.done())
	}
}

// TestBothFail: the leg is routed anew, away from both, as any whose attempt has failed.
func TestBothFail(t *testing.T) {
	for name, c := range map[string]struct {
		kinds [2]engine.FailKind
		order [2]uint64
		want  string
	}{
		"the hedge last":     {[2]engine.FailKind{engine.Broken, engine.Refused}, [2]uint64{1, 2}, "submit 3 again, leg 0 not a/1 not b/1 after engine_failed"},
		"the hedge first":    {[2]engine.FailKind{engine.Stalled, engine.Broken}, [2]uint64{2, 1}, "submit 3 again, leg 0 not b/1 not a/1 after engine_failed"},
		"both shed":          {[2]engine.FailKind{engine.Shed, engine.Shed}, [2]uint64{1, 2}, "submit 3 again, leg 0 not a/1 not b/1 after contended"},
		"the last one hangs": {[2]engine.FailKind{engine.Broken, engine.Stalled}, [2]uint64{1, 2}, "submit 3 again, leg 0 not a/1 not b/1 after deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			r := both(t, &Request{}, "a", "b")
			without(t, r.do(attemptEnded{c.order[0], failure(c.kinds[0])}), "submit")
			effects := r.do(attemptEnded{c.order[1], failure(c.kinds[1])})
			require.Equal(t, c.want, effects[len(effects)-1])
			require.Equal(t, 1, r.of.taken, "the retry's own share")
			r.predict("c", 100)
			r.later(time.Minute)
			without(t, r.do(timeout{}), "submit 4 again hedge")
		})
	}
}

// TestBothStallAtOnce: the deadline of a first token is for each of them.
func TestBothStallAtOnce(t *testing.T) {
	r := both(t, &Request{}, "a", "b")
	r.later(hedging().FirstTokenTimeout)
	effects := r.do(timeout{})
	with(t, effects, "a: attempt failed 1 stalled", "abort 1", "b: attempt failed 2 stalled", "abort 2", "hedge failed",
		"submit 3 again, leg 0 not a/1 not b/1 after deadline")
}

// TestAHedgeThatIsNotBegun costs the request nothing.
func TestAHedgeThatIsNotBegun(t *testing.T) {
	wanted := Rejected{Number: 2, Fault: fault.New(fault.Contended, "no")}
	late := func(r *rig) Placed { return Placed{Number: 2, Placements: []Placement{r.place(0, "b", 100)}} }
	for name, c := range map[string]struct {
		does func(r *rig) []string
		want []string
		then func(r *rig) []string // what comes of it later
		last []string
	}{
		"the router declines":     {func(r *rig) []string { return r.do(wanted) }, []string{"hedge refused"}, nil, nil},
		"the router restarts":     {func(r *rig) []string { return r.do(RouterRestarted{}) }, []string{"hedge refused"}, func(r *rig) []string { return r.do(late(r)) }, []string{"b: end 2 cancelled", "failed 2 on b"}},
		"its replica forgets it":  {func(r *rig) []string { r.do(ReplicaRestarted{Ref: r.ref("b"), Epoch: 10}); return r.do(late(r)) }, []string{"b: end 2 cancelled", "failed 2 on b", "hedge refused"}, nil, nil},
		"the first one is quick":  {func(r *rig) []string { return r.do(text(1, "x"))[:2] }, []string{"withdraw 2", "hedge withdrawn"}, func(r *rig) []string { return r.do(late(r)) }, []string{"b: end 2 cancelled", "failed 2 on b"}},
		"and the router declines": {func(r *rig) []string { return r.do(text(1, "x"))[:2] }, []string{"withdraw 2", "hedge withdrawn"}, func(r *rig) []string { return r.do(wanted) }, []string{}},
		"or says that it is gone": {func(r *rig) []string { return r.do(text(1, "x"))[:2] }, []string{"withdraw 2", "hedge withdrawn"}, func(r *rig) []string { return r.do(Withdrawn{Number: 2}) }, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			r := stuck(t, hedging(), &Request{}, "a")
			require.Equal(t, []string{"submit 2 again hedge, leg 0 not a/1"}, r.late())
			require.Equal(t, 1, r.of.taken)
			require.Equal(t, c.want, c.does(r))
			require.Zero(t, r.of.taken)
			if c.then != nil {
				require.Equal(t, c.last, c.then(r))
			}
			r.later(predicted)
			require.Empty(t, r.do(timeout{}), "it is asked for once")
			with(t, r.do(text(1, "y").finish(engine.FinishStop)), "ended well")
			r.do(attemptEnded{attempt: 1})
			require.True(t, r.m.done())
		})
	}
}

// TestTheFirstOneFailsWhileAHedgeIsAskedFor: the hedge is withdrawn, and the leg goes the way of all that fail.
func TestTheFirstOneFailsWhileAHedgeIsAskedFor(t *testing.T) {
	r := stuck(t, hedging(), &Request{}, "a")
	r.late()
	require.Equal(t, []string{
		"a: attempt failed 1 broken", "failed 1 on a", "withdraw 2", "hedge withdrawn", "submit 3 again, leg 0 not a/1 after engine_failed",
	}, r.do(attemptEnded{1, failure(engine.Broken)}))
	require.Equal(t, 1, r.of.taken)
	require.Equal(t, []string{"b: end 2 cancelled", "failed 2 on b"}, r.do(Placed{Number: 2, Placements: []Placement{r.place(0, "b", 100)}}))
	with(t, r.run(100, "c"), "start 2 for leg 0 on c")
}

// TestTheClientLeavesWhileAHedgeIsAskedFor: all of it is gone in that step, and a place that it is granted all the same is given back.
func TestTheClientLeavesWhileAHedgeIsAskedFor(t *testing.T) {
	r := stuck(t, hedging(), &Request{}, "a")
	r.late()
	require.Equal(t, []string{
		"ended: client_gone", "hedge withdrawn", "withdraw 2", "a: linger 1", "abort 1", "failed 1 on a",
	}, r.do(clientGone{}))
	require.True(t, r.m.done(), "nobody is waited for")
	require.Zero(t, r.of.taken)
	require.Equal(t, []string{"b: end 2 cancelled", "failed 2 on b"}, r.do(Placed{Number: 2, Placements: []Placement{r.place(0, "b", 100)}}))
}

// TestHedgesAreBounded by the budget of retries: where that is spent none is asked for, then or later.
func TestHedgesAreBounded(t *testing.T) {
	r := stuck(t, hedging(), &Request{}, "a")
	others := r.of.join()
	for range retriesMin {
		require.True(t, others.take(false))
	}
	require.Equal(t, []string{"hedge refused"}, r.late())
	require.Equal(t, retriesMin, r.of.taken)
	others.close()
	r.later(predicted)
	require.Empty(t, r.do(timeout{}))
}

// TestTheLastAttemptIsNoHedge: it would be one more than a leg may have.
func TestTheLastAttemptIsNoHedge(t *testing.T) {
	cfg := hedging()
	cfg.AttemptsMax = 1
	r := stuck(t, cfg, &Request{}, "a")
	r.later(3 * predicted)
	require.Empty(t, r.do(timeout{}))
}

// TestTheWinnersAnswer: limit, cached tokens and what is told of a broken answer are those of the attempt that gave it.
func TestTheWinnersAnswer(t *testing.T) {
	for _, c := range []struct {
		wins  uint64
		limit int
		on    string
	}{{1, 100, "a"}, {2, 40, "b"}} {
		r := stuck(t, hedging(), &Request{}, "a")
		r.late()
		r.predict("b", 40)
		r.do(tokens(1).cached(1))
		r.do(tokens(2).cached(2))
		r.do(text(c.wins, "xy"))
		require.Equal(t, int(c.wins), r.m.usage().CachedTokens)                                                                  //nolint:gosec // a count
		require.Equal(t, Usage{PromptTokens: 3, CompletionTokens: 2, CachedTokens: int(c.wins), CachedKnown: true}, r.m.usage()) //nolint:gosec // a count
		require.Empty(t, r.do(text(3-c.wins, "late")), "nothing of the other one counts")
		sub := submitted(t, r.m.step(r.now, attemptEnded{c.wins, failure(engine.Broken)}))
		require.False(t, sub.Hedge)
		require.Equal(t, c.limit-2, *sub.Legs[0].MaxTokens)
		require.Equal(t, []Exclusion{{Replica: r.ref(c.on).ID, Incarnation: 1, Process: true}}, sub.Legs[0].Excluded)
	}
}

// TestTheLoserIsNotWaitedFor: the request ends with its winner; what the loser holds lingers like that of any other.
func TestTheLoserIsNotWaitedFor(t *testing.T) {
	r := both(t, &Request{}, "p", "b")
	with(t, r.do(text(2, "x").finish(engine.FinishStop)), "abort 1", "ended well")
	at, ok := r.m.nextTimeout()
	require.True(t, ok)
	require.Equal(t, r.now.Add(hedging().SettleTimeout), at, "the winner settles")
	require.Equal(t, []string{"b: end 2 finished", "finished 2 on b with 1", `b: learned 4 ""`}, r.do(attemptEnded{attempt: 2}))
	require.True(t, r.m.done())
	require.Empty(t, r.do(attemptEnded{1, errCancelled}), "an engine that does not confirm: it lingers until its bound")
}

// TestARestartedLegDoesNotRace: something of it has come before, and was paid for.
func TestARestartedLegDoesNotRace(t *testing.T) {
	r := stuck(t, hedging(), &Request{Whole: true, Resume: ResumeOff}, "a")
	r.do(text(1, "x"))
	with(t, r.do(attemptEnded{1, failure(engine.Broken)}), "leg 0 begins anew")
	r.predict("b", 100)
	r.later(4 * predicted)
	require.Empty(t, r.do(timeout{}))
}

// TestARetryIsHedgedToo: nothing has come of it. Each has a share of its own.
func TestARetryIsHedgedToo(t *testing.T) {
	r := newRig(t, hedging(), &Request{})
	r.run(100, "a")
	r.do(attemptEnded{1, failure(engine.Broken)})
	r.predict("b", 100)
	require.Equal(t, []string{"submit 3 again hedge, leg 0 not a/1 not b/1"}, r.late())
	require.Equal(t, 2, r.of.taken)
	r.predict("c", 100)
	with(t, r.do(text(3, "x")), "abort 2", "hedge won", `leg 0: 1 "x"`)
	require.Zero(t, r.of.taken)
}

// TestWhereAHedgeMayNotGo: to the whole process of the first attempt, as long as that lives.
func TestWhereAHedgeMayNotGo(t *testing.T) {
	r := stuck(t, hedging(), &Request{}, "a")
	r.later(3 * predicted)
	sub := submitted(t, r.m.step(r.now, timeout{}))
	require.True(t, sub.Hedge)
	require.False(t, sub.Begun)
	require.Equal(t, []Ask{{Leg: 0, Prompt: 0, Excluded: []Exclusion{{Replica: "a", Incarnation: 1, Process: true}}}}, sub.Legs)
	require.Empty(t, r.m.legs[0].excluded, "it has not failed")
}

// TestConfigOfHedges says what makes sense.
func TestConfigOfHedges(t *testing.T) {
	for of, ok := range map[float64]bool{0: true, 1: true, 2.5: true, HedgeAfterMax: true, 0.5: false, -1: false, HedgeAfterMax + 1: false} {
		cfg := DefaultConfig()
		cfg.HedgeAfter = of
		require.Equal(t, ok, cfg.Validate() == nil, "%g", of)
	}
	cfg := DefaultConfig()
	cfg.HedgeAfter = math.NaN()
	require.Error(t, cfg.Validate())
	for e := range NumHedgeEvents {
		require.NotEqual(t, "unknown", e.String())
	}
	require.Equal(t, "unknown", NumHedgeEvents.String())
}

// TestEveryTicketOfARaceEndsOnce, whatever the engines can confirm.
func TestEveryTicketOfARaceEndsOnce(t *testing.T) {
	for _, loser := range []string{"a", "p"} {
		r := both(t, &Request{}, loser, "b")
		r.do(text(2, "x"))
		got := r.do(attemptEnded{1, errCancelled})
		if loser == "a" {
			require.Equal(t, []string{"a: end 1 cancelled"}, got)
		} else {
			require.Empty(t, got)
		}
	}
}
