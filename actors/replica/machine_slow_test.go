package replica

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// dispatch has a request of some work begin. predicted is what its router says of its prefill; nil: nothing.
func (w *watched) dispatch(work fleet.Work, predicted *time.Duration) scoring.Ticket {
	c := w.claim()
	c.PrefillTokens, c.PrivateBlocks = work.PromptTokens, 1
	w.at(0, &fleet.Reserve{Claim: c, Incarnation: w.m.life.incarnation, Prefill: predicted, Work: work})
	require.True(w.t, has[grant](w.bench.last))
	return c.Ticket
}

// token has a stream give one now.
func (w *watched) token() {
	w.last = w.now
	w.at(0, fleet.Beats{Last: &w.last, Peers: w.others()})
}

// first brings a ticket's first token after a time.
func (w *watched) first(t scoring.Ticket, after time.Duration) {
	w.now = w.now.Add(after)
	w.token()
	w.at(0, fleet.Started{Ticket: t})
}

// struckAfter is how long it is silent until it is struck, up to a limit.
func (w *watched) struckAfter(limit time.Duration) time.Duration {
	began := w.now
	for !w.m.snapshot().Hung && w.now.Sub(began) < limit {
		w.pass(time.Second, true)
	}
	return w.now.Sub(began)
}

// TestSlowIsNotHung (kind 3): how long a prompt is waited for, by what is known of the engine.
func TestSlowIsNotHung(t *testing.T) {
	const forAnything, soon = 10 * time.Minute, 2 * time.Second
	short := 10 * time.Millisecond
	knows := func(s fleet.Seen) []fleet.Peer {
		p := peer("b")
		p.Seen = &s
		return []fleet.Peer{p, peer("c")}
	}
	all := knows(fleet.Seen{PromptTokens: 1 << 20, Logprobs: true, Schema: true, Adapters: []string{"a"}})
	plain := knows(fleet.Seen{PromptTokens: 1 << 20})
	for name, c := range map[string]struct {
		work        fleet.Work
		peers       []fleet.Peer
		dead        bool // its probes are not answered either
		least, most time.Duration
	}{
		"as those before it":                                 {fleet.Work{PromptTokens: 150}, all, false, 0, soon},
		"the first of twice the length, others know it":      {fleet.Work{PromptTokens: 200}, all, false, 10 * time.Second, 12 * time.Second},
		"the first of twice the length, nobody knows it":     {fleet.Work{PromptTokens: 200}, nil, false, forAnything, forAnything + 5*time.Second},
		"the first logprobs, others know them":               {fleet.Work{PromptTokens: 100, Logprobs: true}, all, false, 10 * time.Second, 12 * time.Second},
		"the first logprobs, nobody knows them":              {fleet.Work{PromptTokens: 100, Logprobs: true}, plain, false, forAnything, forAnything + 5*time.Second},
		"the first schema, nobody knows one":                 {fleet.Work{PromptTokens: 100, Schema: true}, plain, false, forAnything, forAnything + 5*time.Second},
		"the first request of an adapter, nobody has any":    {fleet.Work{PromptTokens: 100, LoRA: "a"}, plain, false, forAnything, forAnything + 5*time.Second},
		"the first of an adapter, others have another":       {fleet.Work{PromptTokens: 100, LoRA: "b"}, all, false, forAnything, forAnything + 5*time.Second},
		"the first logprobs, of a process that is not there": {fleet.Work{PromptTokens: 100, Logprobs: true}, plain, true, 10 * time.Second, 12 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatched(t, 100, false)
			w.peers = c.peers
			w.run(1)
			w.at(0, fleet.End{Ticket: scoring.Ticket{Boot: 1, Number: w.next}, Reason: ledger.Finished})
			w.dispatch(c.work, &short)
			w.last = w.now
			if c.dead {
				w.at(time.Millisecond, ProbeFailed{
					Failure: &engine.Failure{Kind: engine.Broken, Err: context.DeadlineExceeded}, Began: w.now.Add(time.Microsecond),
				})
			}
			took := w.struckAfter(forAnything + time.Minute)
			require.GreaterOrEqual(t, took, c.least)
			require.LessOrEqual(t, took, c.most)
		})
	}
}

// TestThePaceOfThePromptBefore: a prompt is waited for as long as the one before it of its length took, whatever its router
// predicts; what was done for the first time is no pace.
func TestThePaceOfThePromptBefore(t *testing.T) {
	w := newWatched(t, 100, false)
	predicted := 10 * time.Millisecond
	w.first(w.dispatch(fleet.Work{PromptTokens: 3000}, nil), 40*time.Second)
	w.at(0, fleet.End{Ticket: scoring.Ticket{Boot: 1, Number: w.next}, Reason: ledger.Finished})
	second := w.dispatch(fleet.Work{PromptTokens: 3000}, &predicted)
	w.pass(79*time.Second, true)
	require.Equal(t, calm, w.m.watch.phase, "twice 40 s")
	w.first(second, 0)
	for range pacesKept {
		w.first(w.dispatch(fleet.Work{PromptTokens: 3000}, &predicted), time.Second)
	}
	require.Equal(t, 2*time.Second, func() time.Duration {
		w.dispatch(fleet.Work{PromptTokens: 3000}, &predicted)
		return w.m.bound()
	}(), "it is quick again")

	w = newWatched(t, 100, false)
	w.run(1)
	w.first(w.dispatch(fleet.Work{PromptTokens: 100, Logprobs: true}, &predicted), 23*time.Second)
	w.dispatch(fleet.Work{PromptTokens: 100, Logprobs: true}, &predicted)
	require.Equal(t, w.m.cfg.HangLeast, w.m.bound(), "it has compiled once")
}

// TestThePanicThreshold: silence takes a replica out while at least half of those are well that could serve when it began, this
// one counted; else nobody is struck.
func TestThePanicThreshold(t *testing.T) {
	began := start.Add(time.Second)
	silentToo := func(id scoring.ReplicaID) fleet.Peer {
		p := peer(id)
		p.Busy, p.Last = true, began.Add(-time.Minute)
		return p
	}
	suspected := func(id scoring.ReplicaID) fleet.Peer {
		p := peer(id)
		p.Serves, p.Turned = false, began.Add(time.Millisecond)
		return p
	}
	out := func(id scoring.ReplicaID) fleet.Peer { // since before the silence
		p := peer(id)
		p.Serves, p.Turned = false, began.Add(-time.Millisecond)
		return p
	}
	left := func(id scoring.ReplicaID) fleet.Peer { // drained, killed
		p := suspected(id)
		p.Left = true
		return p
	}
	came := func(id scoring.ReplicaID) fleet.Peer {
		p := peer(id)
		p.Turned = began.Add(time.Millisecond)
		return p
	}
	for name, c := range map[string]struct {
		peers  []fleet.Peer
		struck bool
	}{
		"the last one": {[]fleet.Peer{}, false},
		"one of two":   {[]fleet.Peer{peer("b")}, true},
		"both of two":  {[]fleet.Peer{silentToo("b")}, false},
		"one of two, the other is suspected since": {[]fleet.Peer{suspected("b")}, false},
		"two of four":                    {[]fleet.Peer{peer("b"), peer("c"), suspected("d")}, true},
		"three of four":                  {[]fleet.Peer{peer("b"), silentToo("c"), suspected("d")}, false},
		"one of two that were left":      {[]fleet.Peer{peer("b"), out("c"), left("d")}, true},
		"the last one that was left":     {[]fleet.Peer{out("b"), left("c")}, false},
		"one that came since is no half": {[]fleet.Peer{came("b"), suspected("c")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatched(t, 100, false)
			w.peers = c.peers
			w.at(time.Second, fleet.Beats{Peers: w.others()})
			w.run(2)
			began = w.now
			w.pass(time.Hour, true)
			require.Equal(t, c.struck, w.m.snapshot().Hung)
			require.Equal(t, !c.struck, w.m.snapshot().Suspect)
			require.Equal(t, ledger.Closed, w.reserve(w.claim()), "nothing new goes there in either case")
			require.Equal(t, c.struck, count[evict](w.all) > 0)
			w.pass(time.Second, true)
			w.token()
			require.Equal(t, fleet.Ready, w.m.state, "whatever it was, it goes on")
		})
	}
}

// TestACanaryThatNobodyKnowsIsGivenUp: the last one's process dies without a word and is back at once, and nothing tells the lives apart.
// The canary that was sent to the one before would keep it out for ever.
func TestACanaryThatNobodyKnowsIsGivenUp(t *testing.T) {
	w := newWatched(t, 100, false)
	w.peers = []fleet.Peer{}
	w.run(1)
	w.pass(time.Minute, true)
	require.Equal(t, suspect, w.m.watch.phase)
	number := w.canaryOf()
	figures := func(running int) []effect {
		return w.at(3*time.Second, Probed{
			Status: engine.Status{KVBlocks: new(100), Load: engine.Load{RunningSequences: &running, WaitingSequences: new(0)}}, Began: w.now.Add(3 * time.Second),
		})
	}
	require.False(t, has[cancelCanary](figures(1)), "it may be what runs")
	require.True(t, has[cancelCanary](figures(0)))
	w.at(0, canaryDone{number, context.Canceled})
	w.pass(5*time.Second, true)
	require.Greater(t, w.canaryOf(), number, "another one is sent")
	w.at(0, canaryDone{w.canaryOf(), nil})
	require.Equal(t, calm, w.m.watch.phase)
}

// TestFewAreWellAndOneGoesOn: of a fleet of which most is silent streams go to who has given a token since, as many as find room.
func TestFewAreWellAndOneGoesOn(t *testing.T) {
	w := newWatched(t, 100, false)
	w.run(3)
	goesOn, idle := peer("c"), peer("d")
	goesOn.Busy, goesOn.Last, goesOn.Room = true, w.now.Add(time.Hour), 2
	silentToo := []fleet.Peer{peer("b"), peer("e"), peer("f")}
	for i := range silentToo {
		silentToo[i].Busy = true
	}
	w.peers = append(silentToo, goesOn, idle)
	w.pass(time.Second, true)
	require.Equal(t, suspect, w.m.watch.phase)
	e, told := find[evict](w.all)
	require.True(t, told)
	require.Equal(t, []scoring.ReplicaID{"c"}, e.Only, "not to one that has shown nothing since")
	require.Equal(t, []scoring.Ticket{{Boot: 1, Number: 1}, {Boot: 1, Number: 2}}, e.Tickets)
	require.False(t, e.Try)
}

// TestOnlyTheCauseWaits: an engine that stands still for a request that is the first of its kind loses its other streams at once,
// and nothing else happens to it.
func TestOnlyTheCauseWaits(t *testing.T) {
	w := newWatched(t, 100, false)
	w.run(2)
	predicted := 10 * time.Millisecond
	cause := w.dispatch(fleet.Work{PromptTokens: 100, Logprobs: true}, &predicted)
	w.now = w.now.Add(time.Millisecond)
	w.token() // a step that was under way
	w.now = w.now.Add(time.Millisecond)
	behind := w.dispatch(fleet.Work{PromptTokens: 100}, &predicted)
	w.pass(time.Second, true)
	e, told := find[evict](w.all)
	require.True(t, told, "others leave at once")
	require.Equal(t, []scoring.Ticket{cause}, e.Suspects, "%s came after the silence had begun", behind)
	require.False(t, e.Try, "and it stays")
	require.Nil(t, e.Tickets)
	w.pass(22*time.Second, true)
	require.True(t, w.m.snapshot().Suspect)
	require.False(t, w.m.snapshot().Hung)
	require.Zero(t, w.m.snapshot().Strikes)
	w.token()
	require.False(t, w.m.snapshot().Suspect)
	require.NotEqual(t, ledger.Closed, w.reserve(w.claim()))
}

// TestTheOnlyOneIsNotSuspectedForWhatIsNew: there new work would only be turned away meanwhile.
func TestTheOnlyOneIsNotSuspectedForWhatIsNew(t *testing.T) {
	w := newWatched(t, 100, false)
	w.peers = []fleet.Peer{}
	w.dispatch(fleet.Work{PromptTokens: 3500}, nil)
	w.pass(9*time.Minute, true)
	require.False(t, w.m.snapshot().Suspect)
	require.Equal(t, ledger.None, w.reserve(w.claim()))
	w.pass(2*time.Minute, true)
	require.True(t, w.m.snapshot().Suspect)
	require.False(t, w.m.snapshot().Hung)
}

// TestALateLookAtAnExcusedSilence: a silence that is looked at only after its bound, and excused, is looked at again later. A look that
// is due in the past would turn the actor without end.
func TestALateLookAtAnExcusedSilence(t *testing.T) {
	w := newWatched(t, 100, true)
	w.peers = []fleet.Peer{}
	w.dispatch(fleet.Work{PromptTokens: 3500}, nil)
	w.now = w.now.Add(time.Minute)
	last := w.last
	w.at(0, fleet.Beats{Last: &last, Peers: w.others()})
	w.at(0, tick{})
	require.False(t, w.m.snapshot().Suspect, "excused")
	next, wanted := w.m.nextTick()
	require.True(t, wanted)
	require.True(t, next.After(w.now), "%s before now", w.now.Sub(next))
}

// TestTheLastOneIsStartedAnew: a process of ours that gives nothing, its canary included, is not left to hang for ever, though
// nobody else is there.
func TestTheLastOneIsStartedAnew(t *testing.T) {
	w := newWatched(t, 100, false)
	w.m.cfg.HangRestart = time.Minute
	w.peers = []fleet.Peer{}
	w.run(1)
	w.pass(59*time.Second, true)
	require.Zero(t, count[giveUp](w.all))
	w.pass(2*time.Second, true)
	require.Equal(t, 1, count[giveUp](w.all))
	w.pass(time.Hour, true)
	require.Equal(t, 1, count[giveUp](w.all), "once")

	w = newWatched(t, 100, false)
	w.m.cfg.HangRestart = time.Minute
	w.peers = []fleet.Peer{}
	w.run(1)
	for range 10 {
		w.pass(59*time.Second, true)
		w.token()
	}
	require.Zero(t, count[giveUp](w.all), "it gives something now and then")
}

// TestLateIsNotDead: an engine that has nothing to do and answers probes late is no dead one, and its cache is what it was.
func TestLateIsNotDead(t *testing.T) {
	late := &engine.Failure{Kind: engine.Broken, Err: context.DeadlineExceeded}
	w := newWatched(t, 100, false)
	w.all = nil
	for range 4 {
		began := w.now
		w.at(2*time.Second, ProbeFailed{Failure: late, Began: began})
		require.Equal(t, fleet.Ready, w.m.state)
	}
	w.probe()
	for range 5 {
		require.Equal(t, fleet.Ready, w.m.state)
		began := w.now
		w.at(2*time.Second, ProbeFailed{Failure: late, Began: began})
	}
	require.Equal(t, fleet.Down, w.m.state, "one that answers nothing for long is of no use")
	require.False(t, has[voidIndex](w.all), "silence is no other life")
	w.probe()
	require.Equal(t, fleet.Ready, w.m.state)
	require.EqualValues(t, 1, w.m.life.incarnation)
	require.False(t, has[voidIndex](w.all))
}
