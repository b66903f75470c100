package stream

import (
	"slices"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// effect is something the call does after a step, in order.
type effect interface{ isEffect() }

type (
	toRouter  struct{ message any }
	toReplica struct {
		ref     *fleet.Ref
		message any
	}
	startAttempt struct {
		attempt uint64
		place   Placement
		request engine.Request
	}
	abortAttempt struct{ attempt uint64 }
	// appendLeg is the machine's own and valid until its next step: it is made for every token.
	appendLeg struct {
		leg     int
		entries []Entry
		usage   Usage
	}
	finishLeg struct {
		leg    int
		finish Finish
		usage  Usage
	}
	placedLeg struct {
		leg     int
		replica scoring.ReplicaID
	}
	endResponse struct{ fault *fault.Fault } // nil: well
)

func (toRouter) isEffect()     {}
func (toReplica) isEffect()    {}
func (startAttempt) isEffect() {}
func (abortAttempt) isEffect() {}
func (*appendLeg) isEffect()   {}
func (finishLeg) isEffect()    {}
func (placedLeg) isEffect()    {}
func (endResponse) isEffect()  {}

// Events of the call's own, beside the messages.
type (
	// frame is what an attempt's goroutine read.
	frame struct {
		attempt uint64
		event   engine.Event
		at      time.Time
	}
	// attemptEnded is the return of Generate. err is nil after a finish.
	attemptEnded struct {
		attempt uint64
		err     error
	}
	// timeout: the time that nextTimeout named has come. May come early.
	timeout struct{}
	// overrun: what the client has not read exceeds its bound.
	overrun struct{}
)

// machine decides for one request. It is pure.
type machine struct {
	cfg   Config
	req   *Request
	model Model
	call  *Call // only named in messages

	prompts   []Prompt
	legs      []*legState
	attempts  map[uint64]*attempt // those whose Generate has not returned
	nextID    uint64
	now       time.Time // of the step
	waiting   wait
	asked     uint64 // numbers submissions, so that the answer to an old one is told from the present one's
	resubmits int
	ended     bool   // the response has ended
	cached    []*int // by prompt; nil: not known
	told      []*int // by prompt: the length that the engine gave a raw one; nil: not known
	retries   *share // in the model's budget
	hedge     hedge
	pollAt    time.Time // when legs that are parked try again
	// epochs are those that restarted replicas were answered in.
	epochs map[*fleet.Ref]uint64

	out      []effect // of this step; its memory is used again by the next one
	appended appendLeg
}

func newMachine(cfg Config, req *Request, model Model, call *Call, retries *share) *machine {
	prompts := req.Input.Prompts()
	m := &machine{
		cfg: cfg, req: req, model: model, call: call, retries: retries,
		attempts: map[uint64]*attempt{}, cached: make([]*int, prompts), told: make([]*int, prompts),
		epochs: map[*fleet.Ref]uint64{},
	}
	for i := range prompts * req.N {
		m.legs = append(m.legs, newLeg(req, model, i))
	}
	return m
}

func (m *machine) emit(e effect) { m.out = append(m.out, e) }

// begin forgets the effects of the step before.
func (m *machine) begin(now time.Time) {
	m.now = now
	clear(m.out)
	m.out = m.out[:0]
}

// start submits the request.
func (m *machine) start(now time.Time) []effect {
	m.begin(now)
	asks := make([]Ask, len(m.legs))
	for i, l := range m.legs {
		asks[i] = Ask{Leg: i, Prompt: l.prompt}
	}
	m.submit(asks)
	return m.out
}

// done says that nothing is left to decide: the response has ended and every attempt that has not returned was aborted. Of
// those the replicas know that they linger. Nobody is waited for, neither the router nor an engine.
func (m *machine) done() bool {
	if !m.ended {
		return false
	}
	for _, a := range m.attempts {
		if !a.aborted {
			return false
		}
	}
	return true
}

// step takes one event and returns what is to be done, in order. The effects are valid until the next step.
func (m *machine) step(now time.Time, event any) []effect {
	m.begin(now)
	switch e := event.(type) {
	case Encoded:
		m.encoded(e)
	case Placed:
		m.placed(now, e)
	case Rejected:
		m.rejected(e)
	case Withdrawn:
		m.answered(e.Number)
	case Known:
		m.known(e)
	case Lost:
		if e.Number == m.asked {
			m.again()
		}
	case RouterRestarted:
		m.again()
	case TokenizerRestarted:
		if m.prompts == nil { // else it has passed on what it was asked
			m.again()
		}
	case ReplicaRestarted:
		m.announce(e)
	case Leave:
		m.leave(now, e)
	case attemptEnded:
		m.attemptEnded(now, e)
	case clientGone:
		m.fail(&fault.Fault{Kind: fault.ClientGone, Message: "the client has left"})
	case overrun:
		m.fail(fault.New(fault.SlowReader,
			"the answer is read too slowly: more than %d bytes of it wait to be read; read faster, or ask for a shorter answer", m.cfg.JournalBytes))
	case Shutdown:
		m.fail(e.Fault)
	case timeout:
		m.timeout(now)
	}
	return m.out
}

// read is step for a frame: it comes once a token, so it does without an interface value.
func (m *machine) read(f frame) []effect {
	m.begin(f.at)
	m.frame(f)
	return m.out
}

func (m *machine) rejected(e Rejected) {
	switch {
	case !m.answered(e.Number):
	case m.hedge.stage == hedgeAsked:
		m.unhedge(HedgeRefused)
	default:
		m.fail(e.Fault)
	}
}

func (m *machine) placed(now time.Time, e Placed) {
	asks := m.waiting.asks
	current := m.answered(e.Number)
	// A replica that restarted between its grant and now has heard from us of no such ticket, and books none for it.
	lost := slices.ContainsFunc(e.Placements, func(p Placement) bool { return p.Epoch < m.epochs[p.Ref] })
	if m.ended || !current || lost {
		for _, p := range e.Placements {
			m.emit(toReplica{p.Ref, fleet.End{Ticket: p.Claim.Ticket, Reason: ledger.Cancelled}})
			m.emit(toRouter{Failed{Replica: p.Ref.ID, Ticket: p.Claim.Ticket}}) // nothing comes of it
		}
		if current && !m.ended {
			if m.hedge.stage == hedgeAsked {
				m.unhedge(HedgeRefused)
				return
			}
			m.submit(asks)
		}
		return
	}
	for _, p := range e.Placements {
		m.attempt(now, p)
	}
	// Of legs that go on the router places those that it can.
	rest := slices.DeleteFunc(asks, func(a Ask) bool {
		return slices.ContainsFunc(e.Placements, func(p Placement) bool { return p.Leg == a.Leg })
	})
	if len(rest) > 0 {
		m.submit(rest)
	}
}

// attempt begins an attempt where a leg was placed.
func (m *machine) attempt(now time.Time, p Placement) {
	l := m.legs[p.Leg]
	m.nextID++
	l.attempts++
	l.only = nil
	a := &attempt{
		id: m.nextID, leg: l, place: p, base: l.produced, input: l.input, began: now, last: now,
	}
	if a.input == nil {
		a.input = m.prompts[l.prompt].IDs
	}
	if a.base == 0 {
		a.limit = p.MaxTokens
	} else { // However much room there is here, the answer gets no longer than it could become where it began.
		a.limit = min(l.limit, a.base+p.MaxTokens)
	}
	m.attempts[a.id] = a
	if m.hedge.stage == hedgeAsked {
		m.hedge = hedge{hedgeRunning, a.id}
		m.emit(hedged{HedgeBegun})
	} else {
		if a.base == 0 {
			l.limit = a.limit
		}
		m.emit(placedLeg{p.Leg, p.Ref.ID})
	}
	m.emit(startAttempt{a.id, p, m.request(a)})
}

// request is what the engine is asked for: of an answer that goes on, the rest.
func (m *machine) request(a *attempt) engine.Request {
	l, p := a.leg, &a.place
	sampling := m.req.Sampling
	if sampling.Seed != nil {
		seed := *sampling.Seed + int64(l.index%m.req.N)
		sampling.Seed = &seed
	}
	if m.raw(l) {
		// What the client wants of sampling, stops and ends stands in its body.
		return engine.Request{
			ID: p.Claim.Ticket.String(), Model: p.EngineModel, ChatBody: m.req.Input.ChatBody,
			MaxTokens: p.MaxTokens, MinTokens: m.req.MinTokens, Sampling: sampling, IgnoreEOS: m.req.IgnoreEOS,
			TopLogprobs: m.req.TopLogprobs, CacheSalt: m.req.CacheSalt, LoRA: m.req.LoRA,
		}
	}
	ends := m.req.StopTokenIDs // the client's own end the answer in any case
	if !m.req.IgnoreEOS {
		ends = slices.Concat(m.model.EndTokens, ends)
	}
	return engine.Request{
		ID: p.Claim.Ticket.String(), Model: p.EngineModel, PromptTokens: a.input,
		MaxTokens: a.limit - a.base, MinTokens: max(0, m.req.MinTokens-a.base), Sampling: sampling,
		EndTokens: ends, IgnoreEOS: m.req.IgnoreEOS,
		TopLogprobs: m.req.TopLogprobs, CacheSalt: m.req.CacheSalt, LoRA: m.req.LoRA,
	}
}

// raw says whether the engine renders a leg's prompt and reads its answer.
func (m *machine) raw(l *legState) bool { return m.prompts[l.prompt].Raw }

// announce answers a replica's new epoch with the tickets that live there.
func (m *machine) announce(e ReplicaRestarted) {
	m.epochs[e.Ref] = e.Epoch
	answer := fleet.Announced{Epoch: e.Epoch}
	for _, id := range sortedKeys(m.attempts) {
		if a := m.attempts[id]; a.place.Ref == e.Ref {
			answer.Tickets = append(answer.Tickets, a.announcement())
		}
	}
	m.emit(toReplica{e.Ref, answer})
}

// fail ends the request with a fault: everything that runs is aborted.
func (m *machine) fail(f *fault.Fault) {
	if m.ended {
		return
	}
	m.ended = true
	m.emit(endResponse{f})
	outcome := GivenUp
	if f.Kind == fault.ClientGone {
		outcome = Left
	}
	for _, l := range m.legs {
		m.observe(l, outcome, 0, nil)
		m.calm(l)
		l.parked = nil
	}
	m.endHedge()
	m.forsake()
	for _, id := range sortedKeys(m.attempts) {
		m.abort(m.attempts[id])
	}
}

func (m *machine) usage() Usage {
	u := Usage{}
	for i := range m.prompts {
		if told := m.told[i]; told != nil {
			u.PromptTokens += *told
		} else {
			u.PromptTokens += m.prompts[i].Tokens()
		}
	}
	for _, l := range m.legs {
		u.CompletionTokens += l.produced
	}
	for _, known := range m.cached {
		if known != nil {
			u.CachedTokens += *known
			u.CachedKnown = true
		}
	}
	return u
}

func sortedKeys(attempts map[uint64]*attempt) []uint64 {
	keys := make([]uint64, 0, len(attempts))
	for k := range attempts {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
