package router

import (
	"time"

	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/scoring"
)

// speculate counts a prompt as cached where it is to go, until the engine says so itself: at once, so that a burst of equal
// prompts sees it. It is withdrawn if the place is refused, or the attempt fails before its first token. Where every request
// has blocks of its own, one that runs serves no other.
func (m *machine) speculate(now time.Time, a *asked, vs []view) {
	v := find(vs, a.place.Ref.ID)
	if v == nil || v.place == nil || v.place.Incarnation != a.place.Incarnation ||
		v.ref.Capabilities.Sharing == engine.SharingNever {
		return
	}
	keys := a.by.entry.keysFor(m.cfg.Model, a.prompt, v.place.BlockTokens)
	v.place.Index.Speculate(v.place.Slot, a.place.Claim.Ticket, keys, now.Add(m.cfg.SpeculationTTL))
	m.note(keys)
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
