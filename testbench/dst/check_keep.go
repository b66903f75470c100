package dst

import (
	"slices"

	"plimsoll/actors/fleet"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/prefix"
)

// underWay are the seats that this instance of the router has asked a replica for and its snapshot does not show.
func (w *world) underWay(h *host, snap *fleet.Snapshot) (seats int) {
	for n, t := range slices.Backward(w.tickets) {
		if t.host != nil && w.now-t.reserved > w.plan.router.ReserveWait {
			break
		}
		if t.host == h && t.epoch == w.router.epoch && !t.answered && uint64(n) > snap.Answered.Number { //nolint:gosec // an index
			seats++
		}
	}
	return seats
}

// checkRamp looks whether a replica that ramps up is asked for more than its quota, while there is somebody to take the rest.
func (w *world) checkRamp(h *host, claim *ledger.Claim) {
	snap := h.ref.Snapshot()
	if snap.QuotaSeats == nil || snap.State != fleet.Ready {
		return
	}
	others := slices.ContainsFunc(w.fleet(), func(r *fleet.Ref) bool {
		s := r.Snapshot()
		return s.State.Routable() && (s.QuotaSeats == nil || s.Load.SeatsBooked+w.underWay(w.hostOf(r), s) < *s.QuotaSeats)
	})
	if seats := snap.Load.SeatsBooked + w.underWay(h, snap) + claim.Seats; others && seats > *snap.QuotaSeats {
		w.violate(Grant, "%s ramps up to %d seats and is asked for %d, and others have room", h.id, *snap.QuotaSeats, seats)
	}
}

// Room that is kept.
//
// Who waits for room in a class is to get it in bounded time, whatever comes in lower ones: on one replica, that he waits for or that
// lacks the least, what is free is kept from those until it is enough. Which one that is the messages do not tell. But if in one step
// of the router they have taken part of every one that could be it, and none of these had enough for him, nothing was kept.

// robbed is what those of lower classes have taken in a step of the router.
type robbed struct {
	step  uint64
	hosts []*host
}

// checkKept looks at a place that somebody takes before one who came with a higher class, and does not fit there.
func (w *world) checkKept(c *call, h *host, rank int) {
	if w.robbed.step != w.router.steps {
		w.robbed = robbed{step: w.router.steps}
	}
	waiting := 0
	for _, o := range w.calls {
		if o.turn.sub != nil {
			waiting++
		}
	}
	if waiting > w.plan.router.ScanMax || slices.ContainsFunc(w.present(), func(h *host) bool { return h.ref.Snapshot().QuotaSeats != nil }) {
		return // not all of them are looked at, or what each may have changes with every place
	}
	if c.turn.sub.Begun || c.turn.sub.Again || c.turn.sub.Hedge {
		return
	}
	w.robbed.hosts = append(w.robbed.hosts, h)
	for _, o := range w.calls {
		if o == c || !o.inLine() || int(o.req.Class) >= rank || len(o.legs) > 1 || len(o.turn.sub.Legs[0].Excluded) > 0 || o.turn.came >= w.now {
			continue
		}
		could, kept := 0, false
		for _, x := range w.present() {
			if !w.mayKeep(x, o) {
				continue
			}
			could++
			kept = kept || !slices.Contains(w.robbed.hosts, x) || w.free(x) >= o.leastBlocks(x)
		}
		if could > 0 && !kept && w.mayKeep(h, o) {
			w.violate(Class, "call %d of class %d takes what is free on %s from call %d, which came with class %d, waits for room, and finds none kept anywhere", c.n, rank, h.id, o.n, o.req.Class)
			return
		}
	}
}

// mayKeep says whether room may be kept on a replica for a call that waits: whether it could take it when it is empty.
func (w *world) mayKeep(h *host, c *call) bool {
	s := h.ref.Snapshot()
	return w.inFleet(h) && s.State.Routable() && w.holds(h, c, 0)
}

// free is how many blocks of a replica are free before the place in hand is taken, at most.
func (w *world) free(h *host) scoring.Blocks {
	load := h.ref.Snapshot().Load
	return load.UsableBlocks() - load.BookedBlocks
}

// leastBlocks is what a call needs on a replica at least: all that may be pinned there may be shared.
func (c *call) leastBlocks(h *host) scoring.Blocks {
	limits := h.ref.Snapshot().Load.Limits
	need := scoring.Tokens(c.length(0) + max(1, c.req.MinTokens)).Blocks(limits.BlockTokens)
	pins := h.books.pins
	for _, k := range prefix.AppendKeys(nil, prefix.Namespace{Model: modelName, Salt: c.req.CacheSalt}.Seed(), c.ids[0], int(limits.BlockTokens)) {
		if pins[k] == 0 {
			break
		}
		need--
	}
	return need
}
