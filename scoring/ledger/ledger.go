package ledger

import (
	"container/list"
	"slices"
	"time"

	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
)

// endedKept is how many ended tickets are remembered, to tell a late end from an unknown one and to refuse a claim that
// comes twice.
const endedKept = 4096

// Ledger books what requests need on one replica against its limits. Its owner, the replica actor, is its only user: it
// is not safe for concurrent use. Others read [Load] snapshots.
type Ledger struct {
	limits  scoring.Limits
	tickets map[scoring.Ticket]*booking
	refs    map[prefix.Key]int32 // pins per shared block; its size is how many are booked
	sum     contribution         // over all tickets
	states  [NumStates]int
	queue   *list.List // of *booking in state Reserved, in the order of their grants
	started time.Time  // the last first token
	ended   recent
	foreign foreign

	counters Counters
}

// booking is one ticket's part.
type booking struct {
	claim     Claim
	state     State
	granted   time.Time
	produced  scoring.Tokens // output tokens so far
	overdraft scoring.Blocks // booked past the claim
	lingers   time.Time      // Lingering: since when
	until     time.Time      // Lingering: the bound
	queued    *list.Element  // Reserved: its place in the prefill queue
}

// contribution is what a booking adds to the sums of the load. Shared blocks are counted apart, by reference.
type contribution struct {
	private, overdraft scoring.Blocks
	seats              int
	prefill, prompts   scoring.Tokens // of those without a first token
	prefill2           int64          // twice u*(hit + u/2): a whole number, so that sums do not drift
	decodeKV           scoring.Tokens
	remaining          scoring.Tokens
}

func (b *booking) contribution() contribution {
	c := contribution{private: b.claim.PrivateBlocks, overdraft: b.overdraft, seats: b.claim.Seats}
	if b.state == Reserved {
		c.prefill, c.prompts = b.claim.PrefillTokens, b.claim.PromptTokens
		hit := max(0, b.claim.PromptTokens-b.claim.PrefillTokens)
		c.prefill2 = int64(c.prefill) * int64(2*hit+c.prefill)
	}
	if b.state == Running {
		c.decodeKV = b.claim.PromptTokens + b.produced
	}
	if b.state == Reserved || b.state == Running {
		c.remaining = b.claim.remaining(b.produced)
	}
	return c
}

func (c *contribution) add(o contribution, sign int) {
	c.private += scoring.Blocks(sign) * o.private
	c.overdraft += scoring.Blocks(sign) * o.overdraft
	c.seats += sign * o.seats
	c.prefill += scoring.Tokens(sign) * o.prefill
	c.prompts += scoring.Tokens(sign) * o.prompts
	c.prefill2 += int64(sign) * o.prefill2
	c.decodeKV += scoring.Tokens(sign) * o.decodeKV
	c.remaining += scoring.Tokens(sign) * o.remaining
}

// New returns an empty ledger. Limits of which nothing is known yet are all zero: nothing is granted then, and what
// is restored is booked as claimed until SetLimits.
func New(limits scoring.Limits) *Ledger {
	return &Ledger{
		limits:  limits,
		tickets: map[scoring.Ticket]*booking{},
		refs:    map[prefix.Key]int32{},
		queue:   list.New(),
		ended:   newRecent(endedKept),
	}
}

// SetLimits replaces the limits. They may fall below what is booked: then nothing new fits until enough has ended. A
// known block size must not change while tickets are booked, because claims are counted in it; when it becomes known,
// the growth of what was restored before is booked.
func (l *Ledger) SetLimits(limits scoring.Limits) {
	known := l.limits.BlockTokens > 0
	l.limits = limits
	if known {
		return
	}
	for _, b := range l.tickets {
		l.update(b, func() { l.cover(b) })
	}
}

// booked is how many blocks all tickets hold.
func (l *Ledger) booked() scoring.Blocks {
	return scoring.Blocks(len(l.refs)) + l.sum.private + l.sum.overdraft
}

// Fits says whether Reserve would grant the claim now, or the first reason why not.
func (l *Ledger) Fits(c Claim) Reason {
	if l.tickets[c.Ticket] != nil || l.ended.has(c.Ticket) {
		return Duplicate
	}
	if c.SequenceTokens > l.limits.SequenceTokens {
		return SequenceTooLong
	}
	if c.blocks() > l.limits.KVBlocks || c.Seats > l.limits.Seats {
		return TooLarge
	}
	load := l.Load()
	if load.Overdrawn() {
		return Overdraft
	}
	if l.sum.seats+c.Seats > load.UsableSeats() {
		return NoSeats
	}
	if l.booked()+l.marginal(&c) > load.UsableBlocks() {
		return NoBlocks
	}
	return None
}

// marginal is how many blocks a claim adds to what is booked.
func (l *Ledger) marginal(c *Claim) scoring.Blocks {
	need := c.PrivateBlocks
	for _, k := range c.SharedKeys {
		if l.refs[k] == 0 {
			need++
		}
	}
	return need
}

// Reserve books the claim if it fits, and says None; else it changes nothing and says why.
func (l *Ledger) Reserve(now time.Time, c Claim) Reason {
	if why := l.Fits(c); why != None {
		l.counters.Refusals[why]++
		return why
	}
	l.counters.Grants++
	l.book(&booking{claim: c, state: Reserved, granted: now})
	return None
}

// Restore books a claim that was granted before the owner restarted, with its state and output so far, even beyond the
// limits: the engine holds it already. It does nothing and says false for a ticket that is booked or has ended, and for
// the states Lingering and Ended.
func (l *Ledger) Restore(now time.Time, c Claim, st State, produced scoring.Tokens) bool {
	if l.tickets[c.Ticket] != nil || l.ended.has(c.Ticket) || st != Reserved && st != Running {
		return false
	}
	l.book(&booking{claim: c, state: st, granted: now})
	l.Grow(c.Ticket, produced)
	return true
}

func (l *Ledger) book(b *booking) {
	l.tickets[b.claim.Ticket] = b
	for _, k := range b.claim.SharedKeys {
		l.refs[k]++
	}
	if b.state == Reserved {
		b.queued = l.queue.PushBack(b)
	}
	l.states[b.state]++
	l.sum.add(b.contribution(), 1)
	l.notePeak()
}

func (l *Ledger) notePeak() {
	l.foreign.peakBlocks = max(l.foreign.peakBlocks, l.booked())
	l.foreign.peakSeats = max(l.foreign.peakSeats, l.sum.seats)
}

// update changes a booking and keeps the sums in step.
func (l *Ledger) update(b *booking, change func()) {
	l.sum.add(b.contribution(), -1)
	l.states[b.state]--
	change()
	if b.state != Reserved && b.queued != nil {
		l.queue.Remove(b.queued)
		b.queued = nil
	}
	l.states[b.state]++
	l.sum.add(b.contribution(), 1)
	l.notePeak()
}

// Start notes the first token of a reserved ticket: it leaves the prefill queue and takes its place in the batch. False
// if the ticket is not reserved.
func (l *Ledger) Start(t scoring.Ticket, now time.Time) bool {
	b := l.tickets[t]
	if b == nil || b.state != Reserved {
		return false
	}
	l.started = now
	l.update(b, func() { b.state = Running })
	return true
}

// Grow notes how many tokens a ticket's sequence has produced so far; the figure never falls. It is called at least every
// ReportTokens. A block beyond the claim is booked before its first token is computed, never refused, and counted as
// overdraft, of which [Load.Overdrawn] says when it bars new grants. False if the ticket is not booked.
func (l *Ledger) Grow(t scoring.Ticket, produced scoring.Tokens) bool {
	b := l.tickets[t]
	if b == nil {
		return false
	}
	l.update(b, func() {
		b.produced = max(b.produced, produced)
		l.cover(b)
	})
	return true
}

// ReportTokens is how many tokens a sequence produces between two calls of Grow at most, where a block holds blockTokens:
// what it produces is told once a block, and not more often than every 16 tokens.
func ReportTokens(blockTokens scoring.Tokens) scoring.Tokens { return max(16, blockTokens) }

// cover books what a sequence that has produced something needs beyond its claim until Grow is called again.
func (l *Ledger) cover(b *booking) {
	if l.limits.BlockTokens <= 0 {
		return // not known yet: SetLimits comes back to it
	}
	next := min(b.claim.PromptTokens+b.produced+ReportTokens(l.limits.BlockTokens)+1, b.claim.SequenceTokens)
	past := next.Blocks(l.limits.BlockTokens) - b.claim.blocks()
	if past > b.overdraft {
		l.counters.OverdraftBlocks += uint64(past - b.overdraft)
		b.overdraft = past
	}
}

// Linger notes that nobody waits for a ticket any more while the engine may still hold its blocks: they stay booked
// until End, until the engine's figures show that it has let go (Confirm), or until the bound passes. False if the
// ticket is not reserved or running.
func (l *Ledger) Linger(t scoring.Ticket, now, until time.Time) bool {
	b := l.tickets[t]
	if b == nil || b.state != Reserved && b.state != Running {
		return false
	}
	l.update(b, func() { b.state, b.lingers, b.until = Lingering, now, until })
	return true
}

// Confirm says that the engine's own figures, of some moment after before, show no sequence at all: it has let go of every
// ticket that lingered by then. These end, and are returned in order.
//
// Figures that show as many sequences as we have tickets there prove nothing: one of ours may not have come there yet, or may
// have ended without our having heard of it, and one that lingers is in its place.
func (l *Ledger) Confirm(before time.Time) []scoring.Ticket {
	if l.states[Lingering] == 0 {
		return nil
	}
	return l.endWhere(Expired, func(b *booking) bool { return b.state == Lingering && b.lingers.Before(before) })
}

// Postpone has nothing that lingers expire before a time.
func (l *Ledger) Postpone(until time.Time) {
	for _, b := range l.tickets {
		if b.state == Lingering && b.until.Before(until) {
			b.until = until
		}
	}
}

// Expire ends the lingering tickets whose bound had passed by a time and returns them in order.
func (l *Ledger) Expire(by time.Time) []scoring.Ticket {
	if l.states[Lingering] == 0 {
		return nil
	}
	return l.endWhere(Expired, func(b *booking) bool { return b.state == Lingering && !by.Before(b.until) })
}

// NextExpiry returns when the first of the bounds passes; false if nothing lingers.
func (l *Ledger) NextExpiry() (time.Time, bool) {
	var next time.Time
	found := false
	if l.states[Lingering] == 0 {
		return next, false
	}
	for _, b := range l.tickets {
		if b.state == Lingering && (!found || b.until.Before(next)) {
			next, found = b.until, true
		}
	}
	return next, found
}

// In lists the tickets that are in a state, in order.
func (l *Ledger) In(s State) []scoring.Ticket {
	out := make([]scoring.Ticket, 0, l.states[s])
	for t, b := range l.tickets {
		if b.state == s {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, scoring.Ticket.Compare)
	return out
}

// Tickets is how many tickets are in a state; those that have ended are not counted.
func (l *Ledger) Tickets(s State) int { return l.states[s] }

// End frees what a ticket holds: the engine has let go of it. It does so once; of a ticket that has ended or was never
// booked it changes nothing, counts that and says false.
func (l *Ledger) End(t scoring.Ticket, reason EndReason) bool {
	b := l.tickets[t]
	if b == nil {
		if l.ended.has(t) {
			l.counters.LateEnds++
		} else {
			l.counters.UnknownEnds++
		}
		return false
	}
	l.sum.add(b.contribution(), -1)
	l.states[b.state]--
	if b.queued != nil {
		l.queue.Remove(b.queued)
	}
	for _, k := range b.claim.SharedKeys {
		if l.refs[k]--; l.refs[k] == 0 {
			delete(l.refs, k)
		}
	}
	delete(l.tickets, t)
	l.ended.add(t)
	l.counters.Ends[reason]++
	return true
}

// EndAll ends every ticket, the engine's process being gone, and returns them in order.
func (l *Ledger) EndAll(reason EndReason) []scoring.Ticket {
	return l.endWhere(reason, func(*booking) bool { return true })
}

// EndGranted ends the tickets granted before a moment at which the engine's process that is gone was last known to be
// there, and returns them in order. Those granted since may run on the process that took its place.
func (l *Ledger) EndGranted(before time.Time, reason EndReason) []scoring.Ticket {
	return l.endWhere(reason, func(b *booking) bool { return b.granted.Before(before) })
}

func (l *Ledger) endWhere(reason EndReason, ends func(*booking) bool) []scoring.Ticket {
	var out []scoring.Ticket
	for t, b := range l.tickets {
		if ends(b) {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, scoring.Ticket.Compare)
	for _, t := range out {
		l.End(t, reason)
	}
	return out
}

// Lingerer is a ticket that lingers, for who keeps it over a restart of the owner.
type Lingerer struct {
	Claim    Claim
	Produced scoring.Tokens
	Until    time.Time // the bound
}

// Lingerers returns the tickets that linger, in order; nil if there are none.
func (l *Ledger) Lingerers() []Lingerer {
	if l.states[Lingering] == 0 {
		return nil
	}
	out := make([]Lingerer, 0, l.states[Lingering])
	for _, b := range l.tickets {
		if b.state == Lingering {
			out = append(out, Lingerer{b.claim, b.produced, b.until})
		}
	}
	slices.SortFunc(out, func(a, b Lingerer) int { return a.Claim.Ticket.Compare(b.Claim.Ticket) })
	return out
}

// State returns where a ticket stands; Ended for any that is not booked.
func (l *Ledger) State(t scoring.Ticket) State {
	if b := l.tickets[t]; b != nil {
		return b.state
	}
	return Ended
}

// Load returns a snapshot.
func (l *Ledger) Load() Load {
	ld := Load{
		Limits:                l.limits,
		BookedBlocks:          l.booked(),
		SharedBlocks:          scoring.Blocks(len(l.refs)),
		OverdraftBlocks:       l.sum.overdraft,
		ForeignBlocks:         scoring.Blocks(l.foreign.blocks.least()),
		SeatsBooked:           l.sum.seats,
		ForeignSeats:          l.foreign.seats.least(),
		ForeignWaiting:        l.foreign.waiting(),
		Reserved:              l.states[Reserved],
		Running:               l.states[Running],
		Lingering:             l.states[Lingering],
		QueuedPrefillTokens:   l.sum.prefill,
		ReservedPromptTokens:  l.sum.prompts,
		QueuedPrefillTokens2:  float64(l.sum.prefill2) / 2,
		DecodeKVTokens:        l.sum.decodeKV,
		RemainingOutputTokens: l.sum.remaining,
	}
	if front := l.queue.Front(); front != nil {
		if b, ok := front.Value.(*booking); ok {
			since := b.granted
			if l.started.After(since) {
				since = l.started
			}
			ld.OldestPrefill, ld.OldestPrefillTokens = &since, b.claim.PrefillTokens
		}
	}
	return ld
}

// Empty says whether nothing is booked: no ticket, no pinned block, and no sum left over.
func (l *Ledger) Empty() bool {
	return len(l.tickets) == 0 && len(l.refs) == 0 && l.queue.Len() == 0 && l.sum == contribution{}
}

// Counters returns the counts so far.
func (l *Ledger) Counters() Counters { return l.counters }
