package router

import (
	"math/rand/v2"
	"time"

	"plimsoll/actors/explain"
	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/scoring/cost"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/policy"
	"plimsoll/scoring/prefix"
	"plimsoll/scoring/queue"
	"plimsoll/scoring/slo"
)

// booking is what the router has asked a replica for and its snapshot does not show yet.
type booking struct {
	pending cost.Pending
	blocks  scoring.Blocks
	seats   int
	asked   line // in the order of their tickets
}

// asking is a submission whose reservations are under way.
type asking struct {
	entry   *entry
	open    int                // answers still to come
	placed  []stream.Placement // the call's, once it is told
	waited  time.Duration      // until it was placed
	refused bool
	gone    bool // withdrawn meanwhile
}

// asked is one reservation under way.
type asked struct {
	by     *asking
	place  stream.Placement
	at     int // the replica's place in the fleet, in the step that books it
	prompt int // of the submission
	need   scoring.Blocks
	booked bool
	// overdue is when it counts as refused if it is not answered by then.
	overdue time.Time
	// prefill is how long its prompt is predicted to take its replica, and firstToken how long that takes behind all that waits
	// there, where the replica has shown its own speed: predicted.
	predicted           bool
	seen                bool // the engine was seen at such work
	prefill, firstToken time.Duration
	// Its prompt counts as cached in this place, by these keys, until then.
	cached struct {
		in    *fleet.Place
		keys  []prefix.Key
		until time.Time
	}
	links [numLines]links
}

// machine decides for one model. It is pure: time, tickets and what the replicas published are arguments.
type machine struct {
	cfg     Config
	policy  policy.Policy
	rng     *rand.Rand
	learner *cost.Learner
	// estimator is what decisions ask what to expect: the learner.
	estimator cost.Estimator

	fleet []policy.Candidate // as the pass sees it
	pass  pass
	first map[scoring.ReplicaID]time.Time // the last first token of each replica

	outliers outliers
	uses     uses

	booked  map[scoring.ReplicaID]*booking
	tickets map[scoring.Ticket]*asked
	byCall  map[*stream.Call]*asking
	open    line // what is asked for and not answered, in that order

	resumed resumed

	waiting   *queue.Queue[*entry]
	nextID    queue.ID
	queuedAs  map[*stream.Call]*entry
	deadlines indexed[*entry] // of what waits
	queued    slo.Ahead       // the sum of what it takes
	aims      aims
	// fresh are the first blocks of prompts dispatched since the last pump: who shares one may need less room than it did.
	fresh map[prefix.Key]struct{}
	// unsaid is whose prompts this step has counted as cached and no index has been told.
	unsaid []*asked
	// bound is a time before which no waiting request has waited as long as it may for a better replica.
	bound time.Time
	// retryAt is when a held request wants to be decided again though nothing was heard; zero if none does.
	retryAt time.Time
	due     bool // that time has come
	lifted  bool // in this step, what was kept for one that has left the queue

	newTicket func() scoring.Ticket
	out       []effect
	scratch   scratch
	spare     spare

	// trace takes notes of what a step decides and hears; nil: nobody reads them.
	trace *explain.Batch
	now   time.Time // of the step
}

func newMachine(cfg Config, rng *rand.Rand, newTicket func() scoring.Ticket) (*machine, error) {
	p, err := policy.New(cfg.Policy, rng)
	if err != nil {
		return nil, err
	}
	learner := cost.NewLearner(cost.DefaultConfig())
	return &machine{
		cfg: cfg, policy: p, rng: rng, learner: learner, estimator: learner, first: map[scoring.ReplicaID]time.Time{},
		waiting: queue.New[*entry](cfg.Queue), booked: map[scoring.ReplicaID]*booking{},
		tickets: map[scoring.Ticket]*asked{}, byCall: map[*stream.Call]*asking{},
		queuedAs: map[*stream.Call]*entry{}, newTicket: newTicket, deadlines: newDeadlines(), open: line{which: unanswered}, spare: newSpare(),
		resumed: newResumed(), aims: aims{expected: map[scoring.Ticket]expected{}},
	}, nil
}

func (m *machine) emit(e effect) { m.out = append(m.out, e) }

// tick is a call of the machine's timer.
type tick struct{}

// step takes one message and returns what is to be done, which is good until the next step. vs is the fleet, ordered by ID; it is
// not kept.
func (m *machine) step(now time.Time, message any, vs []view) []effect {
	clear(m.out)
	m.out, m.pass.begun, m.now = m.out[:0], false, now
	m.spare.turn()
	m.settle(vs)
	switch e := message.(type) {
	case *stream.Submit: // with prompts
		m.admit(now, e, vs)
	case stream.Withdraw:
		m.withdraw(e)
	case stream.Inquire:
		m.inquire(e)
	case *fleet.Granted:
		m.granted(now, e, vs)
	case *fleet.Refused:
		m.denied(now, e, vs)
	case fleet.Room:
		m.pump(now, vs)
	case tick:
		m.tick(now, vs)
	case stream.FirstToken:
		m.firstToken(now, e, vs)
	case stream.Steps:
		m.steps(now, e, vs)
	case stream.Finished:
		if !e.Broken {
			m.learner.Output(e.Prompt, e.Produced, e.Limit)
		}
		m.trace.Finished(now, e.Ticket, e.Replica, e.Produced, e.Prompt, e.Cached, e.Broken)
		m.ended(now, e.Replica, e.Ticket, vs)
	case stream.Failed:
		m.trace.Failed(now, e.Ticket, e.Replica)
		m.ended(now, e.Replica, e.Ticket, vs)
	}
	if m.lifted {
		m.lifted, m.due = false, true
		m.pump(now, vs)
	}
	m.emitSpeculated()
	return m.out
}

// ended hears of the end of an attempt.
func (m *machine) ended(now time.Time, id scoring.ReplicaID, t scoring.Ticket, vs []view) {
	m.policy.OnEnd(id)
	delete(m.aims.expected, t)
	withdrawSpeculation(vs, id, t)
	m.prefilled(now, t, vs)
}

// admit checks a submission against what the fleet could ever hold and tries to place it, after those that wait.
func (m *machine) admit(now time.Time, sub *stream.Submit, vs []view) {
	m.supersede(sub.Call)
	m.nextID++
	e := m.spare.entries.take()
	e.begin(m.nextID, sub)
	e.came = now
	if sub.Hedge {
		m.hedge(now, e, vs)
		return
	}
	if sub.Begun {
		// It was let in when it came, and what it has produced is lost if it is turned away.
		e.patience = since(sub).Add(m.cfg.ResumeWait)
		m.ready(now, vs)
		m.know(now, e, vs)
		m.enqueue(now, e, true, vs)
		m.pump(now, vs)
		return
	}
	e.patience = sub.Arrival.Add(m.cfg.QueueTimeout)
	if sub.Again {
		// Its first attempt's failure is not its fault: it has the whole time again.
		e.patience = now.Add(m.cfg.QueueTimeout)
	}
	if away := m.outOfBounds(now, e, vs); away != nil {
		m.reject(e, away)
		return
	}
	if away := m.tooSlow(now, e, vs); away != nil {
		m.reject(e, away)
		return
	}
	if m.waiting.Len() > 0 {
		// Room that nobody has heard of yet is for those who stand before it.
		m.know(now, e, vs)
		if away := m.useless(now, e, vs); away != nil {
			m.reject(e, away)
		} else if m.enqueue(now, e, sub.Again, vs) && !m.outrun(now, e, vs) {
			m.pump(now, vs)
		}
		return
	}
	if e.aims() {
		if away := m.hopeless(now, e, slo.Ahead{}, vs); away != nil {
			m.reject(e, away)
			return
		}
	}
	if !m.place(now, e, vs) {
		m.enqueue(now, e, sub.Again, vs)
	}
}

// outOfBounds turns an entry away that is not served whatever the fleet does at the moment.
func (m *machine) outOfBounds(now time.Time, e *entry, vs []view) *turned {
	param := paramOf(e.sub.Call.Request)
	for _, a := range e.legs() {
		if e.promptTokens(a) == 0 {
			return &turned{fault.Malformed, fault.Invalid(param, "the prompt is empty: there is nothing to continue")}
		}
		if most := m.cfg.PromptTokensMax; most != nil && e.promptTokens(a) > *most {
			f := fault.New(fault.ContextLength, "the prompt has %d tokens, but this server takes at most %d; shorten the prompt",
				e.promptTokens(a), *most)
			f.Param = param
			return &turned{fault.TooLarge, f}
		}
	}
	if len(e.legs()) == 1 {
		return nil // the policy says it
	}
	m.ready(now, vs)
	return m.never(e, vs)
}

// outrun turns an entry away that has just taken its place in the queue if too much stands before it.
func (m *machine) outrun(now time.Time, e *entry, vs []view) bool {
	if !e.aims() {
		return false
	}
	away := m.hopeless(now, e, m.ahead(now, e), vs)
	if away == nil {
		return false
	}
	m.leaveQueue(e)
	m.reject(e, away)
	return true
}

// supersede forgets an older submission of the same call: it was made to an instance of the router that failed, and came
// to this one all the same.
func (m *machine) supersede(call *stream.Call) {
	if e := m.queuedAs[call]; e != nil {
		m.leaveQueue(e)
		m.spare.entries.give(e)
	}
	if by := m.byCall[call]; by != nil {
		by.gone = true
		delete(m.byCall, call)
	}
}

// predict says how long a reservation's prompt will take its replica, as far as that has shown its own speed.
func (m *machine) predict(now time.Time, a *asked, vs []view) {
	c, v := &a.place.Claim, &vs[a.at]
	if a.by.entry.sub.Prompts[a.prompt].Raw || !m.estimator.KnowsPrefill(v.ref.ID, c.PrefillTokens, c.PromptTokens-c.PrefillTokens) {
		return
	}
	rates, _ := m.estimator.At(now, v.ref.ID)
	others := m.pending(v.ref.ID).pending
	others.Requests, others.PromptTokens, others.PrefillTokens = others.Requests-1, others.PromptTokens-c.PromptTokens, others.PrefillTokens-c.PrefillTokens
	at := cost.ReplicaAt(now, &v.snap.Load, others, rates)
	a.predicted, a.seen = true, v.snap.Seen.Covers(a.work())
	a.prefill = seconds(rates.PrefillSeconds(c.PrefillTokens, c.PromptTokens-c.PrefillTokens) + at.PassSeconds())
	a.firstToken = a.prefill + seconds(at.WaitSeconds)
}

func (m *machine) granted(now time.Time, g *fleet.Granted, vs []view) {
	a := m.tickets[g.Ticket]
	v := find(vs, g.Replica)
	if a == nil {
		// A router before this one asked, and has told nobody.
		withdrawSpeculation(vs, g.Replica, g.Ticket)
		if v != nil {
			m.emit(giveBack{v.ref, g.Ticket})
		}
		return
	}
	if v != nil && v.snap.Epoch != g.Snapshot.Epoch {
		// The instance that granted it has failed since. The call knows nothing of this ticket yet, so it can't announce it,
		// and the new instance will never have heard of it.
		m.emit(giveBack{v.ref, g.Ticket})
		m.denied(now, &fleet.Refused{Ticket: g.Ticket, Replica: g.Replica, Reason: ledger.Closed, Snapshot: v.snap}, vs)
		return
	}
	m.answer(a)
	p := a.place
	p.Epoch = g.Snapshot.Epoch
	if a.predicted && a.seen {
		p.FirstToken = new(a.firstToken)
	}
	a.by.placed = append(a.by.placed, p)
	m.answered(now, a.by, vs)
}

// answer takes a reservation off that is answered.
func (m *machine) answer(a *asked) {
	delete(m.tickets, a.place.Claim.Ticket)
	m.open.remove(a)
	m.unbook(a)
	m.spare.asked.give(a)
}

func (m *machine) denied(now time.Time, r *fleet.Refused, vs []view) {
	a := m.tickets[r.Ticket]
	if a == nil {
		withdrawSpeculation(vs, r.Replica, r.Ticket) // of a router before this one
		return
	}
	m.answer(a)
	m.resumed.end(r.Ticket)
	withdrawSpeculation(vs, r.Replica, r.Ticket)
	a.by.refused = true
	a.by.entry.bar(now, r)
	m.trace.Denied(now, r.Ticket, r.Replica, r.Reason.String())
	if !a.by.entry.sub.Hedge {
		m.emit(reranked{})
	}
	m.answered(now, a.by, vs)
}

// unanswered counts reservations as refused whose time is up. A grant that comes later is given back.
func (m *machine) unanswered(now time.Time, vs []view) {
	for a := m.open.first; a != nil && !now.Before(a.overdue); a = m.open.first {
		id := a.place.Ref.ID
		snap := &fleet.Snapshot{ID: id}
		if v := find(vs, id); v != nil {
			snap = v.snap
		}
		m.denied(now, &fleet.Refused{Ticket: a.place.Claim.Ticket, Replica: id, Reason: ledger.Closed, Snapshot: snap}, vs)
	}
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
	if !by.gone && (!by.refused || by.entry.sub.Begun && len(by.placed) > 0) {
		for _, p := range by.placed {
			m.rode(by.entry, p, vs)
			m.trace.Placed(now, p.Claim.Ticket)
		}
		m.expect(by.entry, by.placed[0].Claim.Ticket, now)
		if !by.entry.sub.Hedge { // it is no second request
			by.waited = now.Sub(by.entry.began())
			m.emit(dispatched{by})
		}
		m.emit(placed{by})
		m.spare.entries.give(by.entry)
	} else {
		for _, p := range by.placed {
			m.resumed.end(p.Claim.Ticket)
			withdrawSpeculation(vs, p.Ref.ID, p.Claim.Ticket)
			m.emit(giveBack{p.Ref, p.Claim.Ticket})
			m.trace.Denied(now, p.Claim.Ticket, p.Ref.ID, "given back")
		}
		if by.gone {
			m.spare.entries.give(by.entry)
		} else {
			m.again(now, by.entry, vs)
		}
	}
	m.spare.asking.give(by)
	m.pump(now, vs) // what it was booked for and did not get, or needs less of than was booked, others may take
}

// refusedRest is how long a submission rests that was refused after all its re-ranks, or after some of its legs had been
// granted: what it gives back is room to others, and theirs to it, so that they could go on in turns for ever.
const refusedRest = 10 * time.Millisecond

// again ranks a submission anew that was refused, or puts it to the head of the queue.
func (m *machine) again(now time.Time, e *entry, vs []view) {
	if e.sub.Hedge {
		m.decline(e)
		return
	}
	e.reranks++
	ranked := e.reranks <= m.cfg.RanksMax
	if m.leaves(now, e) {
		// The pump that follows knows what room is kept.
		if away := m.useless(now, e, vs); away != nil {
			m.reject(e, away)
			return
		}
	} else if ranked && m.place(now, e, vs) {
		return
	}
	e.reranks = 0
	if !ranked || len(e.legs()) > 1 {
		e.rests = now.Add(refusedRest)
	}
	m.enqueue(now, e, true, vs)
}
