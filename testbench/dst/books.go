package dst

import (
	"context"
	"errors"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/actors/replica"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/prefix"
)

// books are the checkers' own account of what is promised on one replica, from the messages that its machine was given
// and the answers that came out of it. They are kept by the promises alone: a claim adds its private blocks and those of
// its shared ones that nobody else pins, until the message or the time that ends it.
type books struct {
	host *host

	live      map[uint64]*promise // by ticket number
	pins      map[prefix.Key]int
	private   scoring.Blocks
	overdraft scoring.Blocks
	seats     int
	ended     map[uint64]bool // in this epoch
	excused   map[uint64]bool // let go of by time while the process could not, and nobody could know

	blinded bool          // the epoch before has failed, and not all have announced
	since   time.Duration // when it may have begun
	seen    time.Duration // when the present life was last known to be there, or nobody
	failed  int           // probes in a row
	late    time.Duration // since when it has answered no probe in time, idle; none: it has
	heard   time.Duration // when a token came last
	silent  bool          // a probe was not answered, and nothing was heard since
	knew    bool          // that it is stopped
	awaited int           // calls that have not announced their tickets to this epoch
	opens   time.Duration // when it is open without them
	cools   time.Duration // until when the engine is left alone, after it has turned somebody away

	// of the message in hand
	message any
	old     fleet.Snapshot
	broke   []any // those at which instances have failed, which the next one takes
}

// promise is one ticket.
type promise struct {
	claim     ledger.Claim
	number    uint64
	granted   time.Duration
	lingering bool
	lingers   time.Duration
	until     time.Duration // it may be let go of from then on
	produced  scoring.Tokens
	overdraft scoring.Blocks
}

func (b *books) init(h *host) {
	b.host = h
	b.excused = map[uint64]bool{}
	b.clear()
}

func (b *books) clear() {
	b.live, b.pins, b.ended = map[uint64]*promise{}, map[prefix.Key]int{}, map[uint64]bool{}
	b.private, b.overdraft, b.seats = 0, 0, 0
}

// overdrawn: what has outgrown its claims has no room to do so by as much again.
func (b *books) overdrawn(usable scoring.Blocks) bool {
	return b.overdraft > 0 && b.booked()+b.overdraft > usable
}

func (b *books) booked() scoring.Blocks { return scoring.Blocks(len(b.pins)) + b.private + b.overdraft }

// blind says that what is promised is not known to the code for a while, and at what message it failed.
func (b *books) blind(message any) {
	b.blinded = true
	b.broke = append(b.broke, message)
}

// restart begins an epoch: the machine has forgotten all.
func (b *books) restart() {
	if b.host.ref.Snapshot().Epoch > 0 {
		live := b.live
		b.clear()
		b.blinded = true
		for _, p := range live {
			if p.lingering && !b.host.ref.Capabilities.ConfirmsAbort {
				p.granted, p.overdraft = b.host.w.now, 0
				b.book(p) // nobody announces it
				b.grow(p, 0)
			}
		}
	}
	b.failed, b.late = 0, none
}

// opened follows the beginning of an epoch: what the instance before was about to hear, this one has.
func (b *books) opened() {
	snap := b.host.ref.Snapshot()
	for _, message := range b.broke {
		switch m := message.(type) {
		case fleet.Linger:
			b.linger(&m.Attempt, snap)
		case fleet.AttemptFailed:
			b.attemptFailed(m, snap)
		}
	}
	b.broke = nil
	b.blinded = snap.Recovering
}

func (b *books) close() {
	b.clear()
	b.blinded = true
}

// before notes what the machine is about to be given; nil is its timer.
func (b *books) before(message any) {
	b.message, b.old = message, *b.host.ref.Snapshot()
}

// granted checks and books a grant.
func (b *books) granted(t scoring.Ticket) {
	w, h := b.host.w, b.host
	asked, ok := b.message.(*fleet.Reserve)
	if !ok || asked.Claim.Ticket != t {
		w.violate(Grant, "%s grants ticket %d, which nobody asked for", h.id, t.Number)
		return
	}
	rec := w.ticket(t.Number)
	if rec.grants++; rec.grants > 1 {
		w.violate(Once, "%s: ticket %d is granted twice", h.id, t.Number)
	}
	rec.host = h
	c := &asked.Claim
	limits := b.old.Load.Limits
	need := c.PrivateBlocks
	for _, k := range c.SharedKeys {
		if b.pins[k] == 0 {
			need++
		}
	}
	switch {
	case !b.old.State.Routable():
		w.violate(Grant, "%s grants while %s", h.id, b.old.State)
	case b.old.Recovering:
		w.violate(Grant, "%s grants before its calls have announced", h.id)
	case asked.Incarnation != b.old.Incarnation:
		w.violate(Grant, "%s grants life %d what was asked of life %d", h.id, b.old.Incarnation, asked.Incarnation)
	case w.time().Before(b.old.CoolingUntil):
		w.violate(Grant, "%s grants while it cools", h.id)
	case b.hot():
		w.violate(Grant, "%s grants while its engine is to be left alone for %s more", h.id, b.cools-w.now)
	case c.SequenceTokens > limits.SequenceTokens:
		w.violate(Grant, "%s grants %d tokens of at most %d", h.id, c.SequenceTokens, limits.SequenceTokens)
	case b.booked()+need > limits.KVBlocks:
		w.violate(Grant, "%s grants %d blocks beside %d of %d", h.id, need, b.booked(), limits.KVBlocks)
	case b.seats+c.Seats > limits.Seats:
		w.violate(Grant, "%s grants seat %d of %d", h.id, b.seats+c.Seats, limits.Seats)
	case b.overdrawn(b.old.Load.UsableBlocks()):
		w.violate(Growth, "%s grants beside %d blocks of %d while %d are overdrawn", h.id, b.booked(), limits.KVBlocks, b.overdraft)
	}
	b.book(&promise{claim: *c, number: t.Number, granted: w.now})
}

func (b *books) book(p *promise) {
	b.live[p.number] = p
	for _, k := range p.claim.SharedKeys {
		b.pins[k]++
	}
	b.private += p.claim.PrivateBlocks
	b.seats += p.claim.Seats
}

func (b *books) drop(number uint64) {
	p := b.live[number]
	if p == nil {
		return
	}
	for _, k := range p.claim.SharedKeys {
		if b.pins[k]--; b.pins[k] == 0 {
			delete(b.pins, k)
		}
	}
	b.private -= p.claim.PrivateBlocks
	b.seats -= p.claim.Seats
	b.overdraft -= p.overdraft
	delete(b.live, number)
	b.ended[number] = true
}

func (b *books) dropWhere(gone func(p *promise) bool) {
	for n, p := range b.live {
		if gone(p) {
			b.drop(n)
		}
	}
}

// grow books what a sequence needs until it is heard of again.
func (b *books) grow(p *promise, produced scoring.Tokens) {
	p.produced = max(p.produced, produced)
	size := b.host.ref.Snapshot().Load.Limits.BlockTokens
	if size <= 0 {
		return
	}
	next := min(p.claim.PromptTokens+p.produced+reportTokens+1, p.claim.SequenceTokens)
	past := next.Blocks(size) - scoring.Blocks(len(p.claim.SharedKeys)) - p.claim.PrivateBlocks
	if past > p.overdraft {
		b.overdraft += past - p.overdraft
		p.overdraft = past
	}
}

// past says whether an attempt ran on a life of the engine that is over.
func (b *books) past(a *fleet.Attempt, snap *fleet.Snapshot) bool {
	return a.Incarnation != snap.Incarnation && b.host.w.since(a.Began) <= b.since
}

// reportTokens is how many tokens come between two words of a sequence.
const reportTokens = max(16, blockTokens)

// linger books what an attempt holds after its end, also if nobody has told of the attempt before.
func (b *books) linger(a *fleet.Attempt, snap *fleet.Snapshot) {
	number := a.Claim.Ticket.Number
	p := b.live[number]
	if p == nil && !b.ended[number] && !b.past(a, snap) {
		p = &promise{claim: a.Claim, number: number, granted: b.host.w.now}
		b.book(p)
	}
	if p == nil {
		return
	}
	b.grow(p, a.Produced)
	if p.lingering {
		return
	}
	caps := b.host.ref.Capabilities
	p.lingering, p.lingers, p.until = true, b.host.w.now, b.host.w.now+caps.LingerBound
	if caps.ConfirmsAbort {
		p.until = b.host.w.now + time.Hour
	}
}

// after draws the conclusions of a message from what it promises.
func (b *books) after() {
	h := b.host
	snap := h.ref.Snapshot()
	switch m := b.message.(type) {
	case fleet.Progress:
		if p := b.live[m.Ticket.Number]; p != nil {
			b.grow(p, m.Produced)
		}
	case fleet.End:
		b.drop(m.Ticket.Number)
	case fleet.Linger:
		b.linger(&m.Attempt, snap)
	case fleet.AttemptFailed:
		b.sheds(&m)
		b.attemptFailed(m, snap)
	case fleet.Announced:
		b.announced(m, snap)
	case replica.Probed:
		b.probed(m, snap)
	case replica.ProbeFailed:
		b.probeFailed(m)
	}
	if b.old.Hung && !snap.Hung {
		b.failed, b.late = 0, none // it has shown that it lives, and what failed before that is no row with what fails now
	}
	b.recovers(snap)
	b.letGo(snap)
	if b.blinded && !snap.Recovering {
		b.blinded = false
	}
	b.compare(snap)
}

// letGo follows what the code has let go of that lingered on an engine that does not say so: when its time was up, or the
// engine's figures showed that nothing runs there. It must not while the replica is known to be stopped, unless it leaves.
func (b *books) letGo(snap *fleet.Snapshot) {
	if b.host.ref.Capabilities.ConfirmsAbort {
		return
	}
	w := b.host.w
	leaves := (b.old.State == fleet.Draining || snap.State == fleet.Draining) && !snap.Kept || snap.State == fleet.Gone
	known := b.silent || snap.Suspect || snap.Hung
	if (known || b.knew) && !leaves {
		for _, p := range b.live {
			p.until = max(p.until, w.now+b.host.ref.Capabilities.LingerBound)
		}
	}
	b.knew = known
	still := map[uint64]bool{}
	for i := range snap.Lingering {
		still[snap.Lingering[i].Claim.Ticket.Number] = true
	}
	b.dropWhere(func(p *promise) bool {
		if !p.lingering || still[p.number] {
			return false
		}
		switch {
		case w.now >= p.until:
			b.excuse(p)
		case b.idle(p):
		default:
			w.violate(Cover, "%s lets go of ticket %d, which lingers since %s, before its time; known to be silent: %t", b.host.id, p.number, p.lingers, known)
		}
		return true
	})
}

// excuse notes a ticket whose time was up after the process was stopped, or its core hung, without anybody's knowing: all it was
// asked it has answered, because it was asked nothing meanwhile or only its server. Such a process lets go of nothing.
func (b *books) excuse(p *promise) {
	if e := b.host.p; e.alive && (e.frozen() || e.stops >= p.lingers) {
		b.excused[p.number] = true
	}
}

// idle says whether the engine has just told that it runs nothing, by figures of after a ticket began to linger. That they are
// those of now, and not of a core that has hung since, the code has to see to: there is no excuse.
func (b *books) idle(p *promise) bool {
	m, ok := b.message.(replica.Probed)
	if !ok || p.lingers >= b.host.w.since(m.Began) {
		return false
	}
	l := m.Status.Load
	return l.RunningSequences != nil && *l.RunningSequences == 0 && (l.WaitingSequences == nil || *l.WaitingSequences == 0)
}

func (b *books) probeFailed(m replica.ProbeFailed) {
	began := b.host.w.since(m.Began)
	late := errors.Is(m.Failure, context.DeadlineExceeded)
	switch {
	case m.Failure.Kind == engine.Refused:
		b.seen, b.silent = began, false
	case m.Failure.FromEngine:
		b.silent = false
	default:
		b.silent = b.heard <= began
	}
	if late && b.mayBeLate(began) {
		return
	}
	b.failed++
	if m.Failure.Kind == engine.Refused && b.old.State == fleet.Draining && b.failed >= b.host.cfg.FailedProbes {
		b.dropWhere(func(*promise) bool { return true })
	}
}

// mayBeLate says whether a probe without an answer in time counts for nothing: busy is not dead, nor is who is only late, for a while.
func (b *books) mayBeLate(began time.Duration) bool {
	load := &b.old.Load
	if b.heard > began || load.Reserved+load.Running > 0 {
		b.late = none
		return true
	}
	if b.late == none {
		b.late = began
	}
	patience := b.host.cfg.ProbePatience
	if load.Lingering > 0 {
		patience = max(patience, b.host.cfg.FirstTokenTimeout)
	}
	return b.old.State.LegsStay() && b.host.w.now < b.late+patience
}

// token notes a sign of life.
func (b *books) token() { b.heard, b.silent = b.host.w.now, false }

func (b *books) attemptFailed(m fleet.AttemptFailed, snap *fleet.Snapshot) {
	lingers := m.Failure.Kind == engine.Stalled || m.Failure.Kind == engine.Broken && !b.host.ref.Capabilities.ConfirmsAbort
	if lingers {
		b.linger(&m.Attempt, snap)
		return
	}
	b.drop(m.Claim.Ticket.Number)
}

func (b *books) announced(m fleet.Announced, snap *fleet.Snapshot) {
	if m.Epoch != snap.Epoch || !b.old.Recovering {
		return
	}
	for i := range m.Tickets {
		t := &m.Tickets[i]
		n := t.Claim.Ticket.Number
		if b.past(&t.Attempt, snap) || b.live[n] != nil || b.ended[n] {
			continue
		}
		if t.State == ledger.Lingering {
			b.linger(&t.Attempt, snap)
			continue
		}
		p := &promise{claim: t.Claim, number: n, granted: b.host.w.now}
		b.book(p)
		b.grow(p, t.Produced)
	}
}

func (b *books) probed(m replica.Probed, snap *fleet.Snapshot) {
	b.failed, b.silent, b.late = 0, false, none
	began := b.host.w.since(m.Began)
	if snap.Incarnation != b.old.Incarnation {
		b.cools = 0
		b.since = b.seen - b.host.cfg.ReachWait // what was granted later may have been on its way then
		b.dropWhere(func(p *promise) bool { return p.granted < b.since })
	}
	if b.old.Load.Limits.BlockTokens == 0 {
		for _, p := range b.live {
			b.grow(p, 0)
		}
	}
	b.seen = began
}

// compare looks whether the code's sums are ours.
func (b *books) compare(snap *fleet.Snapshot) {
	w := b.host.w
	if b.blinded {
		return
	}
	if got := snap.Load.BookedBlocks; got != b.booked() {
		w.violate(Grant, "%s says that %d blocks are booked, and promised are %d, after %T", b.host.id, got, b.booked(), b.message)
	}
	if got := snap.Load.SeatsBooked; got != b.seats {
		w.violate(Grant, "%s says that %d seats are booked, and promised are %d, after %T", b.host.id, got, b.seats, b.message)
	}
	if got := snap.Load.OverdraftBlocks; got != b.overdraft {
		w.violate(Growth, "%s says that %d blocks are overdrawn, and it is %d, after %T", b.host.id, got, b.overdraft, b.message)
	}
}

// held checks what the engine holds for us against what is promised.
func (b *books) held() {
	w, p := b.host.w, b.host.p
	if b.blinded || !p.alive || b.host.gone {
		return
	}
	if w.plan.sluggish.rng != nil && b.host.drained && b.host.draining() {
		return // it grants nothing any more, so that nothing is held back for what a long pass holds
	}
	s := p.m.Status()
	used := s.UsedBlocks
	for n := range b.excused {
		held, _ := p.m.HeldBlocks(ticketID(n))
		used -= held
	}
	for _, a := range p.canaries {
		held, _ := p.m.HeldBlocks(a.request.ID)
		used -= held // it is no request's
	}
	if scoring.Blocks(used) > b.booked() {
		w.violate(Cover, "%s holds %d blocks for us, and %d are booked", b.host.id, used, b.booked())
		b.explain()
	}
	if w.strict() && s.Preemptions > 0 {
		w.violate(Cover, "%s has preempted %d times in strict mode", b.host.id, s.Preemptions)
	}
}

// explain lays out who holds what.
func (b *books) explain() {
	w := b.host.w
	if w.log.out == nil {
		return
	}
	for n := range w.tickets {
		number := uint64(n) //nolint:gosec // an index
		held, known := b.host.p.m.HeldBlocks(ticketID(number))
		p := b.live[number]
		if w.tickets[n].host != b.host || !known && p == nil {
			continue
		}
		w.explain("ticket %d: the engine holds %d blocks for it", number, held)
		if p != nil {
			w.explain("ticket %d: promised are %d private and %d shared blocks and %d overdrawn, after %d tokens; lingering: %t",
				number, p.claim.PrivateBlocks, len(p.claim.SharedKeys), p.overdraft, p.produced, p.lingering)
		}
	}
}
