package stream

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// begin starts an answer on a replica and lets it produce a text.
func begin(t *testing.T, req *Request, said string) *rig {
	t.Helper()
	r := newRig(t, DefaultConfig(), req)
	r.run(100, "a")
	r.do(text(1, said))
	return r
}

// submitted is the last submission of a step.
func submitted(t *testing.T, effects []effect) *Submit {
	t.Helper()
	var sub *Submit
	for _, e := range effects {
		if to, ok := e.(toRouter); ok {
			if s, ok := to.message.(*Submit); ok {
				sub = s
			}
		}
	}
	require.NotNil(t, sub)
	return sub
}

// TestWhatIsSubmittedAgain: prompt and journal are one prompt to the router, so that it counts and looks up all of it.
func TestWhatIsSubmittedAgain(t *testing.T) {
	limit := 50
	r := begin(t, &Request{MaxTokens: &limit, MinTokens: 4}, "xyz")
	r.later(3 * time.Second)
	sub := submitted(t, r.m.step(r.now, attemptEnded{1, failure(engine.Broken)}))
	require.True(t, sub.Again)
	require.True(t, sub.Begun)
	require.Len(t, sub.Prompts, 2)
	require.Equal(t, []uint32{1, 2, 3}, sub.Prompts[0].IDs)
	require.Equal(t, []uint32{1, 2, 3, 'x', 'y', 'z'}, sub.Prompts[1].IDs)
	require.Len(t, sub.Legs, 1)
	ask := sub.Legs[0]
	require.Equal(t, 1, ask.Prompt)
	require.Equal(t, 3, ask.Produced)
	require.Equal(t, 97, *ask.MaxTokens, "what its first attempt was placed for")
	require.Equal(t, r.now, ask.Since)
	require.Equal(t, []Exclusion{{Replica: "a", Incarnation: 1, Process: true}}, ask.Excluded)
	// A router that restarts is asked the same again.
	again := submitted(t, r.m.step(r.now.Add(time.Second), RouterRestarted{}))
	again.Number = sub.Number
	require.Equal(t, sub, again)
	// The base prompts stay what they are for all else.
	require.Equal(t, Usage{PromptTokens: 3, CompletionTokens: 3}, r.m.usage())
}

// TestMilestonesOfAnAnswerThatGoesOn: the replica it goes on at holds prompt and journal.
func TestMilestonesOfAnAnswerThatGoesOn(t *testing.T) {
	r := begin(t, &Request{}, "xyz")
	r.later(time.Second)
	r.do(attemptEnded{1, failure(engine.Broken)})
	r.later(time.Second)
	r.run(100, "p")
	r.later(time.Second)
	require.Equal(t, []string{
		"exact resumed with 3 after 3s", "p: started 2", "first token of p after 1s", `p: learned 6 ""`, `leg 0: 1 "!"`,
	}, slicesWithout(r.do(text(2, "!")), "same_distribution"))
	r.do(text(2, "!").finish(engine.FinishStop))
	require.Equal(t, []string{"p: end 2 finished", "finished 2 on p with 5", `p: learned 8 ""`}, r.do(attemptEnded{attempt: 2}))
}

// slicesWithout puts the class of greedy decoding in the place of another, so that a table reads the same for all.
func slicesWithout(words []string, class string) []string {
	out := slices.Clone(words)
	for i, w := range out {
		if len(w) > len(class) && w[:len(class)] == class {
			out[i] = "exact" + w[len(class):]
		}
	}
	return out
}

// TestAnAnswerThatBreaksEngines is given up after two in a row that took it and gave nothing; those that would not take it do
// not count, nor does one that was only emptied.
func TestAnAnswerThatBreaksEngines(t *testing.T) {
	type blow struct {
		kind   engine.FailKind
		tokens string
		moved  bool
	}
	for _, c := range []struct {
		name  string
		blows []blow
		ends  bool
	}{
		{"two in a row", []blow{{engine.Broken, "", false}, {engine.Stalled, "", false}}, true},
		{"a token between them", []blow{{engine.Broken, "", false}, {engine.Broken, "x", false}, {engine.Stalled, "", false}}, false},
		{"refusals", []blow{{engine.Refused, "", false}, {engine.Refused, "", false}, {engine.Refused, "", false}}, false},
		{"sheds", []blow{{engine.Shed, "", false}, {engine.Shed, "", false}, {engine.Shed, "", false}}, false},
		{"a refusal between them", []blow{{engine.Broken, "", false}, {engine.Refused, "", false}, {engine.Broken, "", false}}, true},
		{"moved twice", []blow{{engine.Stalled, "", true}, {engine.Stalled, "", true}, {engine.Stalled, "", true}}, false},
		{"the client's fault", []blow{{engine.Client, "", false}}, true},
		{"six more attempts", slices.Repeat([]blow{{engine.Broken, "x", false}}, 6), false},
		{"eight attempts", slices.Repeat([]blow{{engine.Broken, "x", false}}, 7), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := begin(t, &Request{}, "ab")
			r.do(attemptEnded{1, failure(engine.Broken)})
			for i, b := range c.blows {
				require.NotNil(t, r.m.waiting.asks, "given up before blow %d", i)
				name := string(rune('b' + i))
				r.run(100, name)
				id := uint64(i) + 2 //nolint:gosec // a count
				if b.tokens != "" {
					r.do(text(id, b.tokens))
				}
				if b.moved {
					r.do(Leave{Ref: r.ref(name), Leaving: fleet.Leaving{Incarnation: 1}})
				} else {
					r.do(attemptEnded{id, failure(b.kind)})
				}
			}
			require.Equal(t, c.ends, r.m.ended)
		})
	}
}

// TestMovedOff: a replica that is emptied is no bad one. It takes nothing new while it drains, and may be asked again after that.
func TestMovedOff(t *testing.T) {
	r := begin(t, &Request{}, "ab")
	effects := r.m.step(r.now, Leave{Ref: r.ref("a"), Leaving: fleet.Leaving{Incarnation: 1, Why: "drain"}})
	require.Empty(t, submitted(t, effects).Legs[0].Excluded)
	require.Equal(t, fault.NoReplica, submitted(t, effects).Legs[0].LastFault.Kind)
	r.run(100, "b")
	effects = r.m.step(r.now, Leave{Ref: r.ref("b"), Leaving: fleet.Leaving{Incarnation: 1, Hung: true, Why: "hung"}})
	require.Equal(t, []Exclusion{{Replica: "b", Incarnation: 1, Process: true}}, submitted(t, effects).Legs[0].Excluded)
	require.Equal(t, fault.Deadline, submitted(t, effects).Legs[0].LastFault.Kind)
	r.run(100, "a")
	r.do(text(3, "c"))

	r = begin(t, &Request{Resume: ResumeOff}, "ab")
	require.Contains(t, r.do(Leave{Ref: r.ref("a"), Leaving: fleet.Leaving{Incarnation: 1, Why: "drain"}}), "ended: no_replica")
}

// TestCancelWhileAnAnswerIsBroken: nothing else than the client's leaving is needed.
func TestCancelWhileAnAnswerIsBroken(t *testing.T) {
	for _, again := range []string{"waits", "is placed"} {
		t.Run(again, func(t *testing.T) {
			r := begin(t, &Request{}, "ab")
			r.do(attemptEnded{1, failure(engine.Broken)})
			want := []string{"ended: client_gone", "same_distribution left with 0"}
			if again == "waits" {
				want = append(want, "withdraw 2")
			} else {
				r.run(100, "b")
				want = append(want, "b: linger 2", "abort 2", "failed 2 on b")
			}
			require.Equal(t, want, r.do(clientGone{}))
			_, timed := r.m.nextTimeout()
			require.False(t, timed)
			if again == "waits" {
				require.Empty(t, r.do(Withdrawn{Number: 2}))
			}
			require.True(t, r.m.done())
		})
	}
}

// TestLegsGoOnOneByOne: the router places those that it can, and the rest is submitted anew.
func TestLegsGoOnOneByOne(t *testing.T) {
	r := newRig(t, DefaultConfig(), &Request{N: 3})
	r.run(100, "a", "a", "b")
	for id := range uint64(3) {
		r.do(text(id+1, "x"))
	}
	with(t, r.do(attemptEnded{1, failure(engine.Broken)}), "submit 2 again begun, leg 0 with 1 of 100 not a/1 after engine_failed")
	r.later(time.Second)
	with(t, r.do(attemptEnded{2, failure(engine.Broken)}), "withdraw 2",
		"submit 3 again begun, leg 0 with 1 of 100 not a/1 after engine_failed, leg 1 with 1 of 100 not a/1 after engine_failed")
	require.Equal(t, time.Second, r.m.waiting.asks[1].Since.Sub(r.m.waiting.asks[0].Since), "each has its own time")
	require.Equal(t, []string{
		"leg 1 is on b", "start 4 for leg 1 on b", "submit 4 again begun, leg 0 with 1 of 100 not a/1 after engine_failed",
	}, r.do(Placed{Number: 3, Placements: []Placement{r.place(1, "b", 99)}}))
	require.Equal(t, []string{"leg 0 is on c", "start 5 for leg 0 on c"}, r.do(Placed{Number: 4, Placements: []Placement{r.place(0, "c", 99)}}))
}

// TestALegWithoutTokensWaitsForOneThatHasSome: its request is worth as much.
func TestALegWithoutTokensWaitsForOneThatHasSome(t *testing.T) {
	r := newRig(t, DefaultConfig(), &Request{N: 2})
	r.run(100, "a", "b")
	r.do(text(1, "x"))
	require.Contains(t, r.do(attemptEnded{2, failure(engine.Broken)}), "submit 2 again begun, leg 1 not b/1 after engine_failed")
	require.Zero(t, r.of.taken)
}

func TestLostIDsGoOnAsText(t *testing.T) {
	lost := "日z"
	request := func(req *Request) *rig {
		r := begin(t, req, "ab")
		r.do(frame{attempt: 1, event: engine.Event{Tokens: []engine.Token{{ID: 'z', LostIDs: 2, Text: &lost}, {ID: 'c'}}}})
		return r
	}
	r := request(&Request{Sampling: engine.Sampling{Temperature: of(0.0)}})
	sub := submitted(t, r.m.step(r.now, attemptEnded{1, failure(engine.Broken)}))
	require.Equal(t, []uint32{1, 2, 3, 'a', 'b', 0xe6, 0x97, 0xa5, 'z', 'c'}, sub.Prompts[1].IDs)
	require.Equal(t, 6, sub.Legs[0].Produced)
	require.Equal(t, Inexact, r.m.legs[0].breach.class, "greedy, but its IDs are ours")
	r = request(&Request{Resume: ResumeExact, Sampling: engine.Sampling{Temperature: of(0.0)}})
	require.Contains(t, r.do(attemptEnded{1, failure(engine.Broken)}), "inexact declined with 0")

	t.Run("a tokenizer that cannot", func(t *testing.T) {
		r := request(&Request{})
		r.m.model.Encode = nil
		require.Contains(t, r.do(attemptEnded{1, failure(engine.Broken)}), "restart_only declined with 0")
	})
	t.Run("a tokenizer that fails", func(t *testing.T) {
		r := request(&Request{})
		r.m.model.Encode = func(string) ([]uint32, error) { return nil, errors.New("no") }
		require.Contains(t, r.do(attemptEnded{1, failure(engine.Broken)}), "ended: internal")
	})
	t.Run("an engine of text alone", func(t *testing.T) {
		r := begin(t, &Request{}, "ab")
		r.do(frame{attempt: 1, event: engine.Event{Tokens: []engine.Token{{ID: engine.NoTokenID, Text: &lost}}}})
		require.Contains(t, r.do(attemptEnded{1, failure(engine.Broken)}), "restart_only declined with 0")
	})
}

// TestAChatThatTheEngineRendersBeginsAnew, if nothing of it was sent.
func TestAChatThatTheEngineRendersBeginsAnew(t *testing.T) {
	for _, resume := range []Resume{ResumeBest, ResumeExact, ResumeOff} {
		r := rawRig(t, &Request{Whole: true, Resume: resume, N: 2})
		r.run(50, "p1", "p2")
		r.do(said(1, 5, "hel").prompt(40).cached(8))
		r.do(said(2, 5, "hi"))
		require.Equal(t, []string{
			"p1: attempt failed 1 broken", "finished 1 on p1 with 1", "leg 0 begins anew",
			"submit 2 again begun, leg 0 not p1/1 after engine_failed",
		}, r.do(attemptEnded{1, failure(engine.Broken)}))
		require.Equal(t, 1, r.m.usage().CompletionTokens)
		r.run(50, "p3")
		r.do(said(3, 5, "hello").prompt(41).cached(9))
		r.do(said(3, 6, "!").finish(engine.FinishStop))
		u := r.m.usage()
		require.Equal(t, Usage{PromptTokens: 40, CompletionTokens: 3, CachedTokens: 8, CachedKnown: true}, u, "as of the first attempt")
	}
	r := rawRig(t, &Request{})
	r.run(50, "p1")
	r.do(said(1, 5, "hel"))
	with(t, r.do(attemptEnded{1, failure(engine.Broken)}), "restart_only declined with 0", "ended: engine_failed")
}

// TestTheRetryBudget: sheds before a token take from it, and are answered with 429 when it is spent; what else fails takes
// from it too, but is never refused for that.
func TestTheRetryBudget(t *testing.T) {
	budget := NewBudget()
	start := func() *rig {
		r := newRig(t, DefaultConfig(), &Request{})
		r.m.retries = budget.join()
		r.run(9, "a")
		return r
	}
	shed := func(r *rig) []string { return r.do(attemptEnded{1, failure(engine.Shed)}) }
	var rigs []*rig
	for range 3 {
		r := start()
		rigs = append(rigs, r)
		require.Contains(t, shed(r), "submit 2 again, leg 0 not a/1 after contended")
	}
	patient := start()
	require.Equal(t, []string{"a: attempt failed 1 shed", "failed 1 on a"}, shed(patient), "three at once, of four that live")
	for range 99 {
		at, ok := patient.m.nextTimeout()
		require.True(t, ok)
		patient.later(at.Sub(patient.now))
		require.Empty(t, patient.do(timeout{}))
	}
	require.Equal(t, 990*time.Millisecond, patient.now.Sub(epoch))
	patient.later(10 * time.Millisecond)
	require.Equal(t, []string{"ended: contended"}, patient.do(timeout{}))
	_, ok := patient.m.nextTimeout()
	require.False(t, ok)
	require.True(t, patient.m.done())
	leaver := start()
	shed(leaver)
	require.Equal(t, []string{"ended: client_gone"}, leaver.do(clientGone{}))
	require.True(t, leaver.m.done(), "it waits for nobody")
	lucky := start()
	shed(lucky)
	r := start()
	require.Contains(t, r.do(attemptEnded{1, failure(engine.Broken)}), "submit 2 again, leg 0 not a/1 after engine_failed")
	require.Equal(t, 4, budget.taken)
	rigs = append(rigs, r)
	// A retry ends with its token, its next failure, its rejection or its client.
	rigs[0].run(9, "b")
	rigs[0].do(text(2, "x"))
	require.Equal(t, 3, budget.taken)
	rigs[1].do(Rejected{Number: 2, Fault: fault.New(fault.Contended, "all busy")})
	require.Equal(t, 2, budget.taken)
	rigs[2].do(clientGone{})
	require.Equal(t, 1, budget.taken)
	require.Empty(t, lucky.do(timeout{}), "not yet")
	lucky.later(10 * time.Millisecond)
	require.Equal(t, []string{"submit 2 again, leg 0 not a/1 after contended"}, lucky.do(timeout{}))
	require.Equal(t, 2, budget.taken)
	lucky.run(9, "b")
	lucky.do(text(2, "x"))
	rigs[3].run(9, "b")
	require.Contains(t, rigs[3].do(attemptEnded{2, failure(engine.Shed)}), "submit 3 again, leg 0 not a/1 not b/1 after contended")
	require.Equal(t, 1, budget.taken, "one leg is one retry, however often")
	rigs[3].run(9, "c")
	rigs[3].do(tokens(3).finish(engine.FinishStop))
	require.Zero(t, budget.taken, "an answer of nothing")
}

// TestWantOfOurOwnPasses: a leg whose engine could not even be connected to, for want of open files, is tried again there or
// elsewhere when some may have come free, for RetryWait in all.
func TestWantOfOurOwnPasses(t *testing.T) {
	for name, produced := range map[string]string{"before a token": "", "after tokens": "ab"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, DefaultConfig(), &Request{})
			r.run(100, "a")
			attempt, again := uint64(1), "again, leg 0 after no_replica"
			if produced != "" {
				r.do(text(1, produced))
				r.do(attemptEnded{1, failure(engine.Broken)})
				r.run(100, "b")
				attempt++
				again = "again begun, leg 0 with 2 of 100 not a/1 after no_replica"
			}
			begun := r.now
			for {
				effects := r.do(attemptEnded{attempt, failure(engine.Local)})
				without(t, effects, "submit")
				if r.m.done() {
					with(t, effects, "ended: no_replica")
					break
				}
				at, ok := r.m.nextTimeout()
				require.True(t, ok)
				r.later(at.Sub(r.now))
				require.Contains(t, strings.Join(r.do(timeout{}), "\n"), again)
				r.run(100, "b")
				attempt++
			}
			require.Greater(t, r.now.Sub(begun), DefaultConfig().RetryWait/2)
			require.LessOrEqual(t, r.now.Sub(begun), DefaultConfig().RetryWait)
		})
	}
}

func TestTheBudgetGrowsWithTheRequests(t *testing.T) {
	budget := NewBudget()
	var shares []*share
	for range 100 {
		shares = append(shares, budget.join())
	}
	for range 20 {
		require.True(t, shares[0].take(false))
	}
	require.False(t, shares[1].take(false), "20 % of what lives")
	require.True(t, shares[1].take(true))
	shares[0].close()
	require.Equal(t, 1, budget.taken, "what a request holds ends with it")
	shares[1].giveBack()
	for _, s := range shares[1:] {
		s.close()
	}
	require.True(t, budget.unused())
	require.Zero(t, budget.taken)
}

// TestRegistersOfBudgets: a model has one while it has live requests, and a call that breaks gives back what it holds.
func TestRegistersOfBudgets(t *testing.T) {
	l := NewLive()
	calls := []*Call{{Request: &Request{Model: "m"}, inbox: newInbox()}, {Request: &Request{Model: "m"}, inbox: newInbox()}}
	for _, c := range calls {
		l.enter(c)()
	}
	require.Same(t, calls[0].retries.of, calls[1].retries.of)
	require.True(t, calls[0].retries.take(false))
	for _, c := range calls {
		require.Len(t, l.budgets, 1)
		l.leave(c, func(ReplicaRestarted) {}, func(uint64) fleet.Announcement { return fleet.Announcement{} })
	}
	require.Empty(t, l.budgets)
	require.Zero(t, calls[0].retries.of.taken)
}

// TestAnnouncedAfterTheJoint: a replica hears of what it produced itself.
func TestAnnouncedAfterTheJoint(t *testing.T) {
	r := begin(t, &Request{}, "abc")
	r.do(attemptEnded{1, failure(engine.Broken)})
	r.run(100, "b")
	r.do(text(2, "xy"))
	require.Equal(t, []string{"b: announced in 4, 2 running 2"}, r.do(ReplicaRestarted{Ref: r.ref("b"), Epoch: 4}))
	require.Equal(t, ledger.Claim{Ticket: scoring.Ticket{Boot: 1, Number: 2}, PromptTokens: 3, PrefillTokens: 2}, r.m.attempts[2].place.Claim)
}

// TestWordsOfDeclined: the client is told what it can do.
func TestWordsOfDeclined(t *testing.T) {
	for _, c := range []struct {
		class  Class
		resume Resume
		words  string
	}{
		{Exact, ResumeOff, "wants no continuation"},
		{Inexact, ResumeExact, "would not be exact"},
		{RestartOnly, ResumeBest, "without token IDs"},
		{RestartOnly, ResumeExact, "without token IDs"},
	} {
		f := declined(faultOf(failure(engine.Broken), ""), c.class, c.resume)
		require.Equal(t, fault.EngineFailed, f.Kind)
		require.Contains(t, f.Message, c.words, fmt.Sprint(c))
		require.Contains(t, f.Message, "send the request again")
	}
}

// FuzzJoint breaks an answer at any byte of any frame: what the client gets does not depend on it.
func FuzzJoint(f *testing.F) {
	f.Add("hello END there", "END", uint8(7), uint8(40), uint8(0), true)
	f.Add("日本\xe6語", "本", uint8(2), uint8(9), uint8(2), false)
	f.Add("aabab\xff\xfe", "ab", uint8(3), uint8(4), uint8(3), false)
	f.Add("é", "\ufffd", uint8(1), uint8(2), uint8(0), false)
	f.Fuzz(func(t *testing.T, answer, stop string, at, most, least uint8, include bool) {
		if len(answer) > 200 || len(stop) > 20 || int(at) > len(answer) {
			t.Skip("long enough")
		}
		run := func(cut *int) (string, []string, Usage) {
			var body strings.Builder
			var words []string
			req := Request{Stop: []string{stop}, MinTokens: int(least % 8), IncludeStop: include, StopTokenIDs: []uint32{'z'}}
			r := newRig(t, DefaultConfig(), &req)
			r.run(1+int(most), "a")
			id := uint64(1)
			take := func(f frame) {
				for _, e := range r.m.read(f) {
					switch e := e.(type) {
					case *appendLeg:
						for _, entry := range e.entries {
							body.WriteString(entry.Text)
						}
					case finishLeg:
						body.WriteString(e.finish.Text)
						words = append(words, word(e))
					case endResponse:
						words = append(words, word(e))
					}
				}
			}
			for i := range len(answer) + 1 {
				if cut != nil && i == *cut && !r.m.ended {
					r.do(attemptEnded{id, failure(engine.Broken)})
					r.run(1+int(most), "b")
					id++
				}
				if i < len(answer) {
					take(tokens(id, uint32(answer[i])))
				}
			}
			take(tokens(id).finish(engine.FinishStop))
			return body.String(), words, r.m.usage()
		}
		joint := int(at)
		body, words, usage := run(&joint)
		wantBody, wantWords, wantUsage := run(nil)
		require.Equal(t, wantBody, body)
		require.Equal(t, wantWords, words)
		require.Equal(t, wantUsage, usage)
	})
}

// TestCachedTokensOfABrokenAnswer are those of the first attempt that gave a token, if it said so.
func TestCachedTokensOfABrokenAnswer(t *testing.T) {
	for _, c := range []struct {
		name   string
		first  frame
		want   Usage
		second int
	}{
		{"it said so", text(1, "x").cached(2), Usage{PromptTokens: 3, CompletionTokens: 2, CachedTokens: 2, CachedKnown: true}, 3},
		{"it did not", text(1, "x"), Usage{PromptTokens: 3, CompletionTokens: 2}, 3},
		{"it gave no token", tokens(1).cached(2), Usage{PromptTokens: 3, CompletionTokens: 1, CachedTokens: 3, CachedKnown: true}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, DefaultConfig(), &Request{})
			r.run(9, "a")
			r.do(c.first)
			r.do(attemptEnded{1, failure(engine.Broken)})
			r.run(9, "b")
			r.do(text(2, "y").cached(c.second).finish(engine.FinishStop))
			require.Equal(t, c.want, r.m.usage())
		})
	}
}
