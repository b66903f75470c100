package dst

import (
	"slices"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/router"
	"plimsoll/engine"
)

// Bounds of the liveness phase.
const (
	// readyWithin is how long a replica may take after the heal: a probe that waits for an answer, 1.2 times the longest pause
	// between probes, and the wait for the cache feed and the announcements.
	readyWithin = 2*time.Second + 6*time.Second + 2*time.Second + 2*time.Second
	// trustedWithin is the same for one that has refused us: it is left alone for up to that long.
	trustedWithin = readyWithin + 36*time.Second
	// quietWithin is how long everything may take to be over after that.
	quietWithin = 40 * time.Second
)

// phase goes from trouble to heal, from there to a last wave of requests, and looks whether all goes well.
func (w *world) phase() {
	if w.healed == none {
		if w.now >= w.plan.safety {
			w.heal()
		}
		return
	}
	ready := true
	for _, h := range w.present() {
		if h.drained || h.readyAt != none {
			continue
		}
		ready = false
		bound := readyWithin
		if h.distrusted {
			bound = trustedWithin
		}
		if w.now-w.healed > bound {
			s := h.ref.Snapshot()
			w.violate(Live, "%s is %s %s after the heal (recovering: %t): %s", h.id, s.State, w.now-w.healed, s.Recovering, s.LastError)
		}
	}
	if ready && !w.waved && w.now-w.healed > 4*time.Second && w.callsOver() && w.fleetEmpty() && !w.cools() {
		w.wave()
	}
	if w.waved && w.now-w.wavedAt > quietWithin || w.now-w.healed > trustedWithin+2*quietWithin {
		w.settled(true)
	}
}

// waveTokens is how long the answers of the last wave are: they take longer than a request is held for a better replica, so that
// those that wait go to one that seems slow, too.
const waveTokens = 160

// wave sends as many requests at once as there are seats: every replica must serve some.
func (w *world) wave() {
	w.waved, w.wavedAt = true, w.now
	seats := 0
	for _, h := range w.present() {
		h.served = 0
		if !h.drained {
			seats += h.p.cfg.Seats
		}
	}
	for range seats {
		c := w.newCall(true)
		c.req.MaxTokens = new(waveTokens)
		w.in(w.between(0, 2*time.Millisecond), evCall).call = c
	}
}

// fleetEmpty says whether nothing is booked anywhere: what lingers takes seats.
func (w *world) fleetEmpty() bool {
	return !slices.ContainsFunc(w.present(), func(h *host) bool { return !h.m.Empty() })
}

func (w *world) callsOver() bool {
	if len(w.calls) < w.callsMade {
		return false
	}
	for _, c := range w.calls {
		if !c.ended || len(c.open) > 0 {
			return false
		}
	}
	return true
}

// over says whether the run has come to its end, and looks at what is left then.
func (w *world) over() bool {
	if !w.waved || w.now-w.wavedAt < time.Second || !w.callsOver() {
		return false
	}
	return w.settled(false)
}

// settled looks whether nothing is left anywhere. At the last moment what is left is a violation.
func (w *world) settled(last bool) bool {
	complain := func(c Checker, format string, args ...any) bool {
		if last {
			w.violate(c, format, args...)
		}
		return false
	}
	for _, c := range w.calls {
		if !c.ended {
			return complain(Outcome, "call %d has not ended", c.n)
		}
		if len(c.open) > 0 {
			return complain(Zero, "call %d: attempt %d has not returned", c.n, c.open[0].id)
		}
	}
	if r := w.router.m.Residue(); r != (router.Residue{}) || len(w.router.jobs) > 0 {
		return complain(Zero, "the router is left with %+v and %d jobs", r, len(w.router.jobs))
	}
	for _, h := range w.present() {
		if !h.m.Empty() {
			return complain(Zero, "%s has tickets left: %d reserved, %d running, %d lingering; suspect: %t, hung: %t, held: %t", h.id, h.ref.Snapshot().Load.Reserved, h.ref.Snapshot().Load.Running, h.ref.Snapshot().Load.Lingering, h.ref.Snapshot().Suspect, h.ref.Snapshot().Hung, h.ref.Snapshot().Held)
		}
		if len(h.books.live) > 0 {
			return complain(Zero, "%s has promised tickets that have not ended", h.id)
		}
		if s := h.p.m.Status(); s.Running+s.Waiting+s.UsedBlocks > 0 {
			return complain(Zero, "the engine of %s is left with %d sequences and %d blocks", h.id, s.Running+s.Waiting, s.UsedBlocks)
		}
	}
	if slices.ContainsFunc(w.hosts, func(h *host) bool { return !h.gone && h.drained }) && !last {
		return false // who is to leave may need a moment
	}
	w.checkOrders(last)
	for _, h := range w.present() {
		if !h.drained && h.ref.Capabilities.KVEvents && h.ref.Snapshot().State == fleet.Ready {
			if why := h.feed.waits(); why != "" {
				return complain(Index, "the index of %s is %s: %s", h.id, h.feed.state, why)
			}
		}
	}
	w.conclude()
	return true
}

// conclude looks at what can be told at the end only.
func (w *world) conclude() {
	for _, h := range w.present() {
		if h.drained || h.ref.Snapshot().State != fleet.Ready {
			continue
		}
		if h.served == 0 && w.wavedAt >= h.ejected {
			s := h.ref.Snapshot()
			w.violate(Live, "%s served nothing of the last wave: %d blocks, %d seats free, %d overdrawn, %d and %d foreign; suspect: %t, quota: %v, cools until %s",
				h.id, s.Load.FreeBlocks(), s.Load.FreeSeats(), s.Load.OverdraftBlocks, s.Load.ForeignBlocks, s.Load.ForeignSeats, s.Suspect, s.QuotaSeats, s.CoolingUntil.Sub(w.time()))
		}
		w.checkIndex(h)
	}
	for n := range w.tickets {
		if t := &w.tickets[n]; t.grants > 1 || t.releases > 1 {
			w.violate(Once, "ticket %d was granted %d times and ended %d times", n, t.grants, t.releases)
		}
	}
	for _, c := range w.calls {
		if c.fault != nil && c.inserted > w.healed+trustedWithin {
			w.violate(Live, "call %d, which came long after the heal, fails: %s", c.n, c.fault.Kind)
		}
	}
}

// faultKind is what a client may hear of a failure of an engine.
func faultKind(f *engine.Failure) fault.Kind {
	switch f.Kind {
	case engine.Shed:
		return fault.Contended
	case engine.Stalled:
		return fault.Deadline
	case engine.Client:
		return fault.EngineRefused
	case engine.Local:
		return fault.NoReplica
	case engine.Refused, engine.Broken, engine.Operator, engine.NumFailKinds:
	}
	return fault.EngineFailed
}
