package router

import (
	"errors"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/scoring/prefix"
	"plimsoll/scoring/queue"
	"plimsoll/scoring/slo"
)

// recheck is how long a decision to hold stands at most if nothing is heard of any replica: prefixes that engines have
// cached meanwhile, and shorter answers expected, make room that nobody reports.
const recheck = time.Second

// freshMax bounds what is noted between two pumps.
const freshMax = 1024

// note remembers what was dispatched. What is too much to be noted changes what is known of all prompts.
func (m *machine) note(keys []prefix.Key) {
	if len(keys) == 0 {
		return
	}
	if len(m.fresh) >= freshMax {
		clear(m.fresh)
		m.pass.generation++
	}
	if m.fresh == nil {
		m.fresh = map[prefix.Key]struct{}{}
	}
	m.fresh[keys[0]] = struct{}{}
}

// pump tries the waiting requests in order. One that is not placed lets others pass; what they bring to a replica may be what
// one before them has in common with them, and then all are tried once more.
func (m *machine) pump(now time.Time, vs []view) {
	if m.waiting.Len() == 0 {
		return
	}
	m.retry(now.Add(recheck))
	for again := true; again; {
		m.look(now, vs)
		wake, idle := m.policy.Idle()
		if idle && !m.pass.changed && !m.due && (now.Before(m.bound) || !m.pass.pass.AnyRoom()) {
			m.retry(wake)
			return
		}
		m.due, m.pass.changed = false, false
		again = m.scan(now, vs) && m.waiting.Len() > 0
	}
	clear(m.fresh)
}

// scan goes through the queue once and reports whether somebody was placed.
func (m *machine) scan(now time.Time, vs []view) (placed bool) {
	waiting := m.waiting.Len()
	m.bound = now.Add(recheck)
	_, last := m.waiting.Span()
	m.waiting.Scan(now, m.cfg.ScanMax, func(q queue.Entry[*entry]) queue.Visit {
		e := q.Item
		if now.Before(e.rests) {
			m.retry(e.rests)
			if q.Class < last {
				m.keep(now, e, aim{at: nowhere}, vs)
			}
			return queue.Keep
		}
		if m.place(now, e, vs) {
			m.dequeued(e)
			if m.byCall[e.sub.Call] == nil {
				return queue.Drop // it was turned away
			}
			return queue.Take
		}
		m.patient(now, e)
		if q.Class < last {
			m.keep(now, e, m.scratch.aim, vs)
		}
		return queue.Keep
	})
	return m.waiting.Len() < waiting
}

// patient notes until when a waiting request may be held for a better replica.
func (m *machine) patient(now time.Time, e *entry) {
	if e.bound.Before(m.bound) {
		m.bound = e.bound
	}
	if now.Before(e.bound) {
		m.retry(e.bound)
	}
}

// tick deals with all whose time is up, and decides anew for all that waits if it is time for that.
func (m *machine) tick(now time.Time, vs []view) {
	if !m.retryAt.IsZero() && !now.Before(m.retryAt) {
		m.retryAt, m.due = time.Time{}, true
	}
	m.unanswered(now, vs)
	m.resumed.expire(now)
	m.pump(now, vs)
	for len(m.deadlines.items) > 0 {
		e := m.deadlines.items[0]
		if now.Before(e.deadline) {
			return
		}
		if now.Before(e.patience) {
			m.shed(now, e, vs)
			continue
		}
		m.leaveQueue(e)
		if !m.place(now, e, vs) {
			m.reject(e, m.late(now, e, vs))
		}
	}
}

// retry asks for a tick at a time at the latest.
func (m *machine) retry(at time.Time) {
	if m.retryAt.IsZero() || at.Before(m.retryAt) {
		m.retryAt = at
	}
}

// enqueue lets an entry wait; false: it is rejected.
func (m *machine) enqueue(now time.Time, e *entry, head bool, vs []view) bool {
	var err error
	if q := e.queued(m.cfg.TenantWeights); head {
		err = m.waiting.PushHead(q, e.place())
	} else {
		err = m.waiting.Push(q)
	}
	if err != nil {
		m.reject(e, m.full(now, e, err, vs))
		return false
	}
	m.queuedAs[e.sub.Call] = e
	m.traceQueued(e)
	e.deadline = e.patience
	if e.aims() {
		e.deadline = m.until(e, e.leastPrefill)
	}
	m.deadlines.push(e)
	m.queued = m.queued.Plus(e.takes())
	m.retry(e.bound)
	if e.bound.Before(m.bound) {
		m.bound = e.bound
	}
	return true
}

// full turns an entry away that the queue did not take.
func (m *machine) full(now time.Time, e *entry, err error, vs []view) *turned {
	var full *queue.FullError
	if !errors.As(err, &full) {
		return &turned{fault.Defect, &fault.Fault{Kind: fault.Internal, Message: "internal error", Err: err}}
	}
	wait := m.retryAfter(now, e, vs)
	return &turned{fault.QueueFull, contended(wait, "all replicas are busy and the queue is full (%d %s); try again later", full.Max, full.Bound)}
}

// leaveQueue takes an entry out of the queue.
func (m *machine) leaveQueue(e *entry) {
	m.waiting.Remove(e.id)
	m.dequeued(e)
	if _, last := m.waiting.Span(); e.sub.Call.Request.Class < last {
		m.lifted = true
	}
}

// dequeued forgets an entry that has left the queue.
func (m *machine) dequeued(e *entry) {
	delete(m.queuedAs, e.sub.Call)
	m.deadlines.remove(e.due)
	if m.queued = m.queued.Minus(e.takes()); m.waiting.Len() == 0 {
		m.queued = slo.Ahead{} // no rest of what was added and taken off
	}
}

// nextTick is when the machine wants a tick: the first reservation overdue, the time to decide anew, or the first deadline
// in the queue.
func (m *machine) nextTick() (time.Time, bool) {
	var at time.Time
	ok := false
	sooner := func(t time.Time) {
		if !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	if first := m.open.first; first != nil {
		sooner(first.overdue)
	}
	if m.waiting.Len() > 0 {
		sooner(m.deadlines.items[0].deadline)
		if !m.retryAt.IsZero() {
			sooner(m.retryAt)
		}
	}
	return at, ok
}

func newDeadlines() indexed[*entry] {
	return indexed[*entry]{
		before: func(a, b *entry) bool { return a.deadline.Before(b.deadline) },
		moved:  func(e *entry, at int) { e.due = at },
	}
}
