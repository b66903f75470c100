package replica

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// watched is a ready replica whose steps take 10 ms, at a virtual time that the test moves by itself.
type watched struct {
	*bench

	last  time.Time    // its streams' last token
	steps *uint64      // its counter; nil: it does not tell
	peers []fleet.Peer // the others; nil: one that is well
}

// newWatched returns one that has shown its pace, unless steps is 0.
func newWatched(t *testing.T, steps int, counts bool) *watched {
	t.Helper()
	b := newBench(t, testConfig(), withoutFeed)
	w := &watched{bench: b}
	if counts {
		w.steps = new(uint64)
	}
	w.probe()
	require.Equal(t, fleet.Ready, b.m.state)
	var beats fleet.Beats
	beats.Gaps[fleet.PaceBucket(10*time.Millisecond)] = uint32(steps) //nolint:gosec // a count
	w.at(0, beats)
	w.all = nil
	return w
}

// at lets time pass and the machine take a message.
func (w *watched) at(d time.Duration, message any) []effect {
	w.now = w.now.Add(d)
	w.bench.last = w.m.step(w.now, message)
	w.all = append(w.all, w.bench.last...)
	inTable(w.t, w.bench.last)
	return w.bench.last
}

func (w *watched) probe() {
	s := status("a")
	if w.steps != nil {
		steps := *w.steps
		s.Load.Steps = &steps
	}
	w.at(0, Probed{Status: s, Began: w.now})
}

// pass lets time pass as the shell does: it brings what the streams showed before each tick, and the answers to probes that
// were asked for, if the server answers.
func (w *watched) pass(d time.Duration, answers bool) {
	end := w.now.Add(d)
	for {
		at, ok := w.m.nextTick()
		if !ok || at.After(end) {
			break
		}
		w.now = at
		last := w.last
		w.at(0, fleet.Beats{Last: &last, Peers: w.others()})
		if hurried := has[hurryProbe](w.at(0, tick{})); hurried && answers {
			w.now = w.now.Add(time.Millisecond)
			w.probe()
		}
	}
	w.now = end
}

// others are the other replicas of the model.
func (w *watched) others() []fleet.Peer {
	if w.peers == nil {
		return []fleet.Peer{peer("b")}
	}
	return w.peers
}

// peer is another replica that serves from the start and has nothing to do.
func peer(id scoring.ReplicaID) fleet.Peer {
	return fleet.Peer{ID: id, Serves: true, Turned: start, Room: 4}
}

// run has n requests run, with a first token now.
func (w *watched) run(n int) (tickets []scoring.Ticket) {
	for range n {
		c := w.claim()
		took := 5 * time.Millisecond
		w.at(0, &fleet.Reserve{Claim: c, Incarnation: w.m.life.incarnation, Prefill: &took})
		require.True(w.t, has[grant](w.bench.last))
		w.at(0, fleet.Started{Ticket: c.Ticket})
		tickets = append(tickets, c.Ticket)
	}
	w.last = w.now
	return tickets
}

// count returns how many effects of a kind there were since the test emptied all.
func count[E effect](effects []effect) int {
	n := 0
	for _, e := range effects {
		if _, ok := e.(E); ok {
			n++
		}
	}
	return n
}

// TestHangRule is semantics 4: how long a silence makes a replica suspected, by what is known of it.
func TestHangRule(t *testing.T) {
	const ms = time.Millisecond
	second := time.Second
	for name, c := range map[string]struct {
		step    time.Duration // of the pace; 0: nothing is known
		running bool
		prefill *time.Duration // of a prompt that waits; nil: none
		blind   bool           // it waits, and nothing is predicted for it
		want    time.Duration
	}{
		"no less than a quarter of a second":        {step: 10 * ms, running: true, want: 250 * ms},
		"eight steps":                               {step: 100 * ms, running: true, want: 8 * pace100()},
		"twice the prefill":                         {step: 10 * ms, running: true, prefill: &second, want: 2 * second},
		"twice the prefill, of an idle one":         {step: 10 * ms, prefill: &second, want: 2 * second},
		"eight steps, of a short prefill":           {step: 100 * ms, prefill: new(time.Duration), want: 8 * pace100()},
		"ten seconds without a pace":                {running: true, want: 10 * second},
		"ten seconds without a prediction":          {step: 10 * ms, blind: true, want: 10 * second},
		"what is predicted needs no pace":           {prefill: &second, want: 2 * second},
		"a pace and a prediction, of a shorter one": {step: 100 * ms, running: true, prefill: &second, want: 2 * second},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatched(t, 0, false)
			if c.step > 0 {
				var beats fleet.Beats
				beats.Gaps[fleet.PaceBucket(c.step)] = 100
				w.at(0, beats)
			}
			if c.running {
				w.run(1)
			}
			if c.prefill != nil || c.blind {
				w.at(0, &fleet.Reserve{Claim: w.claim(), Incarnation: 1, Prefill: c.prefill})
				w.last = w.now
			}
			w.pass(c.want-1, false)
			require.Equal(t, calm, w.m.watch.phase)
			require.False(t, w.m.snapshot().Suspect)
			w.pass(1, false)
			require.Equal(t, suspect, w.m.watch.phase)
			require.True(t, w.m.snapshot().Suspect)
			require.Equal(t, ledger.Closed, w.reserve(w.claim()), "nothing new goes there")
			require.Equal(t, 1, count[sendCanary](w.all))
			require.Zero(t, count[evict](w.all))
		})
	}
}

// pace100 is a pace of 100 ms as it is remembered: rounded up to its bucket.
func pace100() time.Duration {
	var p pace
	var gaps [fleet.PaceBuckets]uint32
	gaps[fleet.PaceBucket(100*time.Millisecond)] = paceEnough
	p.add(&gaps)
	step, _ := p.step()
	return step
}

// TestBatchOfPrefills: prompts of one pass have their first tokens together, those behind it do not count.
func TestBatchOfPrefills(t *testing.T) {
	w := newWatched(t, 100, false)
	for range 3 {
		c := w.claim()
		c.PrefillTokens, c.PrivateBlocks = prefillBatch/2, 1
		took := time.Second
		w.at(0, &fleet.Reserve{Claim: c, Incarnation: 1, Prefill: &took})
		require.True(t, has[grant](w.bench.last))
	}
	require.Equal(t, 4*time.Second, w.m.bound())
	w.at(0, fleet.Started{Ticket: scoring.Ticket{Boot: 1, Number: 1}})
	require.Equal(t, 4*time.Second, w.m.bound(), "the third moves up")
	w.at(0, fleet.End{Ticket: scoring.Ticket{Boot: 1, Number: 2}})
	require.Equal(t, 2*time.Second, w.m.bound())
}

// TestProgressIsLife: a token of any stream is; a replica that is busy with one that says nothing is not dead.
func TestProgressIsLife(t *testing.T) {
	w := newWatched(t, 100, false)
	w.run(3)
	for range 100 {
		w.pass(200*time.Millisecond, false)
		w.last = w.now
	}
	require.Zero(t, count[sendCanary](w.all))
	w.pass(300*time.Millisecond, false)
	require.True(t, w.m.snapshot().Suspect)
	w.last = w.now
	w.pass(watchEvery, false)
	require.False(t, w.m.snapshot().Suspect, "it was only slow")
	require.Equal(t, 1, count[cancelCanary](w.all))
	require.Equal(t, ledger.None, w.reserve(w.claim()))
	require.Equal(t, fleet.Ready, w.m.state)
}

// TestLateRequestsAddUp: a replica that hangs is found though each of its requests leaves it before the bound.
func TestLateRequestsAddUp(t *testing.T) {
	const silence = 100 * time.Millisecond // of each request; the bound is 250 ms
	for name, c := range map[string]struct {
		leaves  func(w *watched, a fleet.Attempt)
		beside  bool // another stream runs, and goes on
		suspect bool
	}{
		"late": {func(w *watched, a fleet.Attempt) {
			w.at(0, fleet.Late{Ticket: a.Claim.Ticket})
			w.at(0, fleet.Linger{Attempt: a})
		}, false, true},
		"its client leaves": {func(w *watched, a fleet.Attempt) { w.at(0, fleet.Linger{Attempt: a}) }, false, false},
		"late, beside one that runs": {func(w *watched, a fleet.Attempt) {
			w.at(0, fleet.Late{Ticket: a.Claim.Ticket})
			w.at(0, fleet.Linger{Attempt: a})
			w.last = w.now
		}, true, false},
		"late, and then a token comes": {func(w *watched, a fleet.Attempt) {
			w.at(0, fleet.Late{Ticket: a.Claim.Ticket})
			w.at(0, fleet.Linger{Attempt: a})
			w.last = w.now
			w.at(0, fleet.Beats{Last: &w.last})
		}, false, false},
		"late after its end": {func(w *watched, a fleet.Attempt) {
			w.at(0, fleet.End{Ticket: a.Claim.Ticket, Reason: ledger.Finished})
			w.at(0, fleet.Late{Ticket: a.Claim.Ticket})
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatched(t, 100, false)
			if c.beside {
				w.run(1)
			}
			ask := func() fleet.Attempt {
				claim, took := w.claim(), 5*time.Millisecond
				claim.PrivateBlocks = 1
				w.at(0, &fleet.Reserve{Claim: claim, Incarnation: w.m.life.incarnation, Prefill: &took})
				require.True(t, has[grant](w.bench.last))
				w.last = w.now.Add(-time.Second)
				if c.beside {
					w.last = w.now
				}
				return fleet.Attempt{Claim: claim, Incarnation: w.m.life.incarnation, Began: w.now}
			}
			for range 2 {
				a := ask()
				w.pass(silence, false)
				c.leaves(w, a)
				if !c.beside {
					w.pass(time.Minute, false) // with nothing to do
				}
				require.Equal(t, calm, w.m.watch.phase)
			}
			ask()
			w.pass(silence, false)
			require.Equal(t, c.suspect, w.m.watch.phase == suspect)
			if c.suspect {
				w.pass(time.Second, false)
				require.Equal(t, fleet.Down, w.m.state)
			}
		})
	}
}

// TestIdleIsNoSilence: a replica that has nothing to do is not asked why it says nothing.
func TestIdleIsNoSilence(t *testing.T) {
	w := newWatched(t, 100, true)
	tickets := w.run(1)
	w.at(0, fleet.End{Ticket: tickets[0], Reason: ledger.Finished})
	w.pass(time.Hour, true)
	require.Zero(t, count[sendCanary](w.all))
	w.run(1)
	w.pass(249*time.Millisecond, true)
	require.Equal(t, calm, w.m.watch.phase, "its silence begins with its work")
}

// TestStepCounter: one that goes on is life, one that stands still or cannot be read is none.
func TestStepCounter(t *testing.T) {
	t.Run("goes on", func(t *testing.T) {
		w := newWatched(t, 100, true)
		w.run(1)
		for range 100 {
			w.pass(50*time.Millisecond, true)
			*w.steps += 5
		}
		require.Zero(t, count[sendCanary](w.all))
		require.Equal(t, fleet.Ready, w.m.state)
	})
	t.Run("stands still", func(t *testing.T) {
		w := newWatched(t, 100, true)
		w.run(1)
		w.pass(260*time.Millisecond, true)
		require.Equal(t, suspect, w.m.watch.phase)
	})
	t.Run("is not told", func(t *testing.T) {
		w := newWatched(t, 100, true)
		w.run(1)
		w.pass(250*time.Millisecond+w.m.cfg.HangDoubt-1, false)
		require.Equal(t, doubt, w.m.watch.phase)
		w.at(0, &fleet.Reserve{Claim: w.claim(), Incarnation: 1})
		require.True(t, has[grant](w.bench.last), "it is not suspected yet")
		w.pass(1, false)
		require.Equal(t, suspect, w.m.watch.phase)
	})
	t.Run("went on before the silence", func(t *testing.T) {
		w := newWatched(t, 100, true)
		w.pass(time.Millisecond, true)
		w.run(1)
		*w.steps += 7 // and no more
		w.pass(260*time.Millisecond, true)
		require.Equal(t, suspect, w.m.watch.phase)
	})
}

// hang has a replica with two requests go silent until it counts as hung.
func hang(t *testing.T, counts bool) *watched {
	t.Helper()
	w := newWatched(t, 100, counts)
	w.run(2)
	w.pass(time.Second, true)
	require.Equal(t, fleet.Down, w.m.state)
	require.True(t, w.m.snapshot().Hung)
	require.Equal(t, 1, w.m.snapshot().Strikes)
	require.Contains(t, w.m.snapshot().LastError, "canary")
	e, ok := find[evict](w.all)
	require.True(t, ok)
	require.True(t, e.Hung)
	require.False(t, has[voidIndex](w.all), "its cache is there when it goes on")
	return w
}

// canaryOf is the number of the last canary.
func (w *watched) canaryOf() uint64 { return w.m.watch.canaries }

// TestHungAndBack: probes that are answered do not bring it back, a canary does, and the replica ramps up then.
func TestHungAndBack(t *testing.T) {
	for _, counts := range []bool{false, true} {
		w := hang(t, counts)
		w.m.cfg.RampSeats = 2
		w.pass(w.m.cfg.Strikes.Cap, true)
		for range 10 {
			w.probe()
			require.Equal(t, fleet.Down, w.m.state)
		}
		require.Equal(t, ledger.Closed, w.reserve(w.claim()))
		w.at(0, canaryDone{w.canaryOf(), nil})
		require.Equal(t, fleet.Ready, w.m.state)
		require.False(t, w.m.snapshot().Hung)
		require.Equal(t, 2, *w.m.snapshot().QuotaSeats)
		require.Equal(t, ledger.None, w.reserve(w.claim()))
		require.EqualValues(t, 1, w.m.life.incarnation, "it is the same life")
	}
}

// TestTokensBringItBack: legs that had no other place go on with the engine.
func TestTokensBringItBack(t *testing.T) {
	w := hang(t, true)
	w.pass(w.m.cfg.Strikes.Cap, true)
	w.last = w.now
	w.at(0, fleet.Beats{Last: &w.last})
	require.Equal(t, fleet.Ready, w.m.state)
}

// TestLegsLeaveWhenTheyCan: who had no place to go to is told again.
func TestLegsLeaveWhenTheyCan(t *testing.T) {
	w := hang(t, false)
	told := count[evict](w.all)
	w.pass(10*time.Second, true)
	require.Greater(t, count[evict](w.all), told+5)
	for _, n := range []uint64{1, 2} {
		w.at(0, fleet.AttemptFailed{Attempt: of(scoring.Ticket{Boot: 1, Number: n}), Failure: &engine.Failure{Kind: engine.Stalled}})
	}
	told = count[evict](w.all)
	w.pass(10*time.Second, true)
	require.Equal(t, told, count[evict](w.all), "nobody is left")
}

// TestGiveUp: a process of ours that hangs is not started anew before it has hung for long, and then once.
func TestGiveUp(t *testing.T) {
	w := hang(t, false)
	w.pass(w.m.cfg.HangGiveUp-time.Second, true)
	require.Zero(t, count[giveUp](w.all))
	w.pass(time.Hour, true)
	require.Equal(t, 1, count[giveUp](w.all))
}

// TestCanaries: there is one at a time; one that fails is followed by another, after a while; one that is held is given up
// now and then, because what it was sent may be lost.
func TestCanaries(t *testing.T) {
	w := hang(t, false)
	require.Equal(t, 1, count[sendCanary](w.all), "the first is still under way")
	w.pass(time.Minute, true)
	require.Equal(t, 1, count[sendCanary](w.all))
	require.Equal(t, 1, count[cancelCanary](w.all), "once is enough")
	w.at(0, canaryDone{w.canaryOf(), errors.New("given up")})
	require.Equal(t, 2, count[sendCanary](w.all), "at once")
	for n := 3; n < 10; n++ {
		w.at(0, canaryDone{w.canaryOf(), &engine.Failure{Kind: engine.Refused}})
		require.True(t, has[hurryProbe](w.bench.last))
		require.Equal(t, n-1, count[sendCanary](w.all), "not at once")
		w.pass(w.m.cfg.CanaryRetry, true)
		require.Equal(t, n, count[sendCanary](w.all))
	}
	w.at(0, canaryDone{1, nil})
	require.Equal(t, fleet.Down, w.m.state, "an old one tells nothing")
}

// TestStrikesGrow: a replica that hangs again and again stays out longer each time, whatever it shows meanwhile.
func TestStrikesGrow(t *testing.T) {
	w := newWatched(t, 100, false)
	w.m.cfg.Strikes.Jitter = 0
	shortest := time.Duration(0)
	for strike := 1; strike <= 8; strike++ {
		w.run(1)
		w.pass(time.Second/2+time.Millisecond, true)
		require.Equal(t, fleet.Down, w.m.state)
		out := w.m.watch.notBefore.Sub(w.now)
		require.GreaterOrEqual(t, out, shortest)
		shortest = min(2*out, w.m.cfg.Strikes.Cap)/2 + 1
		w.at(0, canaryDone{w.canaryOf(), nil})
		require.Equal(t, fleet.Down, w.m.state, "strike %d", strike)
		w.pass(w.m.watch.notBefore.Sub(w.now)+w.m.cfg.CanaryRetry, true)
		w.at(0, canaryDone{w.canaryOf(), nil})
		require.Equal(t, fleet.Ready, w.m.state, "strike %d", strike)
		w.at(0, fleet.End{Ticket: scoring.Ticket{Boot: 1, Number: w.next}})
	}
	w.pass(2*w.m.cfg.Strikes.Window, true)
	w.run(1)
	w.pass(time.Second, true)
	require.Equal(t, 1, w.m.snapshot().Strikes, "old ones are forgiven")
}

// TestOurOwnPausesAreNotTheEngines: a machine that was not called in time gives the canary as much more.
func TestOurOwnPausesAreNotTheEngines(t *testing.T) {
	w := newWatched(t, 100, false)
	w.run(1)
	w.pass(250*time.Millisecond, true)
	require.True(t, w.m.snapshot().Suspect)
	for range 20 {
		w.at(watchEvery+400*time.Millisecond, tick{})
		require.False(t, w.m.snapshot().Hung)
		if w.m.watch.until.Sub(w.now) < 2*watchEvery {
			break
		}
	}
	w.pass(watchEvery, true)
	require.True(t, w.m.snapshot().Hung)
}

// TestAnotherLifeIsNotHung: what the process before did is not held against this one.
func TestAnotherLifeIsNotHung(t *testing.T) {
	w := hang(t, true)
	w.at(0, Probed{Status: status("b"), Began: w.now})
	require.Equal(t, fleet.Ready, w.m.state)
	require.False(t, w.m.snapshot().Hung)
	require.Positive(t, count[cancelCanary](w.all))
	w.pass(time.Hour, true)
	require.Equal(t, fleet.Ready, w.m.state)
}

// TestHungOverARestart: a new instance of the actor knows of it.
func TestHungOverARestart(t *testing.T) {
	w := hang(t, false)
	next := restarted(w.bench, 0)
	require.Equal(t, fleet.Down, next.m.state)
	require.True(t, next.m.snapshot().Hung)
	next.probed(status("a"))
	require.Equal(t, fleet.Down, next.m.state)
	require.True(t, has[sendCanary](next.all))
	next.step(canaryDone{1, nil})
	require.Equal(t, fleet.Ready, next.m.state)
}

// TestBreaks: a replica that breaks whatever it is sent is taken out as one that hangs; streams that break at once with their
// process are one sign, and an answer in between forgives.
func TestBreaks(t *testing.T) {
	w := newWatched(t, 100, false)
	w.m.cfg.BreaksMax = 3
	broken := func(tickets ...scoring.Ticket) {
		for _, ticket := range tickets {
			w.at(0, fleet.AttemptFailed{Attempt: of(ticket), Failure: &engine.Failure{Kind: engine.Broken, Message: "no"}, Of: unlike(ticket)})
			w.at(0, fleet.End{Ticket: ticket, Reason: ledger.Failed})
		}
	}
	broken(w.run(4)...)
	broken(w.run(4)...)
	require.Equal(t, fleet.Ready, w.m.state)
	w.at(0, fleet.End{Ticket: w.run(1)[0], Reason: ledger.Finished})
	broken(w.run(1)...)
	broken(w.run(1)...)
	require.Equal(t, fleet.Ready, w.m.state)
	broken(scoring.Ticket{Boot: 1, Number: 99})
	require.Equal(t, fleet.Ready, w.m.state, "that is not booked here")
	broken(w.run(1)...)
	require.Equal(t, fleet.Down, w.m.state)
	require.True(t, w.m.snapshot().Hung)
	require.Equal(t, 1, w.m.snapshot().Strikes)
	for _, kind := range []engine.FailKind{engine.Shed, engine.Client, engine.Operator} {
		v := newWatched(t, 100, false)
		v.m.cfg.BreaksMax, v.m.cfg.DegradedFirst = 1, time.Nanosecond
		v.at(0, fleet.AttemptFailed{Attempt: of(v.run(1)[0]), Failure: &engine.Failure{Kind: kind, Message: "no"}})
		require.Zero(t, v.m.snapshot().Strikes, "%s is never a strike", kind)
	}
}

// TestDeadStreamsLeaveTheDown: a replica whose probes fail and whose streams are silent is left too, though its connections
// stand.
func TestDeadStreamsLeaveTheDown(t *testing.T) {
	w := newWatched(t, 100, false)
	w.run(1)
	for range 2 {
		w.at(0, ProbeFailed{Failure: &engine.Failure{Kind: engine.Broken, Message: "no"}, Began: w.now})
	}
	require.Equal(t, fleet.Down, w.m.state)
	w.pass(time.Second, false)
	require.Positive(t, count[evict](w.all))
}
