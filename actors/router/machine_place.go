package router

import (
	"time"

	"plimsoll/actors/stream"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/policy"
)

// know works out, once, what the order of the queue and the policy's patience need of an entry.
func (m *machine) know(now time.Time, e *entry, vs []view) {
	if e.known {
		return
	}
	m.ready(now, vs)
	e.known = true
	e.fcfs = m.pass.pass.FCFSSeconds()
	usual, _ := m.estimator.At(now, "")
	for _, ask := range e.legs() {
		plan, d, fits := m.prepare(now, e, ask, vs, nil)
		e.weigh(m.pass.pass.LeastPrefillSeconds(d, fits), leastBlocks(fits), usual, &plan)
	}
	e.leastPrefill = e.prefillSeconds / float64(len(e.legs()))
	plan := m.plan(e, e.legs()[0])
	d := m.demand(e, e.legs()[0], &plan, vs)
	e.bound = m.policy.Bound(d)
}

// useless turns an entry away that need not wait; nil: it may be served yet.
func (m *machine) useless(now time.Time, e *entry, vs []view) *turned {
	m.ready(now, vs)
	for _, ask := range e.legs() {
		_, d, fits := m.prepare(now, e, ask, vs, nil)
		if dec, ok := m.pass.pass.Hopeless(d, fits); ok {
			m.traceDecided(e, ask, d, fits, dec)
			return m.refused(now, e, ask, dec, vs)
		}
	}
	return nil
}

// place tries to reserve for every leg at once, the longest first; of a request that has begun for those legs that it can.
// True: the entry needs no queue place now.
func (m *machine) place(now time.Time, e *entry, vs []view) bool {
	m.ready(now, vs)
	m.know(now, e, vs)
	m.serve(now, e)
	m.scratch.aim = aim{at: nowhere}
	var by *asking // once it is needed
	chosen := m.scratch.chosen[:0]
	for _, ask := range e.legs() {
		plan, d, fits := m.prepare(now, e, ask, vs, chosen)
		dec := m.decide(e, ask, d, fits)
		if dec.Verdict == policy.Dispatch && e.stale(now) && m.overrated(now, e, ask, &plan, dec.Index, vs) {
			dec = m.decide(e, ask, d, m.scratch.fits)
		}
		if dec.Verdict == policy.Dispatch && e.aims() {
			if away := m.tooLate(now, e, m.firstIn(now, d, dec.Index), vs); away != nil {
				m.drop(now, chosen, vs)
				m.reject(e, away)
				return true
			}
		}
		if dec.Verdict == policy.Dispatch {
			if by == nil {
				by = m.spare.asking.take()
				by.entry = e
			}
			chosen = append(chosen, m.book(now, by, ask, &plan, d, dec.Index, vs, chosen))
			continue
		}
		if e.sub.Begun && dec.Verdict == policy.Refuse && dec.Cause != policy.TooLarge && (!ask.Lives || m.pass.pass.Hope(d, fits)) {
			// Whoever does not serve now may serve again before the wait is over.
			dec.Verdict, dec.Until = policy.Hold, now.Add(recheck)
		}
		if e.sub.Begun && dec.Verdict == policy.Hold && len(e.legs()) > 1 {
			m.retry(dec.Until)
			continue // the others need not wait for this one
		}
		if i, ok := dec.Aim(); ok {
			m.scratch.aim = aim{ask.Leg, i}
		}
		m.drop(now, chosen, vs)
		if e.sub.Hedge {
			return false
		}
		if dec.Verdict == policy.Hold {
			m.retry(dec.Until)
			return false
		}
		m.reject(e, m.refused(now, e, ask, dec, vs))
		return true
	}
	m.scratch.chosen = chosen
	if len(chosen) == 0 {
		return false
	}
	by.open = len(chosen)
	m.byCall[e.sub.Call] = by
	for _, a := range chosen {
		m.predict(now, a, vs)
		m.tickets[a.place.Claim.Ticket] = a
		m.speculate(now, a, vs)
		a.overdue = now.Add(m.cfg.ReserveWait)
		m.open.add(a)
		m.emit(reserve{a})
		m.trace.Reserving(now, subjectOf(e, a.place.Leg), a.place.Claim.Ticket, a.place.Ref.ID, a.place.Claim.PromptTokens)
	}
	return true
}

// drop gives up reservations that were not asked for yet.
func (m *machine) drop(now time.Time, chosen []*asked, vs []view) {
	for i, a := range chosen {
		m.unbook(a)
		m.rebooked(now, a.at, vs)
		m.policy.Look(a.at)
		m.resumed.end(a.place.Claim.Ticket)
		if i == 0 {
			m.spare.asking.give(a.by)
		}
		m.spare.asked.give(a)
	}
	m.scratch.chosen = chosen
}

// overrated looks a prompt up anew before it goes to a replica on what was known of it a moment ago. True: there is less there than
// that.
func (m *machine) overrated(now time.Time, e *entry, ask stream.Ask, plan *ledger.Plan, i int, vs []view) bool {
	before := m.scratch.fits[i]
	e.matched = time.Time{}
	after := m.fits(now, e, ask, plan, vs, nil)[i]
	return after.OverlapTokens < before.OverlapTokens || after.NeedBlocks > before.NeedBlocks
}

// decide asks the policy.
func (m *machine) decide(e *entry, ask stream.Ask, d *policy.Demand, fits []policy.Fit) policy.Decision {
	if m.trace != nil {
		return m.traced(e, ask, d, fits)
	}
	return m.policy.Decide(d, fits)
}
