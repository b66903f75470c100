package router

import (
	"time"

	"plimsoll/actors/replica"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
)

// speculated is a prompt that counts as cached on a replica, on behalf of a ticket.
type speculated struct {
	place  *replica.Place
	ticket scoring.Ticket
	keys   []prefix.Key
	until  time.Time
}

func (s speculated) tell() { s.place.Index.Speculate(s.place.Slot, s.ticket, s.keys, s.until) }

// speculate counts a prompt as cached where it is to go, until the engine says so itself: the next look-up sees it, but the
// reservation is on its way before the index is written, which takes a while for a long prompt. It is withdrawn if the place is
// refused, or the attempt fails before its first token. Where every request has blocks of its own, one that runs serves no other.
func (m *machine) speculate(now time.Time, a *asked, vs []view) {
	v := find(vs, a.place.Ref.ID)
	if v == nil || v.place == nil || v.place.Incarnation != a.place.Incarnation ||
		v.ref.Capabilities.Sharing == engine.SharingNever {
		return
	}
	keys := a.by.entry.keysFor(m.cfg.Model, a.prompt, v.place.BlockTokens)
	m.unsaid = append(m.unsaid, speculated{v.place, a.place.Claim.Ticket, keys, now.Add(m.cfg.SpeculationTTL)})
	m.note(keys)
}

// writeSpeculated writes into the indexes what this step has speculated so far.
func (m *machine) writeSpeculated() { m.passOn(speculated.tell) }

// emitSpeculated hands on what is not written yet, to be written after all else is done.
func (m *machine) emitSpeculated() { m.passOn(func(s speculated) { m.emit(s) }) }

func (m *machine) passOn(to func(speculated)) {
	for _, s := range m.unsaid {
		to(s)
	}
	clear(m.unsaid)
	m.unsaid = m.unsaid[:0]
}

// rode notes a prompt that has got its place, for those that wait and share its beginning.
func (m *machine) rode(e *entry, p stream.Placement, vs []view) {
	v := find(vs, p.Ref.ID)
	if v == nil || v.place == nil {
		return
	}
	for _, a := range e.sub.Legs {
		if a.Leg == p.Leg {
			m.note(e.keysFor(m.cfg.Model, a.Prompt, v.place.BlockTokens))
		}
	}
}

func withdrawSpeculation(vs []view, id scoring.ReplicaID, t scoring.Ticket) {
	if v := find(vs, id); v != nil && v.place != nil {
		v.place.Index.Withdraw(v.place.Slot, t)
	}
}
