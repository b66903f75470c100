package stream

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/replica"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// attempt is one try of a leg on one replica.
type attempt struct {
	id       uint64
	place    Placement
	began    time.Time
	last     time.Time // when it last showed progress
	produced int       // tokens of this attempt
	started  bool      // the replica was told of the first token
	reported int       // tokens at the last Progress message
	stepped  time.Time // when that was
	settled  bool      // the leg needs no more of it; its finish is awaited
	aborted  bool
	lingers  bool // the replica was told that the engine will let go by itself
}

// frame is what an attempt's goroutine read.
type frame struct {
	attempt uint64
	event   engine.Event
	at      time.Time
}

// attemptEnded is the return of Generate. err is nil after a finish.
type attemptEnded struct {
	attempt uint64
	err     error
}

// effect is something the call does after a step, in order.
type effect interface{ isEffect() }

type (
	toRouter  struct{ message any }
	toReplica struct {
		ref     *replica.Ref
		message any
	}
	startAttempt struct {
		attempt uint64
		leg     int
		place   Placement
		request engine.Request
	}
	abortAttempt struct{ attempt uint64 }
	appendLeg    struct {
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
func (appendLeg) isEffect()    {}
func (finishLeg) isEffect()    {}
func (placedLeg) isEffect()    {}
func (endResponse) isEffect()  {}

// machine decides for one request. It is pure.
type machine struct {
	cfg   Config
	req   *Request
	model Model
	call  *Call // only named in messages

	prompts   []Prompt
	legs      []*legState
	attempts  map[uint64]*attempt
	legOf     map[uint64]*legState
	nextID    uint64
	waiting   []Ask  // asked of the router and not answered; nil if nothing is asked
	asked     uint64 // numbers submissions, so that the answer to an old one is told from the present one's
	resubmits int
	ended     bool // the response has ended
	cached    []int
	cachedSet []bool

	out []effect
}

func newMachine(cfg Config, req *Request, model Model, call *Call) *machine {
	m := &machine{
		cfg: cfg, req: req, model: model, call: call,
		attempts: map[uint64]*attempt{}, legOf: map[uint64]*legState{},
	}
	prompts := req.Input.Prompts()
	m.cached, m.cachedSet = make([]int, prompts), make([]bool, prompts)
	for i := range prompts * req.N {
		m.legs = append(m.legs, newLeg(req, model, i))
	}
	return m
}

func (m *machine) emit(e effect) { m.out = append(m.out, e) }

// start submits the request.
func (m *machine) start() []effect {
	m.out = nil
	asks := make([]Ask, len(m.legs))
	for i, l := range m.legs {
		asks[i] = Ask{Leg: i, Prompt: l.prompt}
	}
	m.submit(asks)
	return m.out
}

func (m *machine) submit(asks []Ask) {
	m.waiting = asks
	m.asked++
	again := slices.ContainsFunc(asks, func(a Ask) bool { return m.legs[a.Leg].attempts > 0 })
	m.emit(toRouter{&Submit{
		Call: m.call, Number: m.asked, Arrival: m.req.Arrival, Prompts: m.prompts, Legs: asks, Again: again,
	}})
}

// done says that nothing is left to do: the response has ended, no attempt runs and the router owes no answer.
func (m *machine) done() bool { return m.ended && len(m.attempts) == 0 && m.waiting == nil }

// step takes one event and returns what is to be done.
func (m *machine) step(now time.Time, event any) []effect {
	m.out = nil
	switch e := event.(type) {
	case Encoded:
		m.prompts = e.Prompts
	case Placed:
		m.placed(now, e)
	case Rejected:
		if e.Number == m.asked {
			m.waiting = nil
			m.fail(e.Fault)
		}
	case Withdrawn:
		if e.Number == m.asked {
			m.waiting = nil
		}
	case RouterRestarted:
		m.routerRestarted()
	case ReplicaRestarted:
		m.announce(e)
	case frame:
		m.frame(e)
	case attemptEnded:
		m.attemptEnded(now, e)
	case clientGone:
		m.fail(&fault.Fault{Kind: fault.ClientGone, Message: "the client has left"})
	case Shutdown:
		m.fail(e.Fault)
	case timeout:
		m.timeout(now)
	}
	return m.out
}

func (m *machine) placed(now time.Time, e Placed) {
	current := e.Number == m.asked
	if current {
		m.waiting = nil
	}
	if m.ended || !current {
		for _, p := range e.Placements {
			m.emit(toReplica{p.Ref, replica.End{Ticket: p.Claim.Ticket, Reason: ledger.Cancelled}})
		}
		return
	}
	for _, p := range e.Placements {
		l := m.legs[p.Leg]
		m.nextID++
		l.attempts++
		l.attempt = &attempt{id: m.nextID, place: p, began: now, last: now, stepped: now}
		m.attempts[m.nextID], m.legOf[m.nextID] = l.attempt, l
		m.emit(placedLeg{p.Leg, p.Ref.ID})
		m.emit(startAttempt{m.nextID, p.Leg, p, m.request(l, p)})
	}
}

// request is what the engine is asked for.
func (m *machine) request(l *legState, p Placement) engine.Request {
	sampling := m.req.Sampling
	if sampling.Seed != nil {
		seed := *sampling.Seed + int64(l.index%m.req.N)
		sampling.Seed = &seed
	}
	return engine.Request{
		ID: p.Claim.Ticket.String(), Model: p.EngineModel, PromptTokens: m.prompts[l.prompt].IDs,
		MaxTokens: p.MaxTokens, MinTokens: m.req.MinTokens, Sampling: sampling,
		EndTokens: slices.Concat(m.model.EndTokens, m.req.StopTokenIDs), IgnoreEOS: m.req.IgnoreEOS,
		TopLogprobs: m.req.TopLogprobs, CacheSalt: m.req.CacheSalt,
	}
}

func (m *machine) routerRestarted() {
	if m.waiting == nil {
		return
	}
	if m.ended {
		m.waiting = nil // it has forgotten the withdrawal with all the rest
		return
	}
	if m.resubmits++; m.resubmits > m.cfg.ResubmitsMax {
		m.waiting = nil
		m.fail(fault.New(fault.Internal, "the request could not be routed"))
		return
	}
	m.submit(m.waiting)
}

// announce answers a replica's new epoch with the tickets that live there.
func (m *machine) announce(e ReplicaRestarted) {
	answer := replica.Announced{Epoch: e.Epoch}
	for _, id := range sortedKeys(m.attempts) {
		a := m.attempts[id]
		if a.place.Ref != e.Ref {
			continue
		}
		state := ledger.Reserved
		switch {
		case a.lingers:
			state = ledger.Lingering
		case a.produced > 0:
			state = ledger.Running
		}
		answer.Tickets = append(answer.Tickets, replica.Announcement{
			Claim: a.place.Claim, State: state, Produced: scoring.Tokens(a.produced), Incarnation: a.place.Incarnation,
		})
	}
	m.emit(toReplica{e.Ref, answer})
}

func (m *machine) frame(f frame) {
	a, l := m.attempts[f.attempt], m.legOf[f.attempt]
	if a == nil || a.aborted {
		return
	}
	a.last = f.at
	if f.event.CachedTokens != nil && l.index%m.req.N == 0 && !m.cachedSet[l.prompt] {
		m.cached[l.prompt], m.cachedSet[l.prompt] = *f.event.CachedTokens, true
	}
	var entries []Entry
	var finish *Finish
	for _, t := range f.event.Tokens {
		if a.settled || finish != nil {
			break
		}
		a.produced += 1 + t.LostIDs
		var entry Entry
		var err error
		entry, finish, err = l.token(m.req, m.model, a.place.MaxTokens, t, f.at)
		if err != nil {
			m.fail(&fault.Fault{Kind: fault.EngineFailed, Message: "the engine sent a token that the tokenizer does not know", Err: err})
			return
		}
		entries = append(entries, entry)
	}
	if len(entries) > 0 {
		m.milestones(f.at, l, a)
		m.emit(appendLeg{l.index, entries, m.usage()})
	}
	m.conclude(l, a, finish, f.event.Finish)
}

// conclude ends the leg if its own rules or the engine say so.
func (m *machine) conclude(l *legState, a *attempt, finish *Finish, said *engine.Finish) {
	if said != nil {
		a.settled = true
	}
	if l.finished {
		return
	}
	if finish == nil && said != nil {
		switch said.Reason {
		case engine.FinishAbort:
			a.settled = false // an attempt that somebody else ended: attemptEnded draws the conclusion
			return
		case engine.FinishStop, engine.FinishLength, engine.NumFinishReasons:
			reason := StopEnd
			if said.Reason == engine.FinishLength {
				reason = StopLength
			}
			var err error
			if finish, err = l.end(reason); err != nil {
				m.fail(&fault.Fault{Kind: fault.EngineFailed, Message: "the answer's end could not be decoded", Err: err})
				return
			}
		}
	}
	if finish == nil {
		return
	}
	l.finished = true
	m.emit(finishLeg{l.index, *finish, m.usage()})
	switch {
	case said != nil:
	case finish.StopString != nil || finish.StopToken != nil:
		m.abort(a) // the engine does not know that it is over
	default:
		a.settled = true // it knows: its own end is awaited, so that nothing lingers
	}
	if !slices.ContainsFunc(m.legs, func(l *legState) bool { return !l.finished }) {
		m.ended = true
		m.emit(endResponse{})
	}
}

// milestones tells replica and router of the first token and of every block.
func (m *machine) milestones(at time.Time, l *legState, a *attempt) {
	p := a.place
	if !a.started {
		a.started, a.stepped, a.reported = true, at, a.produced
		m.emit(toReplica{p.Ref, replica.Started{Ticket: p.Claim.Ticket}})
		hit := p.Claim.PromptTokens - p.Claim.PrefillTokens
		m.emit(toRouter{FirstToken{
			Replica: p.Ref.ID, PrefillTokens: p.Claim.PrefillTokens, HitTokens: hit, Took: at.Sub(a.began),
		}})
		if !p.Ref.Capabilities.KVEvents {
			m.emit(toReplica{p.Ref, replica.Learned{Salt: m.req.CacheSalt, Tokens: m.prompts[l.prompt].IDs}})
		}
		return
	}
	every := max(16, int(p.BlockTokens))
	if n := a.produced - a.reported; n >= every {
		m.emit(toReplica{p.Ref, replica.Progress{Ticket: p.Claim.Ticket, Produced: scoring.Tokens(a.produced)}})
		m.emit(toRouter{Steps{
			Replica: p.Ref.ID, KVTokens: p.Claim.PromptTokens + scoring.Tokens(a.produced),
			Gap: at.Sub(a.stepped) / time.Duration(n),
		}})
		a.reported, a.stepped = a.produced, at
	}
}

// abort ends an attempt from our side. What it holds lingers until the engine lets go.
func (m *machine) abort(a *attempt) {
	if a.aborted {
		return
	}
	a.aborted = true
	m.emit(abortAttempt{a.id})
	if !a.place.Ref.Capabilities.ConfirmsAbort && !a.lingers {
		a.lingers = true
		m.emit(toReplica{a.place.Ref, replica.Linger{Ticket: a.place.Claim.Ticket}})
	}
}

func (m *machine) attemptEnded(now time.Time, e attemptEnded) {
	a, l := m.attempts[e.attempt], m.legOf[e.attempt]
	delete(m.attempts, e.attempt)
	delete(m.legOf, e.attempt)
	ref, ticket := a.place.Ref, a.place.Claim.Ticket
	switch {
	case e.err == nil:
		m.emit(toReplica{ref, replica.End{Ticket: ticket, Reason: ledger.Finished}})
	case a.aborted:
		if ref.Capabilities.ConfirmsAbort {
			m.emit(toReplica{ref, replica.End{Ticket: ticket, Reason: ledger.Cancelled}})
		}
	default:
		m.emit(toReplica{ref, replica.AttemptFailed{Ticket: ticket, Failure: failureOf(e.err)}})
	}
	if a.produced > 0 {
		m.emit(toRouter{Finished{Replica: ref.ID, Ticket: ticket, Produced: scoring.Tokens(a.produced)}})
		if !ref.Capabilities.KVEvents {
			ids := slices.Concat(m.prompts[l.prompt].IDs, l.ids)
			m.emit(toReplica{ref, replica.Learned{Salt: m.req.CacheSalt, Tokens: ids}})
		}
	} else {
		m.emit(toRouter{Failed{Replica: ref.ID, Ticket: ticket}})
	}
	if l.attempt == a {
		l.attempt = nil
	}
	if m.ended || l.finished {
		return
	}
	f := failureOf(e.err)
	if e.err == nil {
		f = &engine.Failure{Kind: engine.Broken, FromEngine: true, Message: "the request was aborted on the engine"}
	}
	m.legFailed(now, l, a, f)
}

// legFailed routes a leg anew if nothing of it was produced, else it fails the request.
func (m *machine) legFailed(_ time.Time, l *legState, a *attempt, f *engine.Failure) {
	flt := faultOf(f)
	if l.produced > 0 || f.Kind == engine.Client || l.attempts >= m.cfg.AttemptsMax {
		m.fail(flt)
		return
	}
	l.excluded = append(l.excluded, Exclusion{a.place.Ref.ID, a.place.Incarnation})
	ask := Ask{Leg: l.index, Prompt: l.prompt, Excluded: l.excluded, LastFault: flt}
	if m.waiting != nil {
		// Another leg waits already. One submission at a time: this one joins it, and all are placed together.
		m.emit(toRouter{Withdraw{m.call, m.asked}})
		m.submit(append(slices.Clone(m.waiting), ask))
		return
	}
	m.submit([]Ask{ask})
}

// fail ends the request with a fault: everything that runs is aborted.
func (m *machine) fail(f *fault.Fault) {
	if m.ended {
		return
	}
	m.ended = true
	m.emit(endResponse{f})
	if m.waiting != nil {
		m.emit(toRouter{Withdraw{m.call, m.asked}})
	}
	for _, id := range sortedKeys(m.attempts) {
		m.abort(m.attempts[id])
	}
}

// timeout is a tick of the call's timer.
type timeout struct{}

// nextTimeout is when the machine wants a timeout event.
func (m *machine) nextTimeout() (time.Time, bool) {
	var at time.Time
	ok := false
	for _, a := range m.attempts {
		if d, limited := m.deadline(a); limited && (!ok || d.Before(at)) {
			at, ok = d, true
		}
	}
	return at, ok
}

// deadline is when an attempt counts as stalled.
func (m *machine) deadline(a *attempt) (time.Time, bool) {
	switch {
	case a.aborted:
		return time.Time{}, false
	case a.settled:
		return a.last.Add(m.cfg.SettleTimeout), true
	case a.produced == 0:
		return a.began.Add(m.cfg.FirstTokenTimeout), true
	default:
		return a.last.Add(m.cfg.TokenTimeout), true
	}
}

func (m *machine) timeout(now time.Time) {
	for _, id := range sortedKeys(m.attempts) {
		a, l := m.attempts[id], m.legOf[id]
		d, ok := m.deadline(a)
		if !ok || now.Before(d) {
			continue
		}
		if !a.settled {
			// The replica hears of the stall now; what the attempt holds lingers there.
			a.lingers = true
			stalled := &engine.Failure{Kind: engine.Stalled, Message: "no token in time"}
			m.emit(toReplica{a.place.Ref, replica.AttemptFailed{Ticket: a.place.Claim.Ticket, Failure: stalled}})
			l.attempt = nil
			m.abort(a)
			m.legFailed(now, l, a, stalled)
			continue
		}
		m.abort(a)
	}
}

func (m *machine) usage() Usage {
	u := Usage{}
	for _, p := range m.prompts {
		u.PromptTokens += len(p.IDs)
	}
	for _, l := range m.legs {
		u.CompletionTokens += l.produced
	}
	for i, known := range m.cachedSet {
		if known {
			u.CachedTokens += m.cached[i]
			u.CachedKnown = true
		}
	}
	return u
}

func failureOf(err error) *engine.Failure {
	var f *engine.Failure
	if errors.As(err, &f) {
		return f
	}
	return &engine.Failure{Kind: engine.Broken, Err: err}
}

// faultOf says what a client hears of an engine's failure if nobody else can take over.
func faultOf(f *engine.Failure) *fault.Fault {
	switch f.Kind {
	case engine.Client:
		return &fault.Fault{Kind: fault.EngineRefused, Status: f.Status, Message: f.Message, Param: f.Param, Err: f}
	case engine.Shed:
		wait := f.RetryAfter
		if wait == 0 {
			wait = time.Second
		}
		return &fault.Fault{
			Kind: fault.Contended, Message: "all replicas are busy; try again later", RetryAfter: wait, Err: f,
		}
	case engine.Stalled:
		return &fault.Fault{Kind: fault.Deadline, Message: "the engine made no progress in time", Err: f}
	case engine.Refused, engine.Broken, engine.Operator, engine.NumFailKinds:
	}
	return &fault.Fault{
		Kind: fault.EngineFailed, Message: fmt.Sprintf("the engine failed (%s) and nobody else could take over", f.Kind), Err: f,
	}
}

func sortedKeys(attempts map[uint64]*attempt) []uint64 {
	keys := make([]uint64, 0, len(attempts))
	for k := range attempts {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
