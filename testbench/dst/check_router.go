package dst

import (
	"slices"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/router"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
)

// withdrawn notes that a call has taken a submission back.
func (w *world) withdrawn(c *call, number uint64) {
	if c.taken == nil {
		c.taken = map[uint64]bool{}
	}
	c.taken[number] = false
}

// checkPlaced looks at what the router grants a call.
func (w *world) checkPlaced(c *call, m stream.Placed) {
	if c.taken[m.Number] {
		w.violate(Cancel, "call %d: submission %d is placed after it was withdrawn", c.n, m.Number)
	}
	w.checkHedgePlaced(c, m)
	seen := map[int]bool{}
	for i := range m.Placements {
		p := &m.Placements[i]
		number := p.Claim.Ticket.Number
		rec := w.ticket(number)
		if rec.grants == 0 || rec.releases > 0 {
			w.violate(Grant, "call %d is given ticket %d, granted %d times and ended %d times", c.n, number, rec.grants, rec.releases)
		}
		if rec.call != nil && rec.call != c {
			w.violate(Grant, "call %d is given ticket %d, which was asked for call %d", c.n, number, rec.call.n)
		}
		if seen[p.Leg] {
			w.violate(Outcome, "call %d: leg %d is placed twice", c.n, p.Leg)
		}
		seen[p.Leg] = true
		w.checkOverlap(c, m, p)
	}
}

// checkOverlap compares what was counted as cached with what the feed has said.
func (w *world) checkOverlap(c *call, m stream.Placed, p *stream.Placement) {
	h := w.hostOf(p.Ref)
	for i := range m.Placements {
		o := &m.Placements[i]
		if o.Leg != p.Leg && o.Ref == p.Ref && o.Leg/c.req.N == p.Leg/c.req.N && len(c.legs[o.Leg].got)+len(c.legs[p.Leg].got) == 0 {
			return // another leg brings the prompt there
		}
	}
	got := int(p.OverlapTokens) / blockTokens
	if most := h.feed.slot.most(w.ticket(p.Claim.Ticket.Number).reserved, c.names(p.Leg)); got > most {
		w.violate(Index, "call %d: leg %d counts %d blocks as cached on %s, where there are %d", c.n, p.Leg, got, h.id, most)
	}
}

// names are the checkers' names of a leg's prompt.
func (c *call) names(leg int) []prefix.Key {
	at := leg / c.req.N
	if got := c.legs[leg].got; len(got) > 0 {
		return names(c.req.LoRA, c.req.CacheSalt, append(slices.Clone(c.ids[at]), got...))
	}
	return c.promptNames(at)
}

// promptNames are those of a prompt alone.
func (c *call) promptNames(at int) []prefix.Key {
	if c.named == nil {
		c.named = make([][]prefix.Key, len(c.ids))
	}
	if c.named[at] == nil {
		c.named[at] = names(c.req.LoRA, c.req.CacheSalt, c.ids[at])
	}
	return c.named[at]
}

// checkRejected looks whether the router had a cause.
func (w *world) checkRejected(c *call, m stream.Rejected) {
	if c.asked != m.Number || c.ended || c.hedgeAsked() {
		return
	}
	waited := w.now - c.waited
	switch m.Fault.Kind {
	case fault.Contended:
		if m.Fault.Code == codeSLO {
			w.checkMissed(c)
			return
		}
		shed := false
		for _, l := range c.legs {
			shed = shed || l.lastFail != nil && faultKind(l.lastFail) == fault.Contended
		}
		if !shed && waited < w.plan.router.QueueTimeout && w.now-c.inserted < w.plan.router.QueueTimeout {
			w.violate(Outcome, "call %d is refused as contended after %s", c.n, waited)
		}
	case fault.NoReplica:
		moved := slices.ContainsFunc(c.legs, func(l *leg) bool { return l.moved })
		if moved && waited >= w.plan.router.ResumeWait {
			return // it is told why it was moved, though what it waited for was room
		}
		if h := w.couldServe(c); h != nil {
			w.violate(Outcome, "call %d is refused because nobody serves, and %s does", c.n, h.id)
		}
	case fault.ContextLength:
		for n := range c.legs {
			if h := w.couldHold(c, n); h != nil && len(c.legs) == 1 {
				w.violate(Outcome, "call %d is refused as too long, and %s could hold it", c.n, h.id)
			}
		}
	case fault.BadInput:
		if len(c.legs) < 2 {
			w.violate(Outcome, "call %d is refused: %s", c.n, m.Fault.Message)
		}
	case fault.EngineFailed, fault.Deadline:
		if h := w.couldServe(c); h != nil {
			w.violate(Outcome, "call %d fails (%s), and %s could take over", c.n, m.Fault.Kind, h.id)
		}
	case fault.Unauthorized, fault.Forbidden, fault.ModelNotFound, fault.NotFound, fault.MethodNotAllowed, fault.BodyTooLarge,
		fault.MediaType, fault.EngineRefused, fault.ClientGone, fault.SlowReader, fault.Internal, fault.ShuttingDown, fault.OverQuota, fault.NumKinds:
		w.violate(Outcome, "call %d is refused: %s: %s", c.n, m.Fault.Kind, m.Fault.Message)
	}
}

// couldServe returns a replica that serves and could take every leg of a call that has a single one.
func (w *world) couldServe(c *call) *host {
	if len(c.legs) > 1 {
		return nil
	}
	for _, h := range w.present() {
		s := h.ref.Snapshot()
		if s.State == fleet.Ready && w.holds(h, c, 0) && !c.legs[0].failedAt(w, h, s.Incarnation) && w.inFleet(h) {
			return h
		}
	}
	return nil
}

func (w *world) inFleet(h *host) bool {
	for _, r := range w.fleet() {
		if r == h.ref {
			return true
		}
	}
	return false
}

func (l *leg) failedAt(w *world, h *host, incarnation uint64) bool {
	return slices.ContainsFunc(l.failed, func(f failedOn) bool { return f.keeps(w, h, incarnation) })
}

// couldHold returns a replica that could hold the shortest answer of a leg if it were idle and up.
func (w *world) couldHold(c *call, leg int) *host {
	for _, h := range w.present() {
		if w.holds(h, c, leg) && w.inFleet(h) {
			return h
		}
	}
	return nil
}

func (w *world) holds(h *host, c *call, leg int) bool {
	s := h.ref.Snapshot()
	return s.Told && (c.raw == 0 || h.ref.Capabilities.Chat) && c.length(leg)+max(1, c.req.MinTokens, len(c.legs[leg].got)+1) <= h.p.cfg.SequenceTokens()
}

// watchEvery is how often the slow checkers look around.
const watchEvery = 250 * time.Millisecond

// patience is how long somebody may wait although an idle replica could take it: the router looks again every second.
const patience = 1750 * time.Millisecond

// resumePatience is the same for an answer that is to go on: what a replica prefills for such ones at a time is bounded.
const resumePatience = 12 * time.Second

// watch looks at whoever waits, and at what should be ready by now.
func (w *world) watch() {
	w.in(watchEvery, evWatch)
	w.checkOrders(false)
	for _, c := range w.calls {
		w.watchHedge(c)
		c.watchParked()
		if c.ended || !c.queued() {
			continue
		}
		bound, patience := w.plan.router.QueueTimeout+4*time.Second, patience
		if c.begun() {
			bound, patience = w.plan.router.ResumeWait+4*time.Second, resumePatience
		}
		if w.now-c.waited > bound {
			w.violate(Hold, "call %d has waited %s and may wait %s", c.n, w.now-c.waited, bound)
		}
		w.watchLine(c)
		if !c.encoded || w.router.box.suspended || !w.hasRoom(c) {
			c.roomSince = none
			continue
		}
		if c.roomSince == none {
			c.roomSince = w.now
		}
		if w.mayBeHeld(c) {
			c.roomSince = w.now // for a better one; from its bound on it takes whoever has room
			continue
		}
		if w.now-c.roomSince > patience {
			w.violate(Hold, "call %d has waited for %s while a replica had room for it", c.n, w.now-c.roomSince)
		}
	}
	for _, h := range w.present() {
		h.feed.stale()
	}
	w.phase()
}

// mayBeHeld says whether a call waits, within the bound that its policy has set for waiting for a better replica. That it does not
// wait for ever is looked at whatever the policy says.
func (w *world) mayBeHeld(c *call) bool {
	until, waits := w.router.m.HeldUntil(c.handle)
	return waits && w.time().Before(until)
}

// hasRoom says whether some replica could surely take all legs of a call now.
func (w *world) hasRoom(c *call) bool {
	for _, h := range w.present() {
		if w.roomOn(h, c) {
			return true
		}
	}
	return false
}

func (w *world) roomOn(h *host, c *call) bool {
	s := h.ref.Snapshot()
	b := &h.books
	if s.State != fleet.Ready || b.blinded || h.drained || !s.Told || s.Suspect || w.now < h.ejected || h.box.suspended || w.time().Before(s.CoolingUntil) || b.overdrawn(s.Load.UsableBlocks()) || !w.inFleet(h) {
		return false
	}
	limits := s.Load.Limits
	if s.QuotaSeats != nil {
		limits.Seats = min(limits.Seats, *s.QuotaSeats)
	}
	for n, l := range c.legs {
		if l.open() && (l.failedAt(w, h, s.Incarnation) || !w.holds(h, c, n)) {
			return false
		}
	}
	kept, keptSeats := w.mayBeKept(c, limits)
	return s.Load.SeatsBooked == b.seats && b.seats+len(c.legs)+keptSeats <= limits.Seats-s.Load.ForeignSeats &&
		b.booked()+c.mostBlocks(limits)+kept <= limits.KVBlocks-s.Load.ForeignBlocks
}

// open says whether a leg looks for a place.
func (l *leg) open() bool { return l.finish == nil && len(l.running()) == 0 }

// mostBlocks is what the legs of a call that look for a place take at most, all on one replica.
func (c *call) mostBlocks(limits scoring.Limits) scoring.Blocks {
	need := scoring.Blocks(0)
	for n, l := range c.legs {
		if l.open() {
			need += min(limits.KVBlocks, c.most(n, limits)+1)
		}
	}
	return need
}

// mayBeKept is what may be kept on a replica at most for those that came with a higher class than that in which a call stands now.
func (w *world) mayBeKept(c *call, limits scoring.Limits) (blocks scoring.Blocks, seats int) {
	rank := c.rank()
	if rank == 0 || c.begun() {
		return 0, 0
	}
	for _, o := range w.calls {
		if o.queued() && !o.ended && int(o.req.Class) < rank {
			blocks += o.mostBlocks(limits)
			seats += len(o.legs)
		}
	}
	return blocks, seats
}

var _ router.Shell = (*front)(nil)
