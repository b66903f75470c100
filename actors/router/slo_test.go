package router

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/actors/explain"
	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/policy"
	"plimsoll/scoring/queue"
	"plimsoll/scoring/slo"
)

// within is a submission of one leg whose first token has to come in that time.
func (r *rig) within(seed, tokens int, ttft time.Duration) *stream.Submit {
	return r.askFor(&stream.Request{Model: "m", N: 1, SLO: stream.SLO{TTFT: &ttft}}, ids(seed, tokens))
}

// missed says whether a submission was turned away because of its SLO.
func (r *rig) missed(sub *stream.Submit) bool {
	for _, a := range r.answers(sub) {
		if x, ok := a.(stream.Rejected); ok && x.Fault.Code == codeSLO {
			return true
		}
	}
	return false
}

// TestSLORefusedAtArrival: whoever would get its first token too late is refused at once, with the numbers and a time; nobody
// else is.
func TestSLORefusedAtArrival(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(r *rig)
		slo    *time.Duration
		missed bool
	}{
		{"an idle fleet meets it", func(*rig) {}, new(time.Second), false},
		{"not one that no fleet can meet", func(*rig) {}, new(time.Millisecond), true},
		{"full replicas, all the time", fillAll, nil, false},
		{"full replicas, no time", fillAll, new(10 * time.Millisecond), true},
		{"full replicas, time enough", fillAll, new(20 * time.Second), false},
		{"one of two is free", func(r *rig) { r.sites[0].fill() }, new(time.Second), false},
		{"a long queue", func(r *rig) { fillAll(r); r.crowd(40, queue.Default); r.now = r.now.Add(time.Second) }, new(2 * time.Second), true},
		{"a queue of long ones that it passes", func(r *rig) { fillAll(r); r.crowd(40, queue.Default) }, new(2 * time.Second), false},
		{"a long queue behind it", func(r *rig) { fillAll(r); r.crowd(40, queue.Flex) }, new(2 * time.Second), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, testConfig(), 2)
			c.before(r)
			sub := r.ask(1, 100, nil)
			sub.Call.Request.SLO.TTFT, sub.Call.Request.Class = c.slo, queue.Default
			would := r.supposes(sub.Call.Request, sub.Prompts[0].IDs).Summary
			require.Equal(t, c.missed, strings.HasPrefix(would, "would be refused (too late): the first token is expected after "), would)
			r.submit(sub)
			require.Equal(t, c.missed, r.missed(sub), "%v", r.answers(sub))
			if !c.missed {
				return
			}
			f := r.fault(sub)
			require.Equal(t, fault.Contended, f.Kind)
			require.Contains(t, f.Message, c.slo.String())
			require.Contains(t, f.Message, "expected after")
			require.GreaterOrEqual(t, f.RetryAfter, time.Second)
			require.LessOrEqual(t, f.RetryAfter, time.Minute)
			require.False(t, r.waits(sub))
			require.Equal(t, []fault.Cause{fault.SLOFirstToken}, r.causes)
		})
	}
}

func fillAll(r *rig) {
	for _, s := range r.sites {
		s.fill()
	}
}

// crowd lets requests of a class wait.
func (r *rig) crowd(n int, class queue.Class) {
	for i := range n {
		r.submit(r.askFor(&stream.Request{Model: "m", N: 1, Class: class}, ids(1000+i, 900)))
	}
}

// TestSLOShedWhileItWaits: as soon as the first token cannot come in time, and not before; a request without an SLO waits on.
func TestSLOShedWhileItWaits(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	fillAll(r)
	hurried, patient := r.submit(r.within(1, 100, 5*time.Second)), r.submit(r.ask(2, 100, nil))
	r.pass(4900 * time.Millisecond)
	require.True(t, r.waits(hurried))
	r.pass(100 * time.Millisecond)
	f := r.fault(hurried)
	require.Equal(t, fault.Contended, f.Kind)
	require.Equal(t, codeSLO, f.Code)
	require.Contains(t, f.Message, "has to come within 5s")
	require.Equal(t, []fault.Cause{fault.SLOShed}, r.causes)
	require.True(t, r.waits(patient))
	r.site("a").free()
	r.pass(time.Second)
	require.Len(t, r.places(patient), 1)
	r.empty()
}

// TestSLORefusalsAreExplained with what each replica would have given, whether they came at arrival, behind others or after a wait; a
// shadow is not asked, since no policy was.
func TestSLORefusalsAreExplained(t *testing.T) {
	for _, c := range []struct {
		name  string
		slo   stream.SLO
		fate  func(r *rig)
		cause string
		after float64 // seconds
	}{
		{"at arrival", stream.SLO{TTFT: new(time.Millisecond)}, func(*rig) {}, "too late", 0},
		{"at arrival behind others", stream.SLO{TTFT: new(10 * time.Millisecond)}, func(r *rig) { fillAll(r); r.crowd(3, queue.Priority) }, "too late", 0},
		{"the pace", stream.SLO{TPOT: new(time.Microsecond)}, func(*rig) {}, "too slow", 0},
		{"while it waits", stream.SLO{TTFT: new(5 * time.Second)}, fillAll, "too late", 4.98},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := watchedRig(t, 2, "round-robin")
			c.fate(r)
			req := named("hurried")
			req.SLO, req.Class = c.slo, queue.Default
			sub := r.submit(r.askFor(req, ids(1, 100)))
			r.pass(5 * time.Second)
			got := r.record("hurried")
			require.Equal(t, explain.Refused, got.State)
			require.Equal(t, r.fault(sub).Message, got.Error)
			last := got.Looks[len(got.Looks)-1]
			require.Equal(t, []string{"refuse", c.cause}, []string{last.Verdict, last.Cause})
			require.InDelta(t, c.after, last.AfterSeconds, 0.02)
			require.Len(t, last.Candidates, 2)
			require.Positive(t, last.Candidates[0].Prefill)
			require.Len(t, last.Candidates[0].Values, len(last.Terms))
			require.Len(t, got.Shadows, len(got.Looks)-1, "only of what the policy has decided")
		})
	}
}

// TestSLOOfABrokenAnswer: what was let in is not turned away because its engine failed.
func TestSLOOfABrokenAnswer(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	fillAll(r)
	sub := r.within(1, 100, time.Millisecond)
	sub.Again = true
	r.submit(sub)
	r.pass(time.Second)
	require.True(t, r.waits(sub))
	r.site("a").free()
	r.pass(time.Second)
	require.Len(t, r.places(sub), 1)
}

// TestTPOTRefused: where every replica that serves takes longer for a step, by what was learned.
func TestTPOTRefused(t *testing.T) {
	r := newRig(t, testConfig(), 2)
	ask := func(seed int, most time.Duration) *stream.Submit {
		return r.submit(r.askFor(&stream.Request{Model: "m", N: 1, SLO: stream.SLO{TPOT: &most}}, ids(seed, 100)))
	}
	for range 200 {
		r.step(stream.Steps{Replica: "a", Gap: 50 * time.Millisecond})
		r.step(stream.Steps{Replica: "b", Gap: 20 * time.Millisecond})
	}
	require.Len(t, r.places(ask(1, 40*time.Millisecond)), 1, "the other one can")
	would := r.supposes(&stream.Request{Model: "m", N: 1, SLO: stream.SLO{TPOT: new(15 * time.Millisecond)}}, ids(2, 100))
	require.Contains(t, would.Summary, "would be refused (too slow): a token is expected every ")
	require.Len(t, would.Looks[0].Candidates, 2)
	f := r.fault(ask(2, 15*time.Millisecond))
	require.Equal(t, codeSLO, f.Code)
	require.Contains(t, f.Message, "one has to come every 15ms")
	require.Equal(t, []fault.Cause{fault.SLOPace}, r.causes)
	require.GreaterOrEqual(t, f.RetryAfter, time.Second)
}

// TestSLOLearnsItsError: where first tokens come later than predicted, more is refused; a minute later that is forgotten.
func TestSLOLearnsItsError(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	const limit = 40 * time.Millisecond // of what is predicted within 20 ms
	for i := range 40 {
		sub := r.submit(r.within(i, 100, time.Second))
		p := r.places(sub)[0]
		r.now = r.now.Add(100 * time.Millisecond)
		r.m.aims.errors.Observe(r.now, 0.02, 0.1) // as another hundred of them said
		r.step(stream.FirstToken{Replica: "a", Ticket: p.Claim.Ticket, PrefillTokens: 1, Took: 5 * time.Millisecond})
		r.end(p)
	}
	require.Empty(t, r.m.aims.expected)
	require.True(t, r.missed(r.submit(r.within(100, 100, limit))))
	r.now = r.now.Add(2 * time.Minute)
	require.False(t, r.missed(r.submit(r.within(101, 100, limit))))
}

// TestExpectedIsBounded: of tickets whose first token never comes no more than so many are remembered, and not for ever.
func TestExpectedIsBounded(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	e := &entry{sub: r.within(1, 10, time.Second), predicted: 1, predictedAt: r.now}
	for i := range 2 * expectedMax {
		r.m.expect(e, scoring.Ticket{Boot: 1, Number: uint64(i)}, r.now)
	}
	require.Len(t, r.m.aims.expected, expectedMax)
	later := r.now.Add(expectedWait + 1)
	e.predictedAt = later
	r.m.expect(e, scoring.Ticket{Boot: 2}, later)
	require.Len(t, r.m.aims.expected, 1)
	r.m.ended(later, "a", scoring.Ticket{Boot: 2}, r.views())
	require.Empty(t, r.m.aims.expected)
}

// clerk runs a queue of requests with and without SLOs, of all classes and of several tenants, in virtual time: replicas grant,
// give a first token after a while, and end answers.
type clerk struct {
	*rig

	subs     []*stream.Submit
	came     map[*stream.Call]time.Time // arrivals
	waited   map[*stream.Call]bool
	left     map[*stream.Call]bool
	prefills []prefilling
}

type prefilling struct {
	place stream.Placement
	first time.Time // when it comes
	ends  time.Time
	done  bool
}

// TestQueueKeepsItsWord: whatever comes and leaves at whatever moment, every request is placed or refused within its bound, nothing is
// refused for an SLO but what has one, and nothing waits while all replicas are idle; when all has left nothing is kept.
func TestQueueKeepsItsWord(t *testing.T) {
	did := map[string]int{}
	for range 6 {
		rapid.Check(t, func(t *rapid.T) { runClerk(t, did) })
	}
	t.Log(did)
	for _, what := range []string{"placed", "placed after a wait", "refused at once", "shed", "timed out", "left in the queue", "left while reserved"} {
		require.GreaterOrEqual(t, did[what], 20, "too few cases of %q", what)
	}
}

func runClerk(t *rapid.T, did map[string]int) {
	cfg := testConfig()
	cfg.QueueTimeout = 3 * time.Second
	cfg.Queue.RequestsMax = 30
	cfg.Policy.Name = rapid.SampledFrom(policy.Names()).Draw(t, "policy")
	c := &clerk{
		rig: newRig(t, cfg, rapid.IntRange(1, 3).Draw(t, "replicas")), came: map[*stream.Call]time.Time{},
		waited: map[*stream.Call]bool{}, left: map[*stream.Call]bool{},
	}
	t.Repeat(map[string]func(*rapid.T){
		"submit": func(t *rapid.T) { c.come(t) },
		"burst": func(t *rapid.T) {
			for range rapid.IntRange(3, 12).Draw(t, "n") {
				c.come(t)
			}
		},
		"time":    func(t *rapid.T) { c.run(time.Duration(rapid.IntRange(1, 800).Draw(t, "ms")) * time.Millisecond) },
		"deliver": func(*rapid.T) { c.deliver() },
		"leave": func(t *rapid.T) {
			if len(c.subs) == 0 {
				t.Skip("nobody is there")
			}
			c.leave(rapid.SampledFrom(c.subs).Draw(t, "who"), did)
		},
		"": func(t *rapid.T) { c.check(t) },
	})
	for range 100 {
		c.run(time.Second)
	}
	c.empty()
	for _, sub := range c.subs {
		require.Len(t, c.answers(sub), 1, "exactly one answer")
		c.account(t, sub, did)
	}
}

func (c *clerk) come(t *rapid.T) {
	req := &stream.Request{
		Model: "m", N: 1, Class: queue.Class(rapid.IntRange(0, int(queue.NumClasses)-1).Draw(t, "class")),
		Tenant: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "tenant"),
	}
	if rapid.Bool().Draw(t, "hurried") {
		req.SLO.TTFT = new(time.Duration(rapid.IntRange(20, 2500).Draw(t, "slo ms")) * time.Millisecond)
	}
	req.MaxTokens = new(rapid.IntRange(1, 100).Draw(t, "max_tokens"))
	sub := c.askFor(req, ids(len(c.subs), rapid.IntRange(1, 800).Draw(t, "tokens")))
	c.subs = append(c.subs, sub)
	c.came[sub.Call] = c.now
	held := c.m.waiting.Len()
	would := c.supposes(req, sub.Prompts[0].IDs).Summary
	require.Equal(t, held, c.m.waiting.Len(), "what is only asked does not wait")
	c.step(sub)
	said := ""
	if len(c.answers(sub)) > 0 {
		said = c.fault(sub).Message
	}
	const late = "the first token is expected after"
	require.Equal(t, strings.HasPrefix(said, late), strings.HasPrefix(would, "would be refused (too late): "+late), "%s\n%s", would, said)
}

func (c *clerk) leave(sub *stream.Submit, did map[string]int) {
	if len(c.answers(sub)) > 0 {
		return
	}
	what := "left while reserved"
	if c.waits(sub) {
		what = "left in the queue"
	}
	did[what]++
	c.left[sub.Call] = true
	c.step(stream.Withdraw{Call: sub.Call, Number: sub.Number})
	require.Len(c.t, c.answers(sub), 1, "in the step that hears of it")
	require.False(c.t, c.waits(sub))
}

// run lets time pass in steps; replicas work meanwhile.
func (c *clerk) run(d time.Duration) {
	for end := c.now.Add(d); c.now.Before(end); {
		c.deliver()
		c.begin()
		c.pass(20 * time.Millisecond)
		for i := range c.prefills {
			p := &c.prefills[i]
			if !p.done && !c.now.Before(p.first) {
				p.done = true
				c.site(p.place.Ref.ID).ledger.Start(p.place.Claim.Ticket, c.now)
				c.step(stream.FirstToken{
					Replica: p.place.Ref.ID, Ticket: p.place.Claim.Ticket, PrefillTokens: p.place.Claim.PrefillTokens, Took: 20 * time.Millisecond,
				})
			}
		}
		for i := 0; i < len(c.prefills); {
			p := c.prefills[i]
			if c.now.Before(p.ends) {
				i++
				continue
			}
			c.prefills = append(c.prefills[:i], c.prefills[i+1:]...)
			c.site(p.place.Ref.ID).ledger.End(p.place.Claim.Ticket, ledger.Finished)
			c.step(stream.Finished{Replica: p.place.Ref.ID, Ticket: p.place.Claim.Ticket, Produced: 20})
			c.step(fleet.Room{Replica: p.place.Ref.ID})
			c.deliver()
		}
	}
}

// deliver lets the replicas answer; those that are given something back tell of the room.
func (c *clerk) deliver() {
	for back := -1; back != c.back; {
		back = c.back
		c.rig.deliver()
		if c.back > back {
			for _, s := range c.sites {
				c.step(fleet.Room{Replica: s.ref.ID})
			}
		}
	}
}

// begin has the replicas work on what they were given.
func (c *clerk) begin() {
	for _, p := range c.placed {
		tokens := p.Claim.Ticket.Number % 7
		c.prefills = append(c.prefills, prefilling{
			place: p, first: c.now.Add(20 * time.Millisecond), ends: c.now.Add(time.Duration(100+150*tokens) * time.Millisecond),
		})
	}
	c.placed = nil
}

// check is what holds after every step.
func (c *clerk) check(t *rapid.T) {
	idle := len(c.sent) == 0
	for _, s := range c.sites {
		idle = idle && s.ledger.Empty()
	}
	if idle {
		require.Zero(t, c.m.waiting.Len(), "all are idle and somebody waits")
	}
	for _, sub := range c.subs {
		require.LessOrEqual(t, len(c.answers(sub)), 1)
		if c.waits(sub) {
			c.waited[sub.Call] = true
			require.LessOrEqual(t, c.now.Sub(c.came[sub.Call]), c.m.cfg.QueueTimeout, "a bounded wait")
			if ttft := sub.Call.Request.SLO.TTFT; ttft != nil {
				require.LessOrEqual(t, c.now.Sub(c.came[sub.Call]), *ttft+recheckSLO, "its first token comes too late")
			}
		}
	}
	ahead := c.m.queued
	require.GreaterOrEqual(t, ahead.Blocks, 0.0)
	require.GreaterOrEqual(t, ahead.Seats, float64(c.m.waiting.Len()))
}

// account notes what became of a submission.
func (c *clerk) account(t *rapid.T, sub *stream.Submit, did map[string]int) {
	if c.left[sub.Call] {
		return
	}
	switch a := c.answers(sub)[0].(type) {
	case stream.Placed:
		did["placed"]++
		if c.waited[sub.Call] {
			did["placed after a wait"]++
		}
	case stream.Rejected:
		switch {
		case a.Fault.Code != codeSLO:
			require.Equal(t, fault.Contended, a.Fault.Kind, "%v", a.Fault)
			did["timed out"]++
		case c.waited[sub.Call]:
			did["shed"]++
		default:
			did["refused at once"]++
		}
		if a.Fault.Code == codeSLO {
			require.NotNil(t, sub.Call.Request.SLO.TTFT, "only who has an SLO is refused because of one")
		}
		require.GreaterOrEqual(t, a.Fault.RetryAfter, time.Second)
		require.LessOrEqual(t, a.Fault.RetryAfter, time.Minute)
		require.Zero(t, a.Fault.RetryAfter%time.Second)
	}
}

// TestDeadlinesNeverReorder: the order of those that wait is the same with SLOs as without.
func TestDeadlinesNeverReorder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type one struct {
			tokens int
			class  queue.Class
			tenant string
			slo    *time.Duration
		}
		var list []one
		for range rapid.IntRange(2, 15).Draw(t, "requests") {
			list = append(list, one{
				rapid.IntRange(1, 900).Draw(t, "tokens"), queue.Class(rapid.IntRange(0, 2).Draw(t, "class")),
				rapid.SampledFrom([]string{"x", "y"}).Draw(t, "tenant"),
				new(time.Duration(rapid.IntRange(1000, 100_000).Draw(t, "slo")) * time.Hour),
			})
		}
		order := func(slos bool) []int {
			r := newRig(t, testConfig(), 1)
			fillAll(r)
			number := map[*stream.Call]int{}
			for i, o := range list {
				req := &stream.Request{Model: "m", N: 1, Class: o.class, Tenant: o.tenant}
				if slos {
					req.SLO.TTFT = o.slo
				}
				number[r.submit(r.askFor(req, ids(i, o.tokens))).Call] = i
				r.now = r.now.Add(time.Millisecond)
			}
			var out []int
			for _, call := range r.order() {
				out = append(out, number[call])
			}
			require.Len(t, out, len(list))
			return out
		}
		require.Equal(t, order(false), order(true))
	})
}

// TestAheadIsWhatGoesBefore: what is counted ahead of a request is what a scan visits before it, and no more.
func TestAheadIsWhatGoesBefore(t *testing.T) {
	r := newRig(t, testConfig(), 1)
	fillAll(r)
	r.crowd(3, queue.Priority)
	r.crowd(4, queue.Default)
	r.crowd(5, queue.Flex)
	e := newEntry(99, r.askFor(&stream.Request{Model: "m", N: 1, Class: queue.Default}, ids(1, 100)))
	r.m.know(r.now, e, r.views())
	e.patience = r.now.Add(time.Minute)
	require.True(t, r.m.enqueue(r.now, e, false, r.views()))
	got := r.m.ahead(r.now, e)
	require.InDelta(t, 3, got.Seats, 0, "those of its class are long and came at the same moment: it passes them")
	require.Positive(t, got.PrefillSeconds)
	require.InDelta(t, 13, r.m.queued.Seats, 0)
	require.Less(t, got.Blocks, r.m.queued.Blocks)
	require.NotEqual(t, slo.Ahead{}, got)
}

// TestRetryAfterOfWhatWasShed: when the first of the engines that shed it takes requests again; what engines say themselves where none
// cools; other faults stay as they are.
func TestRetryAfterOfWhatWasShed(t *testing.T) {
	r := newRig(t, testConfig(), 3)
	shed := &fault.Fault{Kind: fault.Contended, Message: "busy", RetryAfter: 7 * time.Second}
	between := func(least, most time.Duration) {
		t.Helper()
		f := r.m.shedBy(r.now, shed, r.views()).fault
		require.GreaterOrEqual(t, f.RetryAfter, least)
		require.LessOrEqual(t, f.RetryAfter, most)
		require.Equal(t, "busy", f.Message)
	}
	between(7*time.Second, 9*time.Second)
	r.sites[0].snap.CoolingUntil = r.now.Add(20 * time.Second)
	between(20*time.Second, 26*time.Second)
	r.sites[2].snap.CoolingUntil = r.now.Add(4 * time.Second)
	between(4*time.Second, 6*time.Second)
	r.sites[1].snap.CoolingUntil = r.now.Add(-time.Second) // over
	between(4*time.Second, 6*time.Second)
	require.Equal(t, 7*time.Second, shed.RetryAfter, "it is others' too")
	broken := fault.New(fault.EngineFailed, "broke")
	require.Same(t, broken, r.m.shedBy(r.now, broken, r.views()).fault)
}
