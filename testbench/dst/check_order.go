package dst

import (
	"slices"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/policy"
	"plimsoll/scoring/queue"
)

// turn is where a call stands with the router, by the messages between it, calls and replicas.
type turn struct {
	sub     *stream.Submit // what the router has to answer; nil: nothing
	open    []uint64       // its tickets that no replica has answered for
	step    uint64         // of the router's machine, in which its last ticket was asked for
	refused uint64         // the one in which a ticket of this submission was refused or given back; 0: none was
	came    time.Duration  // when the router was given it
	since   time.Duration  // likewise, or when its last ticket was answered
}

// QueueSeen counts what the checkers of the queue's order had to look at.
type QueueSeen struct {
	Places uint64 // asked for while somebody else waited
	Before uint64 // of these, those that somebody of a lower class could surely have taken
	Turns  uint64 // taken before another tenant's, all of whose requests could surely have taken the place
	Missed uint64 // requests refused for their SLO
}

// Add adds another run's counts.
func (q *QueueSeen) Add(o *QueueSeen) {
	q.Places += o.Places
	q.Before += o.Before
	q.Turns += o.Turns
	q.Missed += o.Missed
}

// lineHears notes what a message to the router means for who waits.
func (w *world) lineHears(message any) {
	switch m := message.(type) {
	case *stream.Submit:
		w.byHandle[m.Call].turn = turn{sub: m, came: w.now, since: w.now}
	case stream.Withdraw:
		if c := w.byHandle[m.Call]; c.turn.sub != nil && (m.Number == 0 || m.Number == c.turn.sub.Number) {
			c.turn = turn{}
		}
	case *fleet.Granted:
		w.lineAnswered(m.Ticket.Number, false)
	case *fleet.Refused:
		w.lineAnswered(m.Ticket.Number, true)
	}
}

func (w *world) lineAnswered(number uint64, refused bool) {
	rec := w.ticket(number)
	rec.answered = true
	if rec.call == nil || rec.call.turn.sub != rec.sub {
		return
	}
	t := &rec.call.turn
	t.since = w.now
	t.open = slices.DeleteFunc(t.open, func(n uint64) bool { return n == number })
	if refused {
		t.refused = w.router.steps
	}
}

// lineGivesBack notes that the router does not use a grant.
func (w *world) lineGivesBack(number uint64) { w.lineAnswered(number, true) }

// leavesLine notes the router's answer to a submission.
func (c *call) leavesLine(number uint64) {
	if c.turn.sub != nil && c.turn.sub.Number == number {
		c.turn = turn{}
	}
}

// lineLost: a new instance of the router knows of nobody.
func (w *world) lineLost() {
	for _, c := range w.calls {
		c.turn = turn{}
	}
	w.shares = shares{}
}

// waits says whether a call surely stands in the router's queue.
func (c *call) waits() bool { return c.turn.sub != nil && len(c.turn.open) == 0 }

// inLine says whether a call that waits does so among those of its tenant, and not at the head of its class.
func (c *call) inLine() bool {
	s := c.turn.sub
	return c.waits() && !s.Again && !s.Begun && !s.Hedge && c.turn.refused == 0
}

// rank is the class of a call that waits, promotions counted.
func (c *call) rank() int {
	return max(0, int(c.req.Class)-int(c.w.time().Sub(c.req.Arrival)/c.w.plan.router.Queue.PromoteAfter))
}

// offer is a place that the router asks for: what anybody else who was tried before in the same pass could have had of it.
type offer struct {
	limits scoring.Limits
	taken  scoring.Blocks // by the claim, at least
	begun  bool           // the claim is of who goes on with an answer, from whom no room is kept
	// What is free, at least, and what may be kept of it at most for those that wait, by the class with which they came.
	free portion
	kept [queue.NumClasses]portion
	void bool // quotas are in force, and they change with every reservation; or more wait than a pass looks at
}

// portion is a part of what a replica can take.
type portion struct {
	blocks scoring.Blocks
	seats  int
}

func (p *portion) add(blocks scoring.Blocks, seats int) {
	p.blocks += blocks
	p.seats += seats
}

// offered is the place that a call's claim on a replica is for.
func (w *world) offered(c *call, h *host, claim *ledger.Claim) offer {
	load := h.ref.Snapshot().Load
	o := offer{
		limits: load.Limits, taken: claim.PrivateBlocks, begun: c.turn.sub.Begun,
		free: portion{load.UsableBlocks() - load.BookedBlocks, load.UsableSeats() - load.SeatsBooked},
	}
	for _, t := range slices.Backward(w.tickets) {
		if t.host != nil && w.now-t.reserved > w.plan.router.ReserveWait+time.Second {
			break // it counts as refused
		}
		if t.host == h && t.call != nil && !t.answered {
			o.free.add(-t.blocks, -1) // whether the snapshot shows it or not
		}
	}
	waiting := 0
	for _, other := range w.calls {
		if other.turn.sub != nil {
			waiting++
			for n := range other.legs {
				o.kept[other.req.Class].add(other.most(n, o.limits), 1)
			}
		}
	}
	o.void = waiting > w.plan.router.ScanMax || slices.ContainsFunc(w.present(), func(h *host) bool { return h.ref.Snapshot().QuotaSeats != nil })
	return o
}

// most is how many blocks a leg comes to at most where such limits hold, with nothing shared.
func (c *call) most(leg int, limits scoring.Limits) scoring.Blocks {
	prompt := scoring.Tokens(c.length(leg))
	answer := limits.SequenceTokens - prompt
	if c.req.MaxTokens != nil {
		answer = min(answer, scoring.Tokens(*c.req.MaxTokens))
	}
	return (prompt + max(1, answer)).Blocks(limits.BlockTokens)
}

// suits says whether a call that waits would surely have been given a place there when it was tried before the one who got it: it has
// one leg which has nobody failed it nor refused it, needs no more than there is, whatever it shares, and is held for no better one.
func (o *offer) suits(c *call) bool {
	if o.void || c.raw > 0 || !c.inLine() || len(c.legs) > 1 || len(c.turn.sub.Legs[0].Excluded) > 0 ||
		scoring.Tokens(len(c.ids[0])+max(1, c.req.MinTokens)) > o.limits.SequenceTokens {
		return false
	}
	left, kept := o.free, portion{}
	for class := range c.rank() {
		kept.add(o.kept[class].blocks, o.kept[class].seats)
	}
	left.add(-kept.blocks, -kept.seats)
	// What is kept from it is kept from whoever got the place, too, who comes after it; but for those who go on. So what that one
	// took it could have had, a seat at least.
	same := !o.begun || kept == portion{}
	need := c.most(0, o.limits)
	fits := (same || left.seats > 0) && (same && need <= o.taken || need <= left.blocks)
	return fits && !c.w.heldBack(c)
}

// heldBack says whether a call may have been held for a better replica when it was tried.
func (w *world) heldBack(c *call) bool {
	p := &w.plan.router.Policy
	if p.Name != policy.Names()[0] || p.TokenLoad.BoundFactor == 0 {
		return false // all others send a request at once
	}
	until, waits := w.router.m.HeldUntil(c.handle)
	return !waits || w.time().Before(until)
}

// checkTurn looks who waits while the router asks for a place.
func (w *world) checkTurn(h *host, claim ledger.Claim) {
	f := &w.router
	c := w.byHandle[f.m.Asks(claim.Ticket)]
	if c == nil || c.turn.sub == nil {
		return
	}
	t := &c.turn
	rec := w.ticket(claim.Ticket.Number)
	rec.call, rec.sub = c, t.sub
	rec.blocks = claim.PrivateBlocks + scoring.Blocks(len(claim.SharedKeys))
	next := t.step != f.steps // and no further leg
	// Who was refused is ranked anew before others are looked at, and who has waited as long as it may is tried after them.
	again := t.refused == f.steps || next && len(t.open) > 0
	switch {
	case again:
	case c.lastChance():
		w.shares.forget(c.rank(), c.req.Tenant) // whether it was charged nobody tells
	default:
		w.checkClass(c, h, &claim, next)
	}
	t.open, t.step = append(t.open, claim.Ticket.Number), f.steps
}

func (w *world) checkClass(c *call, h *host, claim *ledger.Claim, first bool) {
	rank := c.rank()
	var at *offer
	lower := false
	for _, o := range w.calls {
		if o == c || !o.waits() {
			continue
		}
		if c.turn.sub.Hedge {
			w.violate(Hold, "call %d is given a place for its hedge while call %d waits", c.n, o.n)
			return
		}
		if at == nil {
			at = new(w.offered(c, h, claim))
			w.queue.Places++
		}
		other := o.rank()
		if other == rank || other > rank && lower || !at.suits(o) {
			continue
		}
		if other < rank {
			w.violate(Class, "call %d of class %d is given a place on %s before call %d of class %d, which could take it", c.n, rank, h.id, o.n, other)
			return
		}
		lower = true
	}
	w.checkKept(c, h, rank)
	if lower {
		w.queue.Before++
	}
	if first && at != nil && c.inLine() {
		w.shares.take(w, c, rank, at)
	}
}

// codeSLO is the error code of a request that is refused for its SLO.
const codeSLO = "slo_not_met"

// checkMissed looks whether a request may be refused for its SLO.
func (w *world) checkMissed(c *call) {
	w.queue.Missed++
	if c.req.SLO.TTFT == nil && c.req.SLO.TPOT == nil {
		w.violate(Outcome, "call %d is refused for an SLO and has none", c.n)
	}
	for n, l := range c.legs {
		if len(l.tries) > 0 {
			w.violate(Outcome, "call %d is refused for its SLO after leg %d has had %d attempts", c.n, n, len(l.tries))
		}
	}
}

// lastChance says whether the time of a call that waits is up.
func (c *call) lastChance() bool {
	w := c.w
	if c.turn.sub.Begun {
		return slices.ContainsFunc(c.turn.sub.Legs, func(a stream.Ask) bool { return w.time().Sub(a.Since) >= w.plan.router.ResumeWait })
	}
	return w.now-c.inserted >= w.plan.router.QueueTimeout
}

// patienceOf is how long a call may stand in the queue.
func (w *world) patienceOf(c *call) time.Duration {
	if c.turn.sub.Begun {
		return w.plan.router.ResumeWait
	}
	return w.plan.router.QueueTimeout
}

// linePatience is how long after its time somebody who stands in the queue may do so: the router has a timer for each.
const linePatience = 100 * time.Millisecond

// watchLine looks whether somebody stands in the queue although his time is up, or what his SLO leaves him.
func (w *world) watchLine(c *call) {
	t := &c.turn
	if !c.waits() || w.router.box.suspended || w.now-t.since < linePatience {
		return
	}
	bound := w.patienceOf(c)
	if waited := w.now - t.came; waited > bound+linePatience {
		w.violate(Hold, "call %d stands in the queue for %s and may for %s", c.n, waited, bound)
	}
	if t.sub.Again || t.sub.Begun || c.req.SLO.TTFT == nil {
		return
	}
	if waited := w.now - c.inserted; waited > *c.req.SLO.TTFT+linePatience {
		w.violate(Hold, "call %d stands in the queue after %s, and its first token had to come within %s", c.n, waited, *c.req.SLO.TTFT)
	}
}
