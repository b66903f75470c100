package router

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// broken is a submission of an answer that broke off: its prompt ends with what it has produced.
func (r *rig) broken(seed, tokens, produced int, off ...scoring.ReplicaID) *stream.Submit {
	sub := r.ask(seed, tokens, nil)
	sub.Again, sub.Begun = true, true
	left := 100
	a := &sub.Legs[0]
	a.Produced, a.MaxTokens, a.Since = produced, &left, r.now
	a.LastFault = fault.New(fault.EngineFailed, "the engine failed")
	for _, id := range off {
		a.Excluded = append(a.Excluded, stream.Exclusion{Replica: id, Incarnation: 1, Process: true})
	}
	return sub
}

// prefilled is the first token of a placement.
func (r *rig) prefilled(p stream.Placement) {
	r.step(stream.FirstToken{Replica: p.Ref.ID, Ticket: p.Claim.Ticket, PrefillTokens: p.Claim.PrefillTokens})
	r.deliver()
}

// TestAnAnswerThatGoesOnIsPlacedAsWhatItIs: prompt and journal are looked up, booked and speculated on, and what may follow is
// what is left of it.
func TestAnAnswerThatGoesOnIsPlacedAsWhatItIs(t *testing.T) {
	cfg := testConfig()
	most := scoring.Tokens(100)
	cfg.PromptTokensMax = &most // of clients' prompts
	r := newRig(t, cfg, 2)
	sub := r.broken(1, 170, 40)
	p := r.places(r.submit(sub))[0]
	require.Equal(t, 100, p.MaxTokens)
	require.Equal(t, scoring.Tokens(170), p.Claim.PromptTokens)
	require.Len(t, p.Claim.SharedKeys, 10)
	// A second answer of the same text finds it there.
	again := r.places(r.submit(r.broken(1, 170, 40)))[0]
	require.Equal(t, p.Ref.ID, again.Ref.ID)
	require.Equal(t, scoring.Tokens(160), again.OverlapTokens)
}

// TestStrictAdmissionReservesTheRestOfAnAnswer, not the default anew.
func TestStrictAdmissionReservesTheRestOfAnAnswer(t *testing.T) {
	cfg := testConfig()
	cfg.Admission = Strict
	r := newRig(t, cfg, 1)
	sub := r.broken(1, 64, 40)
	*sub.Legs[0].MaxTokens = 16
	p := r.places(r.submit(sub))[0]
	require.Equal(t, 16, p.MaxTokens)
	require.Equal(t, scoring.Blocks(5), p.Claim.PrivateBlocks+scoring.Blocks(len(p.Claim.SharedKeys)))
}

// TestBrokenAnswersComeFirst, the cheapest of them before the others, and before whatever waits.
func TestBrokenAnswersComeFirst(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	s := r.site("a")
	s.fill()
	newcomer := r.submit(r.ask(1, 16, nil))
	dear, cheap := r.submit(r.broken(2, 300, 10)), r.submit(r.broken(3, 30, 10))
	require.True(t, r.waits(newcomer) && r.waits(dear) && r.waits(cheap))
	for _, next := range []*stream.Submit{cheap, dear, newcomer} {
		require.True(t, r.waits(next))
		require.True(t, s.ledger.End(claimOf(s.holds, 1).Ticket, ledger.Finished))
		s.holds--
		r.step(fleet.Room{Replica: "a"})
		r.deliver()
		require.False(t, r.waits(next))
	}
}

// TestABrokenAnswerWaitsForWhoComesBack: nobody serves it now, but a new life of an engine that failed it may.
func TestABrokenAnswerWaitsForWhoComesBack(t *testing.T) {
	r := newRig(t, testConfig(), 2)
	a, b := r.site("a"), r.site("b")
	b.snap.State = fleet.Down
	sub := r.submit(r.broken(1, 64, 40, "a"))
	require.True(t, r.waits(sub))
	r.pass(20 * time.Second)
	require.True(t, r.waits(sub))
	a.snap.Incarnation = 2
	r.step(fleet.Room{Replica: "a"})
	r.deliver()
	p := r.places(sub)[0]
	require.Equal(t, scoring.ReplicaID("a"), p.Ref.ID)
	require.Equal(t, uint64(2), p.Incarnation)
}

// TestAnAnswerWhoseEngineLivesOn is turned away at once where every other replica is out of the question, and waits for those that
// may come.
func TestAnAnswerWhoseEngineLivesOn(t *testing.T) {
	for name, c := range map[string]struct {
		other func(*site)
		waits bool
	}{
		"it is full":                  {(*site).fill, true},
		"it cools down":               {func(s *site) { s.snap.CoolingUntil = start.Add(time.Minute) }, true},
		"it does not answer":          {func(s *site) { s.snap.State = fleet.Down }, true},
		"it was not reached yet":      {func(s *site) { s.snap.State, s.snap.Told = fleet.Starting, false }, true},
		"it refuses us":               {func(s *site) { s.snap.State = fleet.Degraded }, false},
		"it drains":                   {func(s *site) { s.snap.State = fleet.Draining }, false},
		"it failed the answer before": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, testConfig(), 2)
			off := []scoring.ReplicaID{"a"}
			if c.other != nil {
				c.other(r.site("b"))
			} else {
				off = append(off, "b")
			}
			sub := r.broken(1, 64, 40, off...)
			sub.Legs[0].Lives = true
			r.submit(sub)
			require.Equal(t, c.waits, r.waits(sub))
			if !c.waits {
				require.Equal(t, fault.EngineFailed, r.fault(sub).Kind)
				r.empty()
				return
			}
			r.site("b").snap.State = fleet.Degraded
			r.step(fleet.Room{Replica: "b"})
			r.deliver()
			require.Equal(t, fault.EngineFailed, r.fault(sub).Kind, "it is none any more that may come")
		})
	}
}

// TestABrokenAnswerWaitsItsTime since it broke, whatever became of it in between, and then fails as its engine did.
func TestABrokenAnswerWaitsItsTime(t *testing.T) {
	cfg := testConfig()
	cfg.ResumeWait = 10 * time.Second
	r := newRig(t, cfg, 1)
	sub := r.broken(1, 64, 40, "a")
	r.pass(4 * time.Second) // on its way, or with a router that failed
	r.submit(sub)
	r.pass(5999 * time.Millisecond)
	require.True(t, r.waits(sub))
	r.pass(time.Millisecond)
	require.Equal(t, fault.EngineFailed, r.fault(sub).Kind)
	late := r.broken(2, 64, 40, "a")
	r.pass(time.Minute)
	r.submit(late)
	r.pass(0)
	require.Equal(t, fault.EngineFailed, r.fault(late).Kind)
	r.empty()
}

// TestABrokenAnswerThatFitsNowhere need not wait.
func TestABrokenAnswerThatFitsNowhere(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	require.Equal(t, fault.ContextLength, r.fault(r.submit(r.broken(1, 1000, 40))).Kind)
	sub := r.broken(1, 990, 40)
	sub.Call.Request.MinTokens = 45 // five more
	r.submit(sub)
	require.Equal(t, 10, r.places(sub)[0].MaxTokens)
}

// TestPrefillForBrokenAnswersIsCapped on each survivor; the first is always let in, and each that has its first token makes
// room.
func TestPrefillForBrokenAnswersIsCapped(t *testing.T) {
	cfg := testConfig()
	cfg.ResumePrefillTokens = 300
	one := 1
	for _, ends := range []string{"first token", "failed", "finished", "nothing is heard"} {
		t.Run(ends, func(t *testing.T) {
			r := newRig(t, cfg, 1)
			first := r.submit(r.broken(1, 400, 10))
			p := r.places(first)[0]
			second := r.submit(r.broken(2, 200, 10))
			third := r.submit(r.broken(3, 90, 10))
			fourth := r.submit(r.broken(4, 150, 10))
			require.True(t, r.waits(second) && r.waits(third) && r.waits(fourth))
			require.Len(t, r.places(r.submit(r.ask(5, 200, &one))), 1, "it is not the room that is short")
			switch ends {
			case "first token":
				r.prefilled(p)
			case "failed":
				r.step(stream.Failed{Replica: "a", Ticket: p.Claim.Ticket})
			case "finished":
				r.step(stream.Finished{Replica: "a", Ticket: p.Claim.Ticket, Produced: 9, Broken: true})
			default:
				r.pass(prefillWait)
			}
			r.deliver()
			r.places(third) // 90 and 150 are no more than 300
			r.places(fourth)
			require.True(t, r.waits(second))
		})
	}
}

// TestWhatIsCappedIsForgotten with its reservation: refused, withdrawn or given back.
func TestWhatIsCappedIsForgotten(t *testing.T) {
	r := newRig(t, testConfig(), 2)
	r.sites[0].hangs, r.sites[1].hangs = true, true
	withdrawn := r.submit(r.broken(1, 100, 10))
	require.Len(t, r.m.resumed.tickets, 1)
	r.step(stream.Withdraw{Call: withdrawn.Call, Number: 1})
	r.sites[0].hangs, r.sites[1].hangs = false, false
	r.deliver()
	require.Equal(t, 1, r.back)
	require.Empty(t, r.m.resumed.tickets)
	require.Empty(t, r.m.resumed.prefill)
	for _, s := range r.sites {
		s.snap.Recovering = true
	}
	// The snapshots that are ranked by show nothing of it yet.
	vs := r.views()
	for i := range vs {
		vs[i].snap.Recovering = false
	}
	for _, e := range r.m.step(r.now, r.broken(2, 100, 10), vs) {
		if e, ok := e.(reserve); ok {
			r.sent = append(r.sent, letterOf(e))
		}
	}
	require.Len(t, r.m.resumed.tickets, 1)
	r.deliver()
	require.Empty(t, r.m.resumed.tickets)
}

// TestAProcessFallsWhole: the other replicas of a failed one's process are not tried before that lives again.
func TestAProcessFallsWhole(t *testing.T) {
	r := newRig(t, testConfig(), 3)
	a, b, c := r.site("a"), r.site("b"), r.site("c")
	a.ref.Process, b.ref.Process = "one", "one"
	for seed := range 3 {
		require.Equal(t, c.ref.ID, r.places(r.submit(r.broken(seed, 64, 40, "a")))[0].Ref.ID)
	}
	c.snap.State = fleet.Down
	sub := r.submit(r.broken(9, 64, 40, "a"))
	require.True(t, r.waits(sub))
	a.snap.Incarnation, a.snap.State = 2, fleet.Warming // b's actor has not noticed, but what it talks to is new
	r.step(fleet.Room{Replica: "b"})
	r.deliver()
	require.Equal(t, b.ref.ID, r.places(sub)[0].Ref.ID)
	a.snap.State = fleet.Ready
	// A shedder's process does not fall with it.
	shed := r.broken(10, 64, 0, "a")
	shed.Legs[0].Excluded = []stream.Exclusion{{Replica: "a", Incarnation: 2}}
	require.Equal(t, b.ref.ID, r.places(r.submit(shed))[0].Ref.ID)
}

// TestBrokenLegsArePlacedAsTheyFit, the cheapest first.
func TestBrokenLegsArePlacedAsTheyFit(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	s := r.site("a")
	s.fill()
	require.True(t, s.ledger.End(claimOf(s.holds, 1).Ticket, ledger.Finished)) // one seat
	sub := r.broken(1, 200, 40)
	other := r.broken(2, 100, 30)
	sub.Prompts = append(sub.Prompts, other.Prompts...)
	leg := other.Legs[0]
	leg.Leg, leg.Prompt = 1, 1
	sub.Legs = append(sub.Legs, leg)
	r.submit(sub)
	placed := r.places(sub)
	require.Len(t, placed, 1)
	require.Equal(t, 1, placed[0].Leg)

	// None fits: all wait, and not one is lost.
	full := r.broken(3, 200, 40)
	full.Prompts, full.Legs = append(full.Prompts, other.Prompts...), append(full.Legs, leg)
	r.submit(full)
	require.True(t, r.waits(full))
	s.free()
	r.step(fleet.Room{Replica: "a"})
	r.deliver()
	require.Len(t, r.places(full), 2)
}

// TestOneOfTheBrokenLegsIsRefused by its replica's ledger: the other is placed all the same.
func TestOneOfTheBrokenLegsIsRefused(t *testing.T) {
	r := newRig(t, testConfig(), 2)
	sub, other := r.broken(1, 100, 40, "b"), r.broken(2, 100, 30, "a")
	leg := other.Legs[0]
	leg.Leg, leg.Prompt = 1, 1
	sub.Prompts, sub.Legs = append(sub.Prompts, other.Prompts...), append(sub.Legs, leg)
	r.step(sub)
	require.Len(t, r.sent, 2)
	r.site("a").snap.Recovering = true // as nobody knows yet
	r.deliver()
	placed := r.places(sub)
	require.Len(t, placed, 1)
	require.Equal(t, 1, placed[0].Leg)
	require.Zero(t, r.back)
	require.Len(t, r.m.resumed.tickets, 1)
}

// TestABrokenLegThatFitsNowhereTakesTheOthersWithIt: the request fails, and nothing of it is left.
func TestABrokenLegThatFitsNowhereTakesTheOthersWithIt(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	sub, other := r.broken(1, 100, 40), r.broken(2, 1000, 30)
	leg := other.Legs[0]
	leg.Leg, leg.Prompt = 1, 1
	sub.Prompts, sub.Legs = append(sub.Prompts, other.Prompts...), append(sub.Legs, leg)
	require.Equal(t, fault.ContextLength, r.fault(r.submit(sub)).Kind)
	require.Empty(t, r.m.resumed.tickets)
	r.empty()
}

// TestLengthsOfBrokenAnswersAreNotLearned: they say nothing of how long answers are.
func TestLengthsOfBrokenAnswersAreNotLearned(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	before := r.m.learner.Answer(100, 10_000).MostTokens
	for range 100 {
		r.step(stream.Finished{Replica: "a", Produced: 1, Broken: true})
	}
	require.Equal(t, before, r.m.learner.Answer(100, 10_000).MostTokens)
	for range 100 {
		r.step(stream.Finished{Replica: "a", Produced: 1})
	}
	require.Less(t, r.m.learner.Answer(100, 10_000).MostTokens, before)
}
