package router

import (
	"math"
	"time"

	"plimsoll/actors/explain"
	"plimsoll/actors/stream"
	"plimsoll/scoring/policy"
	"plimsoll/scoring/queue"
	"plimsoll/scoring/slo"
)

// noted is what was noted last of a leg's decisions: that it is held, for this cause and this replica. next is that of another leg.
type noted struct {
	leg   int
	cause policy.Cause
	aim   int
	next  *noted
}

// Suppose asks what would be decided for a request that there is not: nothing is booked, counted or learned on its account. Of
// several legs it is the first. From the system; answered once on Reply.
type Suppose struct {
	Request *stream.Request
	Prompts []stream.Prompt
	Reply   chan<- *explain.Batch // of capacity 1; nil: the router failed at it
}

// answer replies once.
func (s *Suppose) answer(b *explain.Batch) {
	select {
	case s.Reply <- b:
	default:
	}
}

// traced decides and takes notes: of the first decision for a leg, of the one that ends its wait, and in between of every new
// cause of it. A policy's terms are asked for before it lets a request wait, which then counts as load; where they are not
// noted, they are not asked for: a pump decides for many.
func (m *machine) traced(e *entry, ask stream.Ask, d *policy.Demand, fits []policy.Fit) policy.Decision {
	p, subject := &m.pass.pass, subjectOf(e, ask.Leg)
	last, values := e.lastNoted(ask.Leg), 0
	if last == nil {
		values = m.trace.Values(m.policy, p, d, fits)
	}
	dec := m.policy.Decide(d, fits)
	aim, ok := dec.Aim()
	if !ok {
		aim = -1
	}
	switch {
	case last == nil:
		e.noted = &noted{ask.Leg, dec.Cause, aim, e.noted}
		m.trace.Decided(subject, m.policy, p, d, fits, values, dec)
		return dec
	case dec.Verdict != policy.Hold:
		m.trace.Decided(subject, m.policy, p, d, fits, m.trace.Values(m.policy, p, d, fits), dec)
	case last.cause != dec.Cause || last.aim != aim:
		m.trace.Held(subject, m.policy, p, dec)
	}
	last.cause, last.aim = dec.Cause, aim
	return dec
}

// traceDecided notes a decision with its table.
func (m *machine) traceDecided(e *entry, ask stream.Ask, d *policy.Demand, fits []policy.Fit, dec policy.Decision) {
	if m.trace != nil {
		values := m.trace.Values(m.policy, &m.pass.pass, d, fits)
		m.trace.Decided(subjectOf(e, ask.Leg), m.policy, &m.pass.pass, d, fits, values, dec)
	}
}

// traceTurned notes that an entry is turned away for a cause that is no policy's, with what the replicas would give its first leg.
func (m *machine) traceTurned(now time.Time, e *entry, cause policy.Cause, retryAfter time.Duration, vs []view) {
	if m.trace == nil {
		return
	}
	m.ready(now, vs)
	ask := e.legs()[0]
	_, d, fits := m.prepare(now, e, ask, vs, nil)
	m.traceDecided(e, ask, d, fits, policy.Decision{Verdict: policy.Refuse, Cause: cause, RetryAfter: retryAfter})
}

// lastNoted is what was noted last of a leg; nil: nothing.
func (e *entry) lastNoted(leg int) *noted {
	n := e.noted
	for n != nil && n.leg != leg {
		n = n.next
	}
	return n
}

// subjectOf names a leg to those who read the notes.
func subjectOf(e *entry, leg int) explain.Subject {
	kind := explain.Fresh
	switch {
	case e.supposed:
		kind = explain.Asked
	case e.sub.Hedge:
		kind = explain.Hedge
	case e.sub.Begun:
		kind = explain.Resumed
	case e.sub.Again:
		kind = explain.Again
	}
	return explain.Subject{Entry: uint64(e.id), Leg: leg, Request: e.sub.Call.Request.ID, Kind: kind}
}

// traceQueued notes a submission that has taken its place in the queue.
func (m *machine) traceQueued(e *entry) {
	for _, ask := range e.legs() {
		m.trace.Queued(m.now, subjectOf(e, ask.Leg), e.promptTokens(ask), m.waiting.Len()-1)
	}
}

// supposedID is that of an entry that there is not: it comes after all others.
const supposedID = queue.ID(math.MaxUint64)

// suppose decides for a request that there is not, into the trace. It draws at most numbers that break ties or spread retries.
func (m *machine) suppose(now time.Time, s *Suppose, vs []view) {
	sub := &stream.Submit{Call: &stream.Call{Request: s.Request}, Arrival: now, Prompts: s.Prompts, Legs: []stream.Ask{{}}}
	e := newEntry(supposedID, sub)
	e.came, e.supposed = now, true
	m.settle(vs)
	m.look(now, vs)
	if m.pass.changed {
		m.due = true // the next pump looks at all that waits, as it would have for that change
	}
	m.know(now, e, vs)
	if away := m.supposed(now, e, vs); away != nil {
		m.trace.Rejected(now, subjectOf(e, 0), e.tokens(), away.fault.Message)
	}
}

// supposed goes the way of a newcomer, up to where it would take a place in the queue or on a replica: see admit.
func (m *machine) supposed(now time.Time, e *entry, vs []view) *turned {
	if away := m.outOfBounds(now, e, vs); away != nil {
		m.traceTurned(now, e, policy.TooLarge, 0, vs)
		return away
	}
	if away := m.tooSlow(now, e, vs); away != nil {
		return away
	}
	var ahead slo.Ahead
	if m.waiting.Len() > 0 {
		if away := m.useless(now, e, vs); away != nil {
			return away
		}
		if err := m.waiting.Push(e.queued(m.cfg.TenantWeights)); err != nil {
			away := m.full(now, e, err, vs)
			m.traceTurned(now, e, policy.NoRoom, away.fault.RetryAfter, vs)
			return away
		}
		ahead = m.ahead(now, e)
		m.waiting.Remove(e.id)
	}
	if e.aims() {
		if away := m.hopeless(now, e, ahead, vs); away != nil {
			return away
		}
	}
	m.keepBefore(now, e, vs)
	m.serve(now, e)
	ask := e.legs()[0]
	_, d, fits := m.prepare(now, e, ask, vs, nil)
	values := m.trace.Values(m.policy, &m.pass.pass, d, fits)
	dec := m.policy.Decide(d, fits)
	m.trace.Decided(subjectOf(e, 0), m.policy, &m.pass.pass, d, fits, values, dec)
	switch {
	case dec.Verdict == policy.Refuse:
		return m.refused(now, e, ask, dec, vs)
	case dec.Verdict == policy.Dispatch && e.aims():
		return m.tooLate(now, e, m.firstIn(now, d, dec.Index), vs)
	}
	return nil
}
