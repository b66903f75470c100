package router

import (
	"errors"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/replica"
	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
	"plimsoll/scoring/queue"
)

// recheck is how long a decision to hold stands at most if nothing is heard of any replica: prefixes that engines have
// cached meanwhile, and shorter answers expected, make room that nobody reports.
const recheck = time.Second

// pumped is what the last pump saw. Deciding anew for every waiting request at every sign of room would cost a busy router
// most of its time; for most of them a glance shows that nothing has changed.
type pumped struct {
	fleet []standing // each replica as it stood
	// fresh are the first blocks of prompts dispatched since: who shares one may need less room than it did.
	fresh map[prefix.Key]struct{}
}

// standing is what of a replica, apart from its room, decides whether a request may go there.
type standing struct {
	epoch, incarnation uint64
	limits             scoring.Limits
	state              replica.State
	told, recovering   bool
	suspect, ejected   bool
	quota              int // -1: none
}

// freshMax bounds what is noted between two pumps.
const freshMax = 1024

func (p *pumped) rode(keys []prefix.Key) {
	if len(keys) == 0 || len(p.fresh) >= freshMax {
		return
	}
	if p.fresh == nil {
		p.fresh = map[prefix.Key]struct{}{}
	}
	p.fresh[keys[0]] = struct{}{}
}

// survey is what a pump needs to know of the fleet.
type survey struct {
	changed bool           // a replica stands otherwise than at the last pump: every decision may be another one
	most    scoring.Blocks // the most blocks that a replica with a free seat has free; 0 if none has
}

// survey looks at the fleet, and remembers it for the next time.
func (m *machine) survey(now time.Time, vs []view) survey {
	s := survey{changed: len(m.pumped.fleet) != len(vs)}
	if s.changed {
		m.pumped.fleet = make([]standing, len(vs))
	}
	for i := range vs {
		snap, b := vs[i].snap, m.pending(vs[i].ref.ID)
		st := standing{snap.Epoch, snap.Incarnation, snap.Load.Limits, snap.State, snap.Told, snap.Recovering, snap.Suspect, m.outliers.barred(now, vs[i].ref.ID, vs), -1}
		if snap.QuotaSeats != nil {
			st.quota = *snap.QuotaSeats
		}
		if st != m.pumped.fleet[i] {
			s.changed = true
			m.pumped.fleet[i] = st
		}
		shut := !st.state.Routable() || st.recovering || st.suspect || st.ejected || now.Before(snap.CoolingUntil) || snap.Load.Overdrawn()
		if shut || snap.Load.FreeSeats() <= b.seats {
			continue
		}
		s.most = max(s.most, snap.Load.FreeBlocks()-b.blocks)
	}
	return s
}

// pump tries the waiting requests in order. One that does not fit lets others pass; what they bring to a replica may be
// what one before them has in common with them, and then it is tried once more.
func (m *machine) pump(now time.Time, vs []view) {
	if m.waiting.Len() == 0 {
		return
	}
	m.retry(now.Add(recheck))
	for again := true; again; {
		var whole bool
		if again, whole = m.scan(now, vs, m.survey(now, vs)); !whole {
			return
		}
	}
	m.pumped.fresh = nil
}

// scan goes through the queue once. It reports whether somebody was placed, and whether it came to the end.
func (m *machine) scan(now time.Time, vs []view, s survey) (placed, whole bool) {
	whole = true
	m.waiting.Scan(now, m.cfg.ScanMax, func(q queue.Entry[*entry]) queue.Visit {
		e := q.Item
		if now.Before(e.rests) {
			m.retry(e.rests)
			return queue.Keep
		}
		if !s.changed {
			if s.most < 1 {
				whole = false
				return queue.Stop
			}
			if e.need > s.most && !e.sharesAny(m.pumped.fresh) {
				return queue.Keep // it needed more the last time, and nothing says that it needs less
			}
		}
		if !m.place(now, e, vs) {
			return queue.Keep
		}
		placed = true
		m.dequeued(e)
		s.most = m.survey(now, vs).most
		return queue.Take
	})
	return placed, whole
}

// tick deals with all whose time is up, and decides anew for all that waits if it is time for that.
func (m *machine) tick(now time.Time, vs []view) {
	if !m.retryAt.IsZero() && !now.Before(m.retryAt) {
		m.retryAt, m.pumped.fleet = time.Time{}, nil
	}
	m.unanswered(now, vs)
	m.resumed.expire(now)
	m.pump(now, vs)
	for len(m.deadlines.items) > 0 {
		e := m.deadlines.items[0]
		if now.Before(e.deadline) {
			return
		}
		m.waiting.Remove(e.id)
		m.dequeued(e)
		if !m.place(now, e, vs) {
			m.reject(e, m.late(e, vs))
		}
	}
}

// late is the fault of a request whose time in the queue is up.
func (m *machine) late(e *entry, vs []view) *fault.Fault {
	if e.sub.Begun {
		if last := e.sub.Legs[0].LastFault; last != nil {
			return last
		}
	}
	return contended(m.retryAfter(vs), "no replica had room within %s; try again later", m.cfg.QueueTimeout)
}

// retry asks for a tick at a time at the latest.
func (m *machine) retry(at time.Time) {
	if m.retryAt.IsZero() || at.Before(m.retryAt) {
		m.retryAt = at
	}
}

func (m *machine) enqueue(e *entry, head bool, vs []view) {
	var err error
	if q := e.queued(m.cfg.TenantWeights); head {
		err = m.waiting.PushHead(q, e.place())
	} else {
		err = m.waiting.Push(q)
	}
	if err != nil {
		var full *queue.FullError
		if errors.As(err, &full) {
			wait := m.retryAfter(vs)
			m.reject(e, contended(wait, "all replicas are busy and the queue is full (%d %s); try again later", full.Max, full.Bound))
			return
		}
		m.reject(e, &fault.Fault{Kind: fault.Internal, Message: "internal error", Err: err})
		return
	}
	m.queuedAs[e.sub.Call] = e
	m.deadlines.push(e)
}

// dequeued forgets an entry that has left the queue.
func (m *machine) dequeued(e *entry) {
	delete(m.queuedAs, e.sub.Call)
	m.deadlines.remove(e.due)
}

// retryAfter is about how long the queue needs, between a second and a minute, with some jitter so that refused clients
// do not come back together.
func (m *machine) retryAfter(vs []view) time.Duration {
	serving := 0
	for i := range vs {
		if vs[i].snap.State.Routable() {
			serving++
		}
	}
	seconds := m.learner.Rates("").PrefillSecondsPerToken * float64(m.waiting.Tokens()) / float64(max(1, serving))
	seconds = max(1, seconds) * (1 + 0.25*m.rng.Float64())
	return time.Duration(min(60, seconds) * float64(time.Second))
}

// nextTick is when the machine wants a tick: the first reservation overdue, the time to decide anew, or the first deadline
// in the queue.
func (m *machine) nextTick() (time.Time, bool) {
	at, ok := m.nextOverdue()
	sooner := func(t time.Time) {
		if !ok || t.Before(at) {
			at, ok = t, true
		}
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
