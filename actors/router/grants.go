package router

import (
	"slices"

	"plimsoll/actors/fleet"
	"plimsoll/scoring"
)

// grants are the tickets that replicas have granted and that nobody has been told of: their calls don't know them, so that
// they can't announce or end them, and the next instance of a router that fails has never heard of them. The shell keeps
// them, not the machine, and gives them back then.
type grants map[scoring.Ticket]scoring.ReplicaID

// heard notes a grant that the machine has taken: not one of a replica that has left, which has no ledger.
func (g grants) heard(message any, refs []*fleet.Ref) {
	m, ok := message.(*fleet.Granted)
	if ok && slices.ContainsFunc(refs, func(r *fleet.Ref) bool { return r.ID == m.Replica }) {
		g[m.Ticket] = m.Replica
	}
}

// told notes what an effect has passed on.
func (g grants) told(e effect) {
	switch e := e.(type) {
	case placed:
		for i := range e.by.placed {
			delete(g, e.by.placed[i].Claim.Ticket)
		}
	case giveBack:
		delete(g, e.ticket)
	}
}

// lost are the grants that go with an instance that failed at a message, in order. Nothing is cached any more on their
// account.
func (g grants) lost(message any, refs []*fleet.Ref) []giveBack {
	g.heard(message, refs)
	var out []giveBack
	for ticket, id := range g {
		if at := slices.IndexFunc(refs, func(r *fleet.Ref) bool { return r.ID == id }); at >= 0 {
			if p := refs[at].Place(); p != nil {
				p.Index.Withdraw(p.Slot, ticket)
			}
			out = append(out, giveBack{refs[at], ticket})
		}
	}
	clear(g)
	slices.SortFunc(out, func(a, b giveBack) int { return a.ticket.Compare(b.ticket) })
	return out
}
