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

// attempt is one try of a leg on one replica.
type attempt struct {
	id       uint64
	leg      *legState
	place    Placement
	base     int      // what the leg had produced before it
	limit    int      // what the leg may have produced at its end
	input    []uint32 // its prompt: the leg's and what it had produced
	began    time.Time
	last     time.Time     // of its last token
	produced int           // tokens of this attempt
	cached   *int          // prompt tokens that the engine found in its cache; nil: it has not said
	told     *int          // length of a prompt that the engine rendered; nil: it has not said
	started  bool          // the replica was told of the first token
	reported int           // tokens at the last Progress message
	excused  time.Duration // how much longer it is waited for because its replica gives nobody anything
	// The run of decode steps that the router has not been told of yet begins after that many tokens, at that time; 0: none does. The
	// first gap is in no run: the passes of other prompts are told apart from steps by when the replica has heard of their end.
	steppedAt int
	stepped   time.Time
	// settled is since when the leg needs no more of it; its end is awaited, so that nothing lingers. nil: it is needed.
	settled *time.Time
	cut     bool // the engine said that somebody else aborted it
	aborted bool // by us: nothing more of it counts, and the replica knows that it lingers
}

// announcement is what a restarted replica hears of the attempt.
func (a *attempt) announcement() fleet.Announcement {
	state := ledger.Reserved
	switch {
	case a.aborted:
		state = ledger.Lingering
	case a.produced > 0:
		state = ledger.Running
	}
	return fleet.Announcement{Attempt: a.known(), State: state}
}

// known is all that a replica's ledger wants to know of the attempt.
func (a *attempt) known() fleet.Attempt {
	return fleet.Attempt{
		Claim: a.place.Claim, Produced: scoring.Tokens(a.produced), Incarnation: a.place.Incarnation, Began: a.began,
	}
}

func (m *machine) frame(f frame) {
	a := m.attempts[f.attempt]
	if a == nil || a.aborted {
		return
	}
	if told := f.event.PromptTokens; told != nil && m.raw(a.leg) && *told > 0 && scoring.Tokens(*told) <= a.place.LongestTokens {
		length := *told // what cannot be is not said
		a.told = &length
	}
	if cached := f.event.CachedTokens; cached != nil && *cached <= a.promptTokens() {
		m.audit(a, *cached)
	}
	entries := m.appended.entries[:0]
	clear(m.appended.entries)
	var finish *Finish
	var err error
	for _, t := range f.event.Tokens {
		if a.settled != nil || finish != nil {
			break
		}
		a.produced += 1 + t.LostIDs
		if m.raw(a.leg) {
			entries = append(entries, a.leg.relay(t, f.at))
			continue
		}
		var entry Entry
		if entry, finish, err = a.leg.token(m.req, m.model, a.limit, t, f.at); err != nil {
			a.produced -= 1 + t.LostIDs
			break
		}
		entries = append(entries, entry)
	}
	if n := len(entries); n > 0 && m.raw(a.leg) {
		entries[n-1].ChatDelta = f.event.ChatDelta
	}
	m.appended.entries = entries
	if said := f.event.Finish; m.hedge.open() &&
		(len(entries) > 0 || finish != nil || err == nil && said != nil && said.Reason != engine.FinishAbort) {
		m.won(a)
	}
	if len(entries) > 0 {
		m.mended(a, f.at)
		a.last = f.at
		if a.leg.giver == 0 {
			a.leg.giver = a.id
		}
		m.learn(a)
		m.milestones(f.at, a)
		m.appended.leg, m.appended.usage = a.leg.index, m.usage()
		m.emit(&m.appended)
	}
	switch {
	case err != nil && finish != nil:
		m.undecoded(err)
	case err != nil:
		m.unreadable(f.at, a, err)
	default:
		m.conclude(f.at, a, finish, f.event.Finish)
	}
}

// unreadable has a new attempt go on where an engine has sent a token that the tokenizer does not know. The replica gets no
// strike for it: many a model draws from more IDs than its tokenizer has, and a client can ask for a temperature at which they come.
func (m *machine) unreadable(now time.Time, a *attempt, err error) {
	m.emit(toReplica{a.place.Ref, fleet.Linger{Attempt: a.known()}})
	m.stop(a, false)
	m.reroute(now, a, &engine.Failure{
		Kind: engine.Broken, Message: "the engine sent a token that the tokenizer does not know", Err: err,
	}, unread)
}

func (m *machine) undecoded(err error) {
	m.fail(&fault.Fault{Kind: fault.EngineFailed, Message: "the answer's end could not be decoded", Err: err})
}

// learn takes over what the engine said of a prompt: that of the first answer to it and its first attempt that gave a token
// or its end.
func (m *machine) learn(a *attempt) {
	l := a.leg
	if l.index%m.req.N != 0 || l.giver != 0 && l.giver != a.id {
		return
	}
	if a.cached != nil && m.cached[l.prompt] == nil {
		m.cached[l.prompt] = a.cached
	}
	if a.told != nil && m.told[l.prompt] == nil {
		m.told[l.prompt] = a.told
	}
}

// conclude ends the leg if its own rules or the engine say so.
func (m *machine) conclude(at time.Time, a *attempt, finish *Finish, said *engine.Finish) {
	l := a.leg
	if said != nil && said.Reason == engine.FinishAbort && finish == nil && !l.finished {
		a.cut = true // attemptEnded draws the conclusion
		return
	}
	if (said != nil || finish != nil) && a.settled == nil {
		since := at
		a.settled = &since
	}
	if l.finished {
		return
	}
	if finish == nil && said != nil {
		reason := stopReason(said.Reason)
		var err error
		if finish, err = l.end(reason); err != nil {
			m.undecoded(err)
			return
		}
	}
	if finish == nil {
		return
	}
	l.finished = true
	m.calm(l)
	m.learn(a)
	m.emit(finishLeg{l.index, *finish, m.usage()})
	if said == nil && (finish.StopString != nil || finish.StopToken != nil) {
		m.abort(a) // the engine does not know that it is over
	}
	if !slices.ContainsFunc(m.legs, func(l *legState) bool { return !l.finished }) {
		m.ended = true
		m.emit(endResponse{})
	}
}

// stopReason is how a leg ends that the engine has ended.
func stopReason(said engine.FinishReason) StopReason {
	switch said {
	case engine.FinishLength:
		return StopLength
	case engine.FinishToolCalls:
		return StopToolCalls
	case engine.FinishStop, engine.FinishAbort, engine.NumFinishReasons:
	}
	return StopEnd
}

// milestones tells replica and router of the first token and of every block.
func (m *machine) milestones(at time.Time, a *attempt) {
	p := &a.place
	if !a.started {
		a.started, a.reported = true, 1
		m.emit(toReplica{p.Ref, fleet.Started{Ticket: p.Claim.Ticket, Waited: at.Sub(a.began)}})
		if a.produced > a.reported {
			m.emit(toReplica{p.Ref, fleet.Progress{Ticket: p.Claim.Ticket, Produced: scoring.Tokens(a.produced)}})
			a.reported = a.produced
		}
		if m.raw(a.leg) {
			return // nothing is known of the prompt that others could learn from
		}
		prefill := a.prefilled()
		m.emit(toRouter{FirstToken{
			Replica: p.Ref.ID, Ticket: p.Claim.Ticket, PrefillTokens: prefill, HitTokens: p.Claim.PromptTokens - prefill, Took: at.Sub(a.began),
		}})
		m.emit(toReplica{p.Ref, fleet.Learned{
			LoRA: m.req.LoRA, Salt: m.req.CacheSalt, Prompt: a.input, FreshTokens: prefill, Began: a.began,
		}})
		return
	}
	// What the replica has not heard of is booked up to a block ahead, also where the engine is ahead of what it tells.
	if n := a.produced - a.reported; n >= max(16, int(p.BlockTokens))-p.Ref.Capabilities.LostMost {
		m.emit(toReplica{p.Ref, fleet.Progress{Ticket: p.Claim.Ticket, Produced: scoring.Tokens(a.produced)}})
		a.reported = a.produced
	}
	switch n := a.produced - a.steppedAt; {
	case a.steppedAt == 0:
		a.stepped, a.steppedAt = at, a.produced
	case n >= stepsTold:
		m.emit(toRouter{Steps{
			Replica: p.Ref.ID, KVTokens: p.Claim.PromptTokens + scoring.Tokens(a.produced),
			Since: a.stepped, Gap: at.Sub(a.stepped) / time.Duration(n),
		}})
		a.stepped, a.steppedAt = at, a.produced
	}
}

// stepsTold is how many decode steps a run of them has, at least, that is told of.
const stepsTold = 16

// abort ends an attempt from our side. What it holds lingers until the engine lets go.
func (m *machine) abort(a *attempt) {
	if a.aborted {
		return
	}
	m.emit(toReplica{a.place.Ref, fleet.Linger{Attempt: a.known()}})
	m.stop(a, true)
}

// stop aborts an attempt of which the replica has heard.
func (m *machine) stop(a *attempt, sound bool) {
	a.aborted = true
	m.emit(abortAttempt{a.id})
	m.account(a, sound)
}

// account tells what became of an attempt, once nothing more of it counts. sound: the engine is not known to have failed.
func (m *machine) account(a *attempt, sound bool) {
	ref, ticket := a.place.Ref, a.place.Claim.Ticket
	if a.produced == 0 {
		m.emit(toRouter{Failed{Replica: ref.ID, Ticket: ticket}})
		return
	}
	base, claim := scoring.Tokens(a.base), a.place.Claim
	m.emit(toRouter{Finished{
		Replica: ref.ID, Ticket: ticket, Broken: !sound, Prompt: claim.PromptTokens - base,
		Produced: base + scoring.Tokens(a.produced), Limit: base + claim.SequenceTokens - claim.PromptTokens, Cached: a.cached,
	}})
	if sound && !m.raw(a.leg) {
		m.emit(toReplica{ref, fleet.Learned{
			LoRA: m.req.LoRA, Salt: m.req.CacheSalt, Prompt: m.prompts[a.leg.prompt].IDs, Output: slices.Clip(a.leg.known()),
			FreshTokens: a.fresh(), Began: a.began,
		}})
	}
}

// attemptEnded ends an attempt's ticket.
func (m *machine) attemptEnded(now time.Time, e attemptEnded) {
	a := m.attempts[e.attempt]
	delete(m.attempts, e.attempt)
	ref, ticket := a.place.Ref, a.place.Claim.Ticket
	if a.aborted {
		if end := endOfAborted(ref.Capabilities, ticket, e.err); end != nil {
			m.emit(toReplica{ref, *end})
		}
		return
	}
	var failure *engine.Failure
	switch {
	case e.err != nil:
		failure = failureOf(e.err)
		m.emit(toReplica{ref, fleet.AttemptFailed{Attempt: a.known(), Failure: failure, Of: m.likeness(a)}})
		if failure.Kind == engine.Stalled && ref.Capabilities.ConfirmsAbort { // a stall alone says nothing about its blocks
			m.emit(toReplica{ref, fleet.End{Ticket: ticket, Reason: ledger.Failed}})
		}
	case a.leg.finished:
		m.emit(toReplica{ref, fleet.End{Ticket: ticket, Reason: ledger.Finished}})
	default:
		message := "the engine ended the answer without a finish"
		if a.cut {
			message = "the request was aborted on the engine"
		}
		failure = &engine.Failure{Kind: engine.Broken, FromEngine: a.cut, Unfinished: !a.cut, Message: message}
		m.emit(toReplica{ref, fleet.End{Ticket: ticket, Reason: ledger.Failed}})
	}
	m.account(a, failure == nil)
	if failure != nil && !m.ended && !a.leg.finished {
		m.reroute(now, a, failure, failed)
	}
}

// endOfAborted is what a replica hears when the Generate of an aborted attempt has returned; nil: nothing, the ticket
// lingers until its bound.
func endOfAborted(caps engine.Capabilities, t scoring.Ticket, err error) *fleet.End {
	switch {
	case err == nil: // its finish was under way
		return &fleet.End{Ticket: t, Reason: ledger.Finished}
	case caps.ConfirmsAbort:
		return &fleet.End{Ticket: t, Reason: ledger.Cancelled}
	}
	return nil
}

// nextTimeout is when the machine wants a timeout event.
func (m *machine) nextTimeout() (time.Time, bool) {
	var at time.Time
	ok := false
	for _, a := range m.attempts {
		if d, limited := m.deadline(a); limited && (!ok || d.Before(at)) {
			at, ok = d, true
		}
	}
	if due := m.waiting.heard.Add(m.cfg.RouterWait); m.waiting.asks != nil && (!ok || due.Before(at)) {
		at, ok = due, true
	}
	for _, l := range m.legs {
		if l.parked != nil && (!ok || m.pollAt.Before(at)) {
			at, ok = m.pollAt, true
		}
	}
	if due, late := m.hedgeAt(); late != nil && (!ok || due.Before(at)) {
		at, ok = due, true
	}
	return at, ok
}

// deadline is when an attempt counts as stalled.
func (m *machine) deadline(a *attempt) (time.Time, bool) {
	switch {
	case a.aborted:
		return time.Time{}, false
	case a.settled != nil:
		return a.settled.Add(m.cfg.SettleTimeout), true
	default:
		sooner, latest := m.limits(a)
		return a.last.Add(min(latest, sooner+a.excused)), true
	}
}

// limits are how long an attempt may be silent where its replica serves others, and in any case. A leg that has no other place to go
// to, because its answer cannot go on there or because it has put two replicas at risk, is waited for as long as can be.
func (m *machine) limits(a *attempt) (sooner, latest time.Duration) {
	l := a.leg
	if a.produced == 0 {
		latest = m.cfg.FirstTokenTimeout
		if l.silenced > 0 {
			return latest, latest
		}
		return m.patience(latest, a.place.FirstToken, firstTokenFactor), latest
	}
	latest = m.cfg.TokenTimeout
	if how, _ := m.way(l); how == nohow {
		return latest, latest
	}
	return m.patience(latest, a.place.Step, stepFactor), latest
}

// silent says whether a replica gives nobody anything either while an attempt waits: it has been silent for half of that time. Then it
// is its own actor that judges it, and not the requests that wait for it.
func silent(now time.Time, a *attempt) bool {
	shown := a.place.Ref.Snapshot().Life
	if last, ever := a.place.Ref.Pulse().Last(); ever && last.After(shown) {
		shown = last
	}
	return now.Sub(shown) > now.Sub(a.last)/2
}

// How many times as long as predicted an attempt may take. A replica that hangs as a whole is found much sooner by its own
// actor; this is for a request that is lost on one that works, and must spare those that an engine has put back for others.
const (
	firstTokenFactor = 8
	stepFactor       = 100
)

// patience is how long an attempt may be silent: what the replica's own pace makes of it, no longer than most.
func (m *machine) patience(most time.Duration, predicted *time.Duration, factor int) time.Duration {
	if predicted == nil {
		return most
	}
	return min(most, max(m.cfg.StallLeast, time.Duration(factor)*(*predicted)))
}

func (m *machine) timeout(now time.Time) {
	m.poll(now)
	for _, id := range sortedKeys(m.attempts) {
		a := m.attempts[id]
		d, ok := m.deadline(a)
		if !ok || now.Before(d) {
			continue
		}
		if a.settled != nil {
			m.abort(a)
			continue
		}
		if _, latest := m.limits(a); now.Before(a.last.Add(latest)) && silent(now, a) {
			a.excused += m.cfg.StallLeast
			continue
		}
		// The replica hears of the stall now; what the attempt holds lingers there.
		stalled := &engine.Failure{Kind: engine.Stalled, Message: "no token in time"}
		m.emit(toReplica{a.place.Ref, fleet.AttemptFailed{Attempt: a.known(), Failure: stalled}})
		m.stop(a, false)
		if a.produced == 0 && !m.mayRetry(a.leg) {
			m.fail(faultOf(stalled, m.req.LoRA))
			return
		}
		m.reroute(now, a, stalled, failed)
	}
	m.overdue()
	m.askHedge(now)
}

// mayRetry says whether a leg that has waited for its first token in vain may put another replica at risk.
func (m *machine) mayRetry(l *legState) bool {
	if l.silenced > 0 && !m.hedge.open() {
		return false
	}
	l.silenced++
	return true
}
