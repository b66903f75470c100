package router

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/actors/explain"
	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/policy"
	"plimsoll/scoring/queue"
)

// market is one run of the router's machine among replicas with real ledgers.
type market struct {
	*rig

	subs []*stream.Submit // the newest submission of each call
	did  map[string]int
	// calm: only new requests of one leg come, so that what waits can be decided for again.
	calm bool
}

// TestMachineAtQuiescence submits, answers, ends, withdraws and resubmits in any order, while replicas come and go and
// signs of room are lost. After every step the router's own bookings are those of the reservations under way, and after
// every pump no request waits that would be dispatched if it were decided again. When all has ended nothing is left, and
// every submission has got exactly one answer. What is in use is never lent to anybody else.
func TestMachineAtQuiescence(t *testing.T) {
	did := map[string]int{}
	for range 30 {
		rapid.Check(t, func(t *rapid.T) { runMarket(t, did) })
	}
	t.Log(did)
	for _, what := range []string{
		"submitted", "several legs", "placed", "placed from the queue", "given back", "reranked", "rejected", "withdrawn",
		"superseded", "ended", "state", "new life", "new epoch", "held checks", "held for a better one", "left room to a higher class", "hung", "overdue",
		"begun", "placed in parts", "capped", "waited too long",
		"hedge placed", "hedge declined", "slo missed", "supposed, dispatch", "supposed, hold", "supposed, refuse",
	} {
		require.GreaterOrEqual(t, did[what], 50, "too few cases of %q", what)
	}
}

func runMarket(t *rapid.T, did map[string]int) {
	cfg := testConfig()
	cfg.Policy.Name = rapid.SampledFrom(policy.Names()).Draw(t, "policy")
	cfg.Admission = rapid.SampledFrom([]Admission{Expected, Strict}).Draw(t, "admission")
	cfg.QueueTimeout, cfg.ResumeWait, cfg.ResumePrefillTokens = 5*time.Second, 5*time.Second, 600
	cfg.Queue.RequestsMax = 12
	if rapid.Bool().Draw(t, "default policy") {
		cfg.Policy.Name = policy.DefaultConfig().Name // others hold nothing for a better one
	}
	m := &market{rig: newRig(t, cfg, rapid.IntRange(1, 3).Draw(t, "replicas")), did: did}
	if rapid.Bool().Draw(t, "watched") {
		m.watch = watch(t, policy.Names()...)
	}
	if rapid.Bool().Draw(t, "one does not share") {
		m.sites[0].ref.Capabilities = engine.Capabilities{Sharing: engine.SharingNever}
	}
	m.calm = rapid.Bool().Draw(t, "calm")
	limits := testLimits()
	limits.Seats = rapid.SampledFrom([]int{limits.Seats, 16}).Draw(t, "seats") // or blocks are what there is too little of
	for _, s := range m.sites {
		s.ledger.SetLimits(limits)
		// So slow that a prompt or two are a queue.
		for range rapid.IntRange(0, 8).Draw(t, "prefills seen") {
			m.m.learner.FirstToken(m.now, s.ref.ID, 500, 0, 500*time.Millisecond)
		}
	}
	t.Repeat(map[string]func(*rapid.T){
		"submit":      m.submitAny,
		"submit more": m.submitAny,
		"deliver":     m.deliverAny,
		"hang": func(t *rapid.T) {
			s := rapid.SampledFrom(m.sites).Draw(t, "replica")
			s.hangs = !s.hangs
			m.did["hung"]++
		},
		"deliver all": func(*rapid.T) { m.deliver() },
		"end": func(t *rapid.T) {
			p := m.pickPlaced(t)
			m.site(p.Ref.ID).ledger.End(p.Claim.Ticket, ledger.Finished)
			m.placed = slices.DeleteFunc(m.placed, func(q stream.Placement) bool { return q.Claim.Ticket == p.Claim.Ticket })
			m.did["ended"]++
			m.step(stream.Finished{Replica: p.Ref.ID, Ticket: p.Claim.Ticket, Produced: 9, Broken: true}) // nothing is learned of it
			if rapid.IntRange(0, 3).Draw(t, "lost") > 0 {
				m.step(fleet.Room{Replica: p.Ref.ID})
				m.held(t)
			}
		},
		"progress": func(t *rapid.T) {
			p := m.pickPlaced(t)
			m.site(p.Ref.ID).ledger.Grow(p.Claim.Ticket, scoring.Tokens(rapid.IntRange(1, 400).Draw(t, "produced")))
		},
		"first token": func(t *rapid.T) {
			p := m.pickPlaced(t)
			m.step(stream.FirstToken{Replica: p.Ref.ID, Ticket: p.Claim.Ticket, PrefillTokens: p.Claim.PrefillTokens, Took: time.Millisecond})
		},
		"room": func(t *rapid.T) {
			m.step(fleet.Room{Replica: m.sites[0].ref.ID})
			m.held(t)
		},
		"squeeze":  m.squeeze,
		"withdraw": m.withdrawAny,
		"again":    m.again,
		"suppose":  m.supposeAny,
		"time": func(t *rapid.T) {
			m.pass(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
		},
		"state": m.changeState,
		"":      m.check,
	})
	m.settle(t)
}

func (m *market) submitAny(t *rapid.T) {
	req := &stream.Request{
		Model: "m", N: m.oneIfCalm(rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "n")), Class: rapid.SampledFrom([]queue.Class{0, 1, 2, 2}).Draw(t, "class"),
	}
	if rapid.Bool().Draw(t, "max_tokens given") {
		req.MaxTokens = new(rapid.IntRange(1, 300).Draw(t, "max_tokens"))
	}
	if rapid.IntRange(0, 2).Draw(t, "hurried") == 0 {
		req.SLO.TTFT = new(time.Duration(rapid.IntRange(1, 4000).Draw(t, "slo ms")) * time.Millisecond)
	}
	prompts := make([][]uint32, m.oneIfCalm(rapid.SampledFrom([]int{1, 1, 2}).Draw(t, "prompts")))
	for i := range prompts {
		// Few families, so that prefixes are shared.
		prompts[i] = ids(rapid.IntRange(0, 3).Draw(t, "family"), 999)[:rapid.IntRange(1, 999).Draw(t, "tokens")]
	}
	sub := m.askFor(req, prompts...)
	sub.Again = rapid.IntRange(0, 4).Draw(t, "again") == 0
	if sub.Again {
		x := rapid.SampledFrom(m.sites).Draw(t, "excluded")
		sub.Legs[0].Excluded = []stream.Exclusion{{Replica: x.ref.ID, Incarnation: x.snap.Incarnation}}
	}
	switch {
	case m.calm:
	case rapid.IntRange(0, 3).Draw(t, "begun") == 0:
		m.begin(t, sub)
	case len(sub.Legs) == 1:
		sub.Hedge = rapid.IntRange(0, 2).Draw(t, "hedge") == 0
	}
	m.subs = append(m.subs, sub)
	m.did["submitted"]++
	if len(sub.Legs) > 1 {
		m.did["several legs"]++
	}
	m.step(sub)
}

// supposeAny asks what would be decided: there is an answer, and nothing is done.
func (m *market) supposeAny(t *rapid.T) {
	req := &stream.Request{Model: "m", N: 1, Class: rapid.SampledFrom([]queue.Class{0, 1, 2}).Draw(t, "class")}
	if rapid.Bool().Draw(t, "hurried") {
		req.SLO.TTFT = new(time.Duration(rapid.IntRange(1, 4000).Draw(t, "slo ms")) * time.Millisecond)
	}
	prompt := ids(rapid.IntRange(0, 3).Draw(t, "family"), rapid.IntRange(0, 1200).Draw(t, "tokens"))
	m.m.out = m.m.out[:0]
	record := m.supposes(req, prompt)
	require.Empty(t, m.m.out)
	require.Equal(t, explain.Nothing, record.State)
	require.NotEmpty(t, record.Looks)
	m.did["supposed, "+record.Looks[0].Verdict]++
}

// squeeze submits one that fits almost anywhere, in the lowest class, while others wait.
func (m *market) squeeze(t *rapid.T) {
	if m.m.waiting.Len() == 0 {
		t.Skip("nobody waits")
	}
	req := &stream.Request{Model: "m", N: 1, Class: queue.Flex, MaxTokens: new(8)}
	sub := m.askFor(req, ids(rapid.IntRange(4, 9).Draw(t, "small family"), 40))
	m.subs = append(m.subs, sub)
	m.did["submitted"]++
	m.step(sub)
	m.step(fleet.Room{Replica: m.sites[0].ref.ID}) // it may have been turned away at once
	m.held(t)
}

func (m *market) oneIfCalm(n int) int {
	if m.calm {
		return 1
	}
	return n
}

// begin makes a submission one of a request whose engine failed in the middle of its answers.
func (m *market) begin(t *rapid.T, sub *stream.Submit) {
	sub.Again, sub.Begun = true, true
	for i := range sub.Legs {
		a := &sub.Legs[i]
		a.Since, a.LastFault = m.now, fault.New(fault.EngineFailed, "it failed")
		if a.Produced = rapid.IntRange(0, len(sub.Prompts[a.Prompt].IDs)).Draw(t, "produced"); a.Produced > 0 {
			a.MaxTokens = new(rapid.IntRange(1, 300).Draw(t, "left"))
		}
		x := rapid.SampledFrom(m.sites).Draw(t, "failed")
		a.Excluded = []stream.Exclusion{{Replica: x.ref.ID, Incarnation: x.snap.Incarnation, Process: rapid.Bool().Draw(t, "whole")}}
	}
	m.did["begun"]++
}

// rest submits the legs that were not placed with the others, as a call does.
func (m *market) rest(i int) {
	sub := m.subs[i]
	for _, told := range m.told[sub.Call] {
		placed, ok := told.(stream.Placed)
		if !ok || placed.Number != sub.Number || len(placed.Placements) == len(sub.Legs) {
			continue
		}
		require.True(m.t, sub.Begun, "all legs or none")
		require.NotEmpty(m.t, placed.Placements)
		next := *sub
		next.Number++
		next.Legs = slices.DeleteFunc(slices.Clone(sub.Legs), func(a stream.Ask) bool {
			return slices.ContainsFunc(placed.Placements, func(p stream.Placement) bool { return p.Leg == a.Leg })
		})
		m.subs[i] = &next
		m.did["placed in parts"]++
		m.step(&next)
		return
	}
}

// neverShed checks that an answer that had begun was turned away for one reason only, or two. True: it had waited too long.
func (m *market) neverShed(sub *stream.Submit) (late bool) {
	for _, told := range m.told[sub.Call] {
		if r, ok := told.(stream.Rejected); ok && sub.Begun && r.Number == sub.Number {
			require.Contains(m.t, []fault.Kind{fault.EngineFailed, fault.ContextLength}, r.Fault.Kind)
			if late = r.Fault.Kind == fault.EngineFailed; late {
				require.False(m.t, m.now.Before(sub.Legs[0].Since.Add(m.m.cfg.ResumeWait)), "it has its whole time")
			}
		}
	}
	return late
}

// capped checks what is kept of prefills for broken answers.
func (m *market) capped() {
	sums := map[scoring.ReplicaID]scoring.Tokens{}
	largest := map[scoring.ReplicaID]scoring.Tokens{}
	for _, p := range m.m.resumed.tickets {
		sums[p.replica] += p.tokens
		largest[p.replica] = max(largest[p.replica], p.tokens)
	}
	require.Equal(m.t, sums, m.m.resumed.prefill)
	for id, sum := range sums {
		require.LessOrEqual(m.t, sum, max(largest[id], m.m.cfg.ResumePrefillTokens))
	}
	for _, e := range m.m.queuedAs {
		for _, a := range e.legs() {
			for _, s := range m.sites {
				if a.Produced > 0 && m.m.resumed.full(s.ref.ID, e.promptTokens(a), m.m.cfg.ResumePrefillTokens) {
					m.did["capped"]++
				}
			}
		}
	}
}

func (m *market) deliverAny(t *rapid.T) {
	if len(m.sent) == 0 {
		t.Skip("nothing is on its way")
	}
	// Each replica gets what was sent to it in order.
	to := rapid.SampledFrom(m.sent).Draw(t, "to").ref
	if m.site(to.ID).hangs {
		t.Skip("it hangs")
	}
	m.deliverOne(slices.IndexFunc(m.sent, func(e letter) bool { return e.ref == to }))
}

func (m *market) pickPlaced(t *rapid.T) stream.Placement {
	if len(m.placed) == 0 {
		t.Skip("nothing runs")
	}
	return rapid.SampledFrom(m.placed).Draw(t, "placement")
}

func (m *market) pickSub(t *rapid.T) int {
	if len(m.subs) == 0 {
		t.Skip("nothing was submitted")
	}
	return rapid.IntRange(0, len(m.subs)-1).Draw(t, "submission")
}

// answered is how often the newest submission of a call was answered.
func (m *market) answered(sub *stream.Submit) int {
	n := 0
	for _, a := range m.told[sub.Call] {
		switch a := a.(type) {
		case stream.Placed:
			if a.Number == sub.Number {
				n++
			}
		case stream.Rejected:
			if a.Number == sub.Number {
				n++
			}
		case stream.Withdrawn:
			if a.Number == sub.Number {
				n++
			}
		}
	}
	return n
}

func (m *market) withdrawAny(t *rapid.T) {
	sub := m.subs[m.pickSub(t)]
	before := m.answered(sub)
	m.step(stream.Withdraw{Call: sub.Call, Number: sub.Number})
	require.Equal(t, before+1, m.answered(sub), "it is answered at once, whatever was")
	if before == 0 {
		m.did["withdrawn"]++
		return
	}
	told := m.told[sub.Call]
	m.told[sub.Call] = told[:len(told)-1] // nobody waits for it
}

// again submits what is open once more, as a call does whose router was restarted.
func (m *market) again(t *rapid.T) {
	i := m.pickSub(t)
	if m.answered(m.subs[i]) > 0 {
		t.Skip("answered")
	}
	next := *m.subs[i]
	next.Number++
	m.subs[i] = &next
	m.did["superseded"]++
	m.step(&next)
}

func (m *market) changeState(t *rapid.T) {
	s := rapid.SampledFrom(m.sites).Draw(t, "replica")
	switch rapid.IntRange(0, 3).Draw(t, "what") {
	case 0:
		s.snap.State = rapid.SampledFrom([]fleet.State{fleet.Ready, fleet.Ready, fleet.Warming, fleet.Down, fleet.Draining}).Draw(t, "state")
		m.did["state"]++
	case 1:
		s.snap.Incarnation++
		place := *s.place
		place.Incarnation = s.snap.Incarnation
		place.Index.Void(place.Slot)
		s.place = &place
		s.ledger.EndAll(ledger.Lost)
		m.placed = slices.DeleteFunc(m.placed, func(p stream.Placement) bool { return p.Ref == s.ref })
		m.did["new life"]++
	case 2:
		s.snap.Epoch++
		m.did["new epoch"]++
	case 3:
		s.snap.CoolingUntil = m.now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond)
	}
	if rapid.Bool().Draw(t, "told") {
		m.step(fleet.Room{Replica: s.ref.ID})
		m.held(t)
	}
}

// check recomputes what the machine keeps.
func (m *market) check(t *rapid.T) {
	booked := map[scoring.ReplicaID]booking{}
	asked := 0
	for _, e := range m.sent {
		a := m.m.tickets[e.claim.Ticket]
		if a == nil {
			m.did["overdue"]++
			continue
		}
		asked++
		b := booked[e.ref.ID]
		b.pending.Requests++
		b.pending.PromptTokens += e.claim.PromptTokens
		b.pending.PrefillTokens += e.claim.PrefillTokens
		b.pending.OutputTokens += e.claim.ExpectedOutputTokens
		b.blocks += a.need
		b.seats += e.claim.Seats
		booked[e.ref.ID] = b
	}
	require.Len(t, m.m.booked, len(booked))
	for id, b := range m.m.booked {
		own := *b
		own.asked = line{}
		require.Equal(t, booked[id], own)
		require.Len(t, b.asked.members(t), own.pending.Requests)
	}
	require.Len(t, m.m.tickets, asked)
	for _, a := range m.m.open.members(t) {
		require.Same(t, a, m.m.tickets[a.place.Claim.Ticket])
		asked--
	}
	require.Zero(t, asked, "reservations in line")
	m.m.spareOnly(t)
	require.Len(t, m.m.queuedAs, m.m.waiting.Len())
	require.Len(t, m.m.deadlines.items, m.m.waiting.Len())
	for call, e := range m.m.queuedAs {
		require.Equal(t, call, e.sub.Call)
		require.Nil(t, m.m.byCall[call], "it waits or it reserves")
		require.False(t, e.sub.Hedge, "it never waits")
	}
	m.capped()
	for i, sub := range m.subs {
		require.LessOrEqual(t, m.answered(sub), 1)
		m.neverShed(sub)
		m.rest(i)
	}
	if _, ok := m.m.nextTick(); m.m.waiting.Len() > 0 {
		require.True(t, ok, "what waits has a bound in time")
	}
}

// held checks that nobody waits whom a decision, taken again, would dispatch or refuse. Where a policy has memory or draws
// lots, several legs may find room together the second time, so it is looked at while all that wait have one leg.
func (m *market) held(t *rapid.T) {
	vs := m.views()
	for _, e := range m.m.queuedAs {
		if len(e.legs()) > 1 {
			return
		}
	}
	m.m.look(m.now, vs)
	_, last := m.m.waiting.Span()
	for _, call := range m.order() {
		e := m.m.queuedAs[call]
		class := e.sub.Call.Request.Class
		on := aim{at: nowhere}
		if m.now.Before(e.rests) {
			if class < last {
				m.m.keep(m.now, e, on, vs)
			}
			continue
		}
		m.m.serve(m.now, e)
		_, d, fits := m.m.prepare(m.now, e, e.legs()[0], vs, nil)
		dec := m.m.policy.Decide(d, fits)
		require.True(t, dec.Verdict == policy.Hold || dec.Verdict == policy.Refuse && e.sub.Begun)
		m.did["held checks"]++
		if dec.Cause == policy.BetterBusy || dec.Cause == policy.BetterFull {
			m.did["held for a better one"]++
			require.True(t, m.now.Before(e.bound), "it has waited too long for a better one")
			on = aim{e.legs()[0].Leg, dec.Index}
		}
		for i := range fits {
			if m.m.pass.pass.Eligible(d, fits, i) == policy.Kept {
				m.did["left room to a higher class"]++
			}
		}
		if class < last {
			m.m.keep(m.now, e, on, vs)
		}
	}
}

// settle heals the fleet and lets everything end.
func (m *market) settle(t *rapid.T) {
	for _, s := range m.sites {
		s.snap.State, s.snap.CoolingUntil, s.hangs = fleet.Ready, time.Time{}, false
	}
	queued := m.m.waiting.Len()
	for range 1000 {
		m.deliver()
		for len(m.placed) > 0 {
			p := m.placed[0]
			m.placed = m.placed[1:]
			m.site(p.Ref.ID).ledger.End(p.Claim.Ticket, ledger.Finished) // lost already if its life is over
			m.step(fleet.Room{Replica: p.Ref.ID})
			m.deliver()
		}
		for i := range m.subs {
			m.rest(i)
		}
		if m.m.waiting.Len() == 0 && len(m.sent) == 0 {
			break
		}
		// All are idle: only a bar may hold anybody, and no longer than this.
		m.pass(recheck)
	}
	m.now = m.now.Add(prefillWait)
	m.step(tick{})
	require.Empty(t, m.m.resumed.tickets)
	require.Empty(t, m.m.resumed.prefill)
	m.empty()
	for _, s := range m.sites {
		require.True(t, s.ledger.Empty())
	}
	for _, sub := range m.subs {
		require.Equal(t, 1, m.answered(sub), "exactly one answer")
		if m.missed(sub) {
			require.NotNil(t, sub.Call.Request.SLO.TTFT)
			m.did["slo missed"]++
		}
		if m.neverShed(sub) {
			m.did["waited too long"]++
		}
		if _, ok := m.told[sub.Call][len(m.told[sub.Call])-1].(stream.Placed); ok {
			m.did["placed"]++
			if sub.Hedge {
				m.did["hedge placed"]++
			}
		} else if sub.Hedge {
			m.did["hedge declined"]++
		}
	}
	m.did["placed from the queue"] += queued
	m.did["given back"] += m.back
	m.did["reranked"] += m.ranks
	m.did["rejected"] += len(m.kinds)
}
