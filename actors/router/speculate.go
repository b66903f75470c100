package router

import (
	"time"

	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/scoring"
)

// tellIndex counts a reservation's prompt as cached.
func (a *asked) tellIndex() {
	a.cached.in.Index.Speculate(a.cached.in.Slot, a.place.Claim.Ticket, a.cached.keys, a.cached.until)
}

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
	a.cached.in, a.cached.keys, a.cached.until = v.place, keys, now.Add(m.cfg.SpeculationTTL)
	m.unsaid = append(m.unsaid, a)
	m.note(keys)
}

// writeSpeculated writes into the indexes what this step has speculated so far.
func (m *machine) writeSpeculated() { m.passOn((*asked).tellIndex) }

// emitSpeculated hands on what is not written yet, to be written after all else is done.
func (m *machine) emitSpeculated() { m.passOn(func(a *asked) { m.emit(speculated{a}) }) }

func (m *machine) passOn(to func(*asked)) {
	for _, a := range m.unsaid {
		to(a)
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
