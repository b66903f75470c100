package router

import (
	"time"

	"plimsoll/actors/explain"
	"plimsoll/actors/stream"
	"plimsoll/scoring/policy"
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

// traceWithdrawn notes a submission that was taken back.
func (m *machine) traceWithdrawn(e *entry) {
	if m.trace != nil {
		m.trace.Withdrawn(m.now, uint64(e.id))
	}
}

// suppose decides for a request that there is not, into the trace. It draws at most numbers that break ties.
func (m *machine) suppose(now time.Time, s *Suppose, vs []view) {
	sub := &stream.Submit{Call: &stream.Call{Request: s.Request}, Arrival: now, Prompts: s.Prompts, Legs: []stream.Ask{{}}}
	e := newEntry(0, sub)
	m.settle(vs)
	m.look(now, vs)
	if m.pass.changed {
		m.due = true // the next pump looks at all that waits, as it would have for that change
	}
	m.know(now, e, vs)
	ask := sub.Legs[0]
	plan := m.plan(e, ask)
	d := m.demand(e, ask, &plan, vs)
	fits := m.fits(now, e, ask, &plan, vs, nil)
	values := m.trace.Values(m.policy, &m.pass.pass, d, fits)
	subject := subjectOf(e, 0)
	subject.Kind = explain.Asked
	m.trace.Decided(subject, m.policy, &m.pass.pass, d, fits, values, m.policy.Decide(d, fits))
}
