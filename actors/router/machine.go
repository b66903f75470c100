package router

import (
	"errors"
	"math/rand/v2"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/replica"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/scoring/cost"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/policy"
	"plimsoll/scoring/prefix"
	"plimsoll/scoring/queue"
)

// effect is something the actor does after a step, in order.
type effect interface{ isEffect() }

type (
	// tellCall answers a submission.
	tellCall struct {
		call    *stream.Call
		message any
	}
	// reserve asks a replica's actor.
	reserve struct {
		ref         *replica.Ref
		claim       ledger.Claim
		incarnation uint64
	}
	// giveBack ends a ticket that was granted and can't be used.
	giveBack struct {
		ref    *replica.Ref
		ticket scoring.Ticket
	}
	// refused reports that a submission was turned away.
	refused struct{ kind fault.Kind }
	// reranked reports a reservation that was refused.
	reranked struct{}
	// dispatched reports that a submission was placed after waiting that long.
	dispatched struct{ waited time.Duration }
)

func (tellCall) isEffect()   {}
func (reserve) isEffect()    {}
func (giveBack) isEffect()   {}
func (refused) isEffect()    {}
func (reranked) isEffect()   {}
func (dispatched) isEffect() {}

// booking is what the router has asked a replica for and not heard back about.
type booking struct {
	requests int
	blocks   scoring.Blocks
	seats    int
	prefill  scoring.Tokens
}

// asking is a submission whose reservations are under way.
type asking struct {
	entry   *entry
	open    int // answers still to come
	placed  []stream.Placement
	refused bool
	gone    bool // withdrawn meanwhile
}

// asked is one reservation under way.
type asked struct {
	by    *asking
	place stream.Placement
	need  scoring.Blocks
}

// machine decides for one model. It is pure: time, tickets and what the replicas published are arguments.
type machine struct {
	cfg     Config
	policy  policy.Policy
	rng     *rand.Rand
	learner *cost.Learner

	waiting  *queue.Queue[*entry]
	nextID   queue.ID
	booked   map[scoring.ReplicaID]booking
	tickets  map[scoring.Ticket]*asked
	byCall   map[*stream.Call]*asking
	queuedAs map[*stream.Call]queue.ID
	// retryAt is when a held request wants to be tried again, deadlineAt the first deadline; zero if there is none.
	retryAt, deadlineAt time.Time

	newTicket func() scoring.Ticket
	out       []effect
}

func newMachine(cfg Config, rng *rand.Rand, newTicket func() scoring.Ticket) (*machine, error) {
	p, err := policy.New(cfg.Policy, rng)
	if err != nil {
		return nil, err
	}
	return &machine{
		cfg: cfg, policy: p, rng: rng, learner: cost.NewLearner(cost.DefaultConfig()),
		waiting: queue.New[*entry](cfg.Queue), booked: map[scoring.ReplicaID]booking{},
		tickets: map[scoring.Ticket]*asked{}, byCall: map[*stream.Call]*asking{},
		queuedAs: map[*stream.Call]queue.ID{}, newTicket: newTicket,
	}, nil
}

func (m *machine) emit(e effect) { m.out = append(m.out, e) }

// tick is a call of the machine's timer.
type tick struct{}

// step takes one message and returns what is to be done. vs is the fleet, ordered by ID.
func (m *machine) step(now time.Time, message any, vs []view) []effect {
	m.out = nil
	switch e := message.(type) {
	case *stream.Submit: // with prompts
		m.admit(now, e, vs)
	case stream.Withdraw:
		m.withdraw(e)
	case *replica.Granted:
		m.granted(now, e, vs)
	case *replica.Refused:
		m.denied(now, e, vs)
	case replica.Room, tick:
		m.pump(now, vs)
	case stream.FirstToken:
		m.learner.FirstToken(e.Replica, e.PrefillTokens, e.HitTokens, e.Took)
	case stream.Steps:
		m.learner.Step(e.Replica, e.KVTokens, e.Gap)
	case stream.Finished:
		m.learner.Output(e.Produced)
		withdrawSpeculation(vs, e.Replica, e.Ticket)
	case stream.Failed:
		withdrawSpeculation(vs, e.Replica, e.Ticket)
	}
	return m.out
}

// admit checks a submission against what the fleet could ever hold and tries to place it.
func (m *machine) admit(now time.Time, sub *stream.Submit, vs []view) {
	m.supersede(sub.Call)
	m.nextID++
	e := &entry{id: m.nextID, sub: sub, deadline: sub.Arrival.Add(m.cfg.QueueTimeout), keys: map[scoring.Tokens][][]prefix.Key{}}
	if sub.Again {
		// Its first attempt's failure is not its fault: it has the whole time again.
		e.deadline = now.Add(m.cfg.QueueTimeout)
	}
	for _, a := range sub.Legs {
		if e.promptTokens(a) == 0 {
			f := fault.Invalid(paramOf(sub.Call.Request), "the prompt is empty: there is nothing to continue")
			m.reject(e, f)
			return
		}
	}
	if len(sub.Legs) > 1 && !m.packs(e, vs) {
		if f := m.never(now, e, vs); f != nil {
			m.reject(e, f)
			return
		}
		m.reject(e, doesNotPack(e))
		return
	}
	if m.place(now, e, vs) {
		return
	}
	m.enqueue(e, sub.Again)
}

// supersede forgets an older submission of the same call: it was made to an instance of the router that failed, and came
// to this one all the same.
func (m *machine) supersede(call *stream.Call) {
	if id, ok := m.queuedAs[call]; ok {
		delete(m.queuedAs, call)
		m.waiting.Remove(id)
	}
	if by := m.byCall[call]; by != nil {
		by.gone = true
		delete(m.byCall, call)
	}
}

// never returns the refusal of a submission that no configured replica can hold, nil if some could.
func (m *machine) never(now time.Time, e *entry, vs []view) *fault.Fault {
	for _, a := range e.sub.Legs {
		d := m.demand(e, a, vs)
		cs, _ := m.candidates(now, e, a, vs)
		if dec := m.policy.Decide(now, &d, cs); dec.Verdict == policy.Refuse && dec.Cause == policy.TooLarge {
			return tooLarge(e, vs)
		}
	}
	return nil
}

func (m *machine) enqueue(e *entry, head bool) {
	push := m.waiting.Push
	if head {
		push = m.waiting.PushHead
	}
	if err := push(e.id, e, e.tokens(), e.sub.Arrival); err != nil {
		var full *queue.FullError
		if errors.As(err, &full) {
			m.reject(e, contended(m.retryAfter(), "all replicas are busy and the queue is full (%d %s); try again later", full.Max, full.Bound))
			return
		}
		m.reject(e, &fault.Fault{Kind: fault.Internal, Message: "internal error", Err: err})
		return
	}
	m.queuedAs[e.sub.Call] = e.id
	m.keep(e)
}

// place tries to reserve for every leg at once. True: the entry needs no queue place now.
func (m *machine) place(now time.Time, e *entry, vs []view) bool {
	by := &asking{entry: e}
	var chosen []*asked
	undo := func() {
		for _, a := range chosen {
			m.unbook(a)
		}
	}
	for _, ask := range e.sub.Legs {
		d := m.demand(e, ask, vs)
		cs, claims := m.candidates(now, e, ask, vs)
		dec := m.policy.Decide(now, &d, cs)
		switch dec.Verdict {
		case policy.Dispatch:
			a := m.book(by, e, ask, vs[dec.Index], claims[dec.Index], cs[dec.Index])
			chosen = append(chosen, a)
		case policy.Hold:
			undo()
			if m.retryAt.IsZero() || dec.Until.Before(m.retryAt) {
				m.retryAt = dec.Until
			}
			return false
		case policy.Refuse, policy.NumVerdicts:
			undo()
			m.reject(e, m.refusal(e, ask, dec, vs))
			return true
		}
	}
	by.open = len(chosen)
	m.byCall[e.sub.Call] = by
	for _, a := range chosen {
		m.tickets[a.place.Claim.Ticket] = a
		m.emit(reserve{a.place.Ref, a.place.Claim, a.place.Incarnation})
	}
	return true
}

// book counts a reservation before it is answered, so that the next decision sees it.
func (m *machine) book(by *asking, e *entry, ask stream.Ask, v view, claim ledger.Claim, c policy.Candidate) *asked {
	claim.Ticket = m.newTicket()
	a := &asked{by: by, need: c.NeedBlocks, place: stream.Placement{
		Leg: ask.Leg, Claim: claim, Ref: v.ref, Incarnation: v.snap.Incarnation, EngineModel: v.snap.EngineModel,
		BlockTokens: v.snap.Load.Limits.BlockTokens, MaxTokens: int(claim.SequenceTokens - claim.PromptTokens),
		OverlapTokens: c.OverlapTokens,
	}}
	b := m.booked[v.ref.ID]
	b.requests++
	b.blocks += a.need
	b.seats += claim.Seats
	b.prefill += claim.PrefillTokens
	m.booked[v.ref.ID] = b
	return a
}

func (m *machine) unbook(a *asked) {
	id := a.place.Ref.ID
	b := m.booked[id]
	b.requests--
	b.blocks -= a.need
	b.seats -= a.place.Claim.Seats
	b.prefill -= a.place.Claim.PrefillTokens
	if b.requests == 0 {
		delete(m.booked, id)
		return
	}
	m.booked[id] = b
}

func (m *machine) granted(now time.Time, g *replica.Granted, vs []view) {
	a := m.tickets[g.Ticket]
	if a == nil {
		// A router before this one asked, and has told nobody.
		for _, v := range vs {
			if v.ref.ID == g.Replica {
				m.emit(giveBack{v.ref, g.Ticket})
			}
		}
		return
	}
	delete(m.tickets, g.Ticket)
	m.unbook(a)
	a.by.placed = append(a.by.placed, a.place)
	m.answered(now, a.by, vs)
}

func (m *machine) denied(now time.Time, r *replica.Refused, vs []view) {
	a := m.tickets[r.Ticket]
	if a == nil {
		return
	}
	delete(m.tickets, r.Ticket)
	m.unbook(a)
	a.by.refused = true
	m.emit(reranked{})
	m.answered(now, a.by, vs)
}

// answered goes on once every leg's reservation has been answered.
func (m *machine) answered(now time.Time, by *asking, vs []view) {
	if by.open--; by.open > 0 {
		return
	}
	call := by.entry.sub.Call
	if m.byCall[call] == by {
		delete(m.byCall, call)
	}
	if !by.refused && !by.gone {
		for _, p := range by.placed {
			m.speculate(now, by.entry, p, vs)
		}
		m.emit(dispatched{now.Sub(by.entry.sub.Arrival)})
		m.emit(tellCall{call, stream.Placed{Number: by.entry.sub.Number, Placements: by.placed}})
		return
	}
	for _, p := range by.placed {
		m.emit(giveBack{p.Ref, p.Claim.Ticket})
	}
	if by.gone {
		return
	}
	by.entry.ranks++
	if by.entry.ranks < m.cfg.RanksMax && m.place(now, by.entry, vs) {
		return
	}
	by.entry.ranks = 0
	m.enqueue(by.entry, true)
	// What was refused may fit again as soon as the snapshots have settled; do not wait for room alone.
	if at := now.Add(refusedRetry); m.retryAt.IsZero() || at.Before(m.retryAt) {
		m.retryAt = at
	}
}

// refusedRetry is when a request whose reservations were refused is tried again even if no room is reported.
const refusedRetry = 10 * time.Millisecond

// speculate counts a prompt as cached where it was routed, until the engine says so itself.
func (m *machine) speculate(now time.Time, e *entry, p stream.Placement, vs []view) {
	for _, v := range vs {
		if v.ref != p.Ref || v.place == nil {
			continue
		}
		for _, a := range e.sub.Legs {
			if a.Leg == p.Leg {
				keys := e.keysFor(m.cfg.Model, a.Prompt, v.place.BlockTokens)
				v.place.Index.Speculate(v.place.Slot, p.Claim.Ticket, keys, now.Add(m.cfg.SpeculationTTL))
			}
		}
	}
}

func withdrawSpeculation(vs []view, id scoring.ReplicaID, t scoring.Ticket) {
	for _, v := range vs {
		if v.ref.ID == id && v.place != nil {
			v.place.Index.Withdraw(v.place.Slot, t)
		}
	}
}

func (m *machine) withdraw(w stream.Withdraw) {
	if id, ok := m.queuedAs[w.Call]; ok {
		delete(m.queuedAs, w.Call)
		m.waiting.Remove(id)
		m.emit(tellCall{w.Call, stream.Withdrawn{Number: w.Number}})
		return
	}
	if by := m.byCall[w.Call]; by != nil && (w.Number == 0 || by.entry.sub.Number == w.Number) {
		by.gone = true
		delete(m.byCall, w.Call)
		m.emit(tellCall{w.Call, stream.Withdrawn{Number: w.Number}})
	}
}

// pump tries the waiting requests in order and turns away those whose time is up.
func (m *machine) pump(now time.Time, vs []view) {
	m.retryAt, m.deadlineAt = time.Time{}, time.Time{}
	tried := 0
	m.waiting.Each(func(q queue.Entry[*entry]) bool {
		e := q.Item
		tried++
		expired := !now.Before(e.deadline)
		if tried > m.cfg.ScanMax && !expired {
			m.keep(e)
			return false // behind the head entries the deadlines are in the queue's order: nobody further on is due
		}
		switch {
		case m.place(now, e, vs):
			m.dequeue(e)
		case expired:
			m.dequeue(e)
			m.reject(e, contended(m.retryAfter(), "no replica had room within %s; try again later", m.cfg.QueueTimeout))
		default:
			m.keep(e)
		}
		return true
	})
}

// keep remembers the first deadline of the queue.
func (m *machine) keep(e *entry) {
	if m.deadlineAt.IsZero() || e.deadline.Before(m.deadlineAt) {
		m.deadlineAt = e.deadline
	}
}

func (m *machine) dequeue(e *entry) {
	m.waiting.Remove(e.id)
	delete(m.queuedAs, e.sub.Call)
}

func (m *machine) reject(e *entry, f *fault.Fault) {
	m.emit(refused{f.Kind})
	m.emit(tellCall{e.sub.Call, stream.Rejected{Number: e.sub.Number, Fault: f}})
}

// refusal words a policy's refusal.
func (m *machine) refusal(e *entry, ask stream.Ask, dec policy.Decision, vs []view) *fault.Fault {
	switch dec.Cause {
	case policy.TooLarge:
		return tooLarge(e, vs)
	case policy.NoReplica, policy.NoCause, policy.NoRoom, policy.AllCool, policy.NumCauses:
	}
	if ask.LastFault != nil {
		return ask.LastFault
	}
	f := fault.New(fault.NoReplica, "no replica of model %q that could take this request is serving now; try again later", m.cfg.Model)
	f.RetryAfter = dec.RetryAfter
	return f
}

// retryAfter is about how long the queue needs, between a second and a minute, with some jitter so that refused clients
// do not come back together.
func (m *machine) retryAfter() time.Duration {
	prefill := m.learner.Rates("").PrefillSecondsPerToken * float64(m.waiting.Tokens())
	seconds := min(60, max(1, prefill))
	return time.Duration(seconds * (1 + 0.25*m.rng.Float64()) * float64(time.Second))
}

// nextTick is when the machine wants a tick: a held request's bound or the first deadline in the queue. It may come
// early, never late.
func (m *machine) nextTick() (time.Time, bool) {
	if m.waiting.Len() == 0 {
		return time.Time{}, false
	}
	if !m.retryAt.IsZero() && m.retryAt.Before(m.deadlineAt) {
		return m.retryAt, true
	}
	return m.deadlineAt, true
}
