package replica

import (
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/scoring/ledger"
)

// signs are what the engine has shown of itself since something began to linger there: that its process is there, and that its
// core works. Tickets that linger count by them, because a process that is stopped lets go of nothing.
type signs struct {
	token   time.Time // the last one, or the beginning of the epoch: those from before it tell nothing new
	there   time.Time // a moment at which, or after which, the process was
	worked  time.Time // likewise, of its core
	runs    bool      // the last answer says that something runs there, and counts the core's steps
	silent  bool      // a probe was not answered, and nothing was heard of it since
	held    bool      // what lingers there is on hold
	hurried time.Time // the bound for whose end a probe was asked for
}

// unconfirmedMax bounds the lingering of a ticket whose engine confirms: an engine that hangs confirms when it goes on or
// dies, so this only ends what a fault of ours left behind.
const unconfirmedMax = time.Hour

func (m *machine) lingerUntil(now time.Time) time.Time {
	if m.caps.ConfirmsAbort {
		return now.Add(unconfirmedMax)
	}
	return now.Add(m.caps.LingerBound)
}

// linger books what an attempt holds that nobody waits for any more. Its ticket may be unknown: the request has told of the
// end before it was asked to announce the attempt.
func (m *machine) linger(now time.Time, a *fleet.Attempt) {
	t := a.Claim.Ticket
	if !m.ledger.Grow(t, a.Produced) && (m.foreign(a) || !m.ledger.Restore(now, a.Claim, ledger.Running, a.Produced)) {
		return
	}
	m.ledger.Linger(t, now, m.lingerUntil(now))
	m.emit(publish{})
}

// foreign says whether an attempt ran on another life of the engine.
func (m *machine) foreign(a *fleet.Attempt) bool {
	return a.Incarnation != m.life.incarnation && !a.Began.After(m.life.since)
}

// shown notes an answer: of some moment after at.
func (m *machine) shown(at time.Time) {
	m.signs.silent = false
	if at.After(m.signs.there) {
		m.signs.there = at
	}
}

// heard notes a token: of some moment before it was read.
func (m *machine) heard(at time.Time) {
	s := &m.signs
	if !at.After(s.token) {
		return
	}
	s.token = at
	m.shown(at)
	if worked := at.Add(-m.cfg.HangLeast); worked.After(s.worked) {
		s.worked = worked // it may have been on its way for a while
	}
}

// confirm ends what lingers on an engine that does not confirm aborts but whose figures show that it has let go: nothing runs
// or waits there. A server tells the figures of a core that hangs too, so they count if that has worked since.
func (m *machine) confirm(p Probed) {
	l := p.Status.Load
	if m.caps.ConfirmsAbort || l.RunningSequences == nil || *l.RunningSequences > 0 {
		return
	}
	if l.WaitingSequences != nil && *l.WaitingSequences > 0 {
		return
	}
	before := p.Began
	if m.signs.worked.Before(before) {
		before = m.signs.worked
	}
	m.ledger.Confirm(before)
}

// suspended says whether what lingers is on hold: the engine is thought to be stopped. Of a replica that only waits to be
// gone nothing is held back, because it will never grant anything again.
func (m *machine) suspended() bool {
	return (m.watch.phase >= suspect || m.signs.silent) && !m.leaves()
}

func (m *machine) leaves() bool { return m.state == fleet.Draining && !m.keep || m.state == fleet.Gone }

// expire ends what has lingered for as long as it may, by the last sign of the process. It follows every step.
func (m *machine) expire(now time.Time) {
	s := &m.signs
	if held := m.suspended(); held != s.held {
		s.held = held
		if !held {
			m.ledger.Postpone(m.lingerUntil(now))
		}
		m.emit(publish{})
	}
	if s.held {
		return
	}
	due, lingers := m.ledger.NextExpiry()
	if !lingers || now.Before(due) {
		return
	}
	by := s.there
	if stuck := s.worked.Add(m.caps.LingerBound); s.runs && stuck.Before(by) {
		by = stuck // it says that something runs there, and its core has finished nothing since
	}
	if m.leaves() {
		by = now
	}
	switch {
	case len(m.ledger.Expire(by)) > 0:
		m.freed(now)
	case !s.hurried.Equal(due):
		s.hurried = due
		m.emit(hurryProbe{})
	}
}

// nextExpire is when expire wants to be called.
func (m *machine) nextExpire() (time.Time, bool) {
	due, lingers := m.ledger.NextExpiry()
	return due, lingers && !m.signs.held && !m.signs.hurried.Equal(due)
}
