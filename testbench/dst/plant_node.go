package dst

import (
	"plimsoll/actors/fleet"
	"plimsoll/actors/replica"
)

func nodePlants() []Plant {
	return []Plant{
		{Name: "an order before its actor", Catches: Orders, node: func(n *node) fleet.Shell { return hurried{n} }},
		{Name: "the last one drains", Catches: Orders, replica: func(h *host) replica.Shell { return lonely{h} }},
		{Name: "calls found by their clients' names", Catches: Orders, clientsNames: true},
	}
}

// hurried gives orders to nobody whose actor has not begun.
type hurried struct{ *node }

// Tell implements fleet.Shell.
func (h hurried) Tell(ref *fleet.Ref, order any) {
	if h.w.hostOf(ref).m != nil {
		h.node.Tell(ref, order)
	}
}

// lonely knows of no other replica.
type lonely struct{ *host }

// Others implements replica.Shell.
func (lonely) Others() []*fleet.Ref { return nil }
