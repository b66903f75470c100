package replica

import "time"

// ramp limits a replica that has become ready: a cold or a sick one shows itself on a few requests, not on all that wait.
type ramp struct {
	seats int
	full  *time.Time // when all seats are open; nil before its first token
}

// rampStep is by how many seats the quota grows with each first token: the request that has got it keeps its seat while it
// decodes, and two may prefill in its place.
const rampStep = 2

// newRamp returns nil where the first quota is all there is.
func (m *machine) newRamp() *ramp {
	if m.cfg.RampSeats >= m.limits.Seats {
		return nil
	}
	return &ramp{seats: m.cfg.RampSeats}
}

// halfOpen lets one request see whether a replica that shed takes work again.
func (m *machine) halfOpen() *ramp {
	seats := m.ledger.Load().SeatsBooked + 1
	if seats >= m.limits.Seats || m.ramp != nil && m.ramp.seats <= seats {
		return m.ramp
	}
	return &ramp{seats: seats}
}

// quota is how many seats may be booked; nil: all.
func (r *ramp) quota() *int {
	if r == nil {
		return nil
	}
	seats := r.seats
	return &seats
}

// climb notes a first token. True: there is more room than before.
func (m *machine) climb(now time.Time) bool {
	if m.ramp == nil {
		return false
	}
	next := *m.ramp
	next.seats += rampStep
	if next.full == nil {
		full := now.Add(m.cfg.RampTime)
		next.full = &full
	}
	m.ramp = &next
	if next.seats >= m.limits.Seats {
		m.ramp = nil
	}
	return true
}

// crest ends the ramp when its time is up.
func (m *machine) crest(now time.Time) {
	if m.ramp == nil || m.ramp.full == nil || now.Before(*m.ramp.full) {
		return
	}
	m.ramp = nil
	m.emit(publish{room: true})
}
