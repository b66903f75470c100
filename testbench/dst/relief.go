package dst

import (
	"math/rand/v2"
	"slices"
	"time"

	"plimsoll/actors/fleet"
)

// relieve has operators, in a quarter of the seeds, add a replica and drain all others at once, which stay and are asked back after a while:
// the last one of them that serves puts its drain off until the new one does. These orders have a generator of their own.
func (w *world) relieve() {
	rng := rand.New(rand.NewPCG(w.cfg.Seed, 0x589965cc75374cc3))
	if rng.Float64() >= 0.25 {
		return
	}
	for range 1 + rng.IntN(2) {
		e := w.in(time.Duration(rng.Int64N(int64(w.plan.safety))), evOrder)
		e.fault, e.leave = Add, none
		if rng.Float64() < 0.7 {
			e.leave = time.Duration(rng.Int64N(int64(2 * time.Second)))
		}
		e.n = 20 + rng.Uint64N(1500) // milliseconds until they are asked back
	}
}

// relief adds a replica and drains the others.
func (w *world) relief(leave, span time.Duration) {
	others := w.present()
	if len(others) > 7 || w.healed != none {
		return
	}
	h := w.join()
	w.did(deed{fault: Add, host: h.n})
	w.note(noteFault, h.n, uint64(Add), 1)
	w.node.tell(addition{h})
	for _, o := range others {
		w.order(o, Drain, leave)
		back := w.in(span, evOrder)
		back.host, back.fault = o, Undrain
	}
}

// wants notes an order that has come to a replica's actor.
func (h *host) wants(message any) {
	switch m := message.(type) {
	case fleet.Drain:
		h.wanted = &m
	case fleet.Undrain:
		h.wanted = nil
	}
}

// putsOff counts an order to drain that has not begun to be carried out.
func (h *host) putsOff() {
	if !h.draining() && !h.gone {
		h.w.putOff++
	}
}

// leavesNobody looks, when a replica that served begins to drain, whether somebody else serves: it waits for one who will, as long as it may.
func (h *host) leavesNobody(from fleet.State) {
	w := h.w
	late := h.wanted != nil && h.wanted.Leave != nil && !w.time().Before(*h.wanted.Leave)
	if late || !from.Routable() && from != fleet.Warming {
		return
	}
	peers := fleet.Peers(w.fleet(), h.ref)
	serves := func(p fleet.Peer) bool { return p.Serves }
	rises := func(p fleet.Peer) bool { return p.Rises }
	if !slices.ContainsFunc(peers, serves) && slices.ContainsFunc(peers, rises) {
		w.violate(Orders, "%s drains, and nobody serves until another one is up that is on its way", h.id)
	}
}
