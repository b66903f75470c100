package router

import (
	"time"

	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/policy"
)

// book counts a reservation before it is answered, so that the next decision sees it.
func (m *machine) book(now time.Time, by *asking, ask stream.Ask, plan *ledger.Plan, d *policy.Demand, i int, vs []view, chosen []*asked) *asked {
	e, v, fit := by.entry, &vs[i], &m.scratch.fits[i]
	claim := m.claim(e, ask, *plan, fit, v)
	claim.Ticket = m.newTicket()
	a := m.spare.asked.take()
	a.by, a.at, a.prompt, a.need, a.booked = by, i, ask.Prompt, fit.NeedBlocks, true
	a.place = stream.Placement{
		Leg: ask.Leg, Claim: claim, Ref: v.ref, Incarnation: v.snap.Incarnation, EngineModel: v.snap.EngineModel,
		Several:     m.uses.see(now, e.sub.Call.Request),
		BlockTokens: v.snap.Load.Limits.BlockTokens, LongestTokens: v.snap.Load.Limits.SequenceTokens,
		MaxTokens: int(claim.SequenceTokens - claim.PromptTokens), OverlapTokens: m.hit(e, ask, i, vs, chosen), Step: v.snap.StepP99,
	}
	b := m.booked[v.ref.ID]
	if b == nil {
		b = m.spare.bookings.take()
		m.booked[v.ref.ID] = b
	}
	b.asked.add(a)
	b.add(a, 1)
	if ask.Produced > 0 {
		m.resumed.begin(now, &a.place)
	}
	m.rebooked(now, i, vs)
	m.policy.OnDispatch(d, m.scratch.fits, i)
	m.trace.Dispatched(i)
	return a
}

// add counts a reservation, or takes it off.
func (b *booking) add(a *asked, sign int) {
	n := scoring.Tokens(sign)
	b.pending.Requests += sign
	b.pending.PromptTokens += n * a.place.Claim.PromptTokens
	b.pending.PrefillTokens += n * a.place.Claim.PrefillTokens
	b.pending.OutputTokens += n * a.place.Claim.ExpectedOutputTokens
	b.blocks += scoring.Blocks(sign) * a.need
	b.seats += sign * a.place.Claim.Seats
}

// unbook takes a reservation off what is counted, if it still is.
func (m *machine) unbook(a *asked) {
	if !a.booked {
		return
	}
	a.booked = false
	id := a.place.Ref.ID
	b := m.booked[id]
	b.asked.remove(a)
	b.add(a, -1)
	if b.pending.Requests == 0 {
		delete(m.booked, id)
		m.spare.bookings.give(b)
	}
}

// settle takes off what snapshots show by now. Answers queue up behind other messages; counting a reservation twice until
// its answer is read would make replicas that are quick to answer seem busier than others.
func (m *machine) settle(vs []view) {
	for id, b := range m.booked {
		v := find(vs, id)
		if v == nil {
			continue
		}
		for a := b.asked.first; a != nil && shown(a.place.Claim.Ticket, v.snap.Answered); a = b.asked.first {
			m.unbook(a)
		}
	}
}

// shown says whether a snapshot that names the last answered reservation shows what became of an earlier one.
func shown(ticket, answered scoring.Ticket) bool {
	return ticket.Boot == answered.Boot && ticket.Number <= answered.Number
}
