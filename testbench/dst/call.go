package dst

import (
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/prefix"
)

// call is one request: its client, its stream's machine, and what the checkers know of it.
type call struct {
	w      *world
	n      int
	box    mailbox
	handle *stream.Call
	req    *stream.Request
	m      *stream.Machine
	open   []*attempt // those that have not returned
	ids    [][]uint32 // prompts
	legs   []*leg

	small   bool // one of those that come together
	raw     int  // about how long its prompt is, if the engine renders it; 0: it does not
	encoded bool
	asked   uint64 // number of the submission that is not answered; 0: none
	waited  time.Duration
	armed   time.Duration

	leaves   Phase          // when the client leaves
	leaving  bool           // it does
	left     bool           // it has
	told     *fleet.Leaving // by the message in hand
	slow     bool           // it reads nothing
	overran  bool           // and too much waits for it
	unread   int
	inserted time.Duration

	ended     bool
	endedAt   time.Duration
	usage     stream.Usage // as of the last end of a leg
	fault     *fault.Fault
	named     [][]prefix.Key  // the checkers' names of the prompts
	tailed    []prefix.Key    // likewise, of the first one without its first block
	taken     map[uint64]bool // submissions taken back, and whether the router has said so
	rejected  bool            // the router has turned it away
	roomSince time.Duration   // since when somebody idle could take it; none: nobody can
	pollAt    time.Duration   // when legs that wait for the retry budget try again
	race      race
	turn      turn
	framing   *attempt  // whose frame is in hand
	stepping  *stepSeen // what the step in hand has done; nil: nobody asks
}

// leg is one answer as its client and the checkers see it.
type leg struct {
	got      []uint32
	groups   []int // how many of them came at a time
	produced int   // tokens, those included whose IDs are not known
	logprobs int
	text     []byte
	finish   *stream.Finish
	tries    []*attempt // in order
	from     int        // of tries: the first since it began anew
	failed   []failedOn
	lastFail *engine.Failure
	moved    bool // it was told to leave a replica that is only to be emptied
	retry    retrying
}

// failedOn is a life of an engine on which a leg has failed.
type failedOn struct {
	host        *host
	incarnation uint64
	process     bool // the failure says the same of all ranks of its process
}

// stepSeen is what one step has asked for.
type stepSeen struct {
	withdrew bool
	lingered map[uint64]bool // by ticket
	aborted  map[uint64]bool // by attempt
}

// start is the client's request.
func (c *call) start() {
	w := c.w
	c.inserted = w.now
	c.req.Arrival = w.time()
	c.adapts()
	budget := c.register()
	if plant := w.cfg.Plant; plant != nil && plant.ownBudgets {
		budget = stream.NewBudget()
	}
	c.m = stream.NewMachine(w.plan.stream, c.req, streamModel, c.handle, budget)
	w.byHandle[c.handle] = c
	w.calls = append(w.calls, c)
	w.note(noteCall, c.n, uint64(len(c.legs)), 0)
	if c.slow {
		w.did(deed{fault: SlowClient, call: c.n})
	}
	c.m.Start(w.time(), c.shell())
	c.enter(Queued)
	c.after()
}

func (c *call) shell() stream.Shell {
	if plant := c.w.cfg.Plant; plant != nil && plant.stream != nil {
		return plant.stream(c)
	}
	return c
}

// listens says whether messages reach the call: it runs, or attempts outlive it that are answered for.
func (c *call) listens() bool { return !c.m.Done() || len(c.open) > 0 }

// receive implements recipient.
func (c *call) receive(message any) {
	w := c.w
	switch m := message.(type) {
	case stream.Placed:
		if c.asked == m.Number {
			c.race.placing = c.hedgeAsked()
			c.asked = 0
		}
	case stream.Rejected:
		if c.asked == m.Number {
			c.rejected = c.rejected || !c.hedgeAsked()
			c.asked = 0
		}
	case stream.RouterRestarted:
		if c.hedgeAsked() {
			c.asked = 0
		}
	case stream.Withdrawn:
		if c.asked == m.Number {
			c.asked = 0
		}
	case stream.Encoded:
		c.encoded = true
	case stream.Leave:
		c.told = &m.Leaving
	}
	if !c.listens() {
		c.refuse(message)
		return
	}
	c.m.Message(w.time(), message, c.shell())
	c.race.placing, c.told = false, nil
	c.after()
}

// refuse gives back what a message brings to a call that is over, as its shell does.
func (c *call) refuse(message any) {
	switch m := message.(type) {
	case stream.ReplicaRestarted:
		c.w.hostOf(m.Ref).box.post(&c.box, fleet.Announced{Epoch: m.Epoch})
	case stream.Placed:
		for _, p := range m.Placements {
			c.ToReplica(p.Ref, fleet.End{Ticket: p.Claim.Ticket, Reason: ledger.Cancelled})
		}
	}
}

func (c *call) frame(a *attempt, e *engine.Event) {
	c.framing = a
	c.m.Frame(c.w.time(), a.id, *e, c.shell())
	c.after()
}

func (c *call) returned(a *attempt, err error) {
	if a.returned {
		return
	}
	a.returned = true
	for i, o := range c.open {
		if o == a {
			c.open = append(c.open[:i], c.open[i+1:]...)
			break
		}
	}
	c.w.note(noteReturn, c.n, a.id, 0)
	if err != nil {
		c.w.explain("call %d: attempt %d on %s returns: %v", c.n, a.id, a.host.id, err)
	}
	c.w.failedOn(a, err)
	c.m.AttemptEnded(c.w.time(), a.id, err, c.shell())
	c.after()
}

func (c *call) timeout() {
	c.polled(func() { c.m.Timeout(c.w.time(), c.shell()) })
	c.after()
}

// leave is the client's close.
func (c *call) leave() {
	if c.ended || c.left {
		return
	}
	w := c.w
	c.left = true
	w.note(noteLeave, c.n, 0, 0)
	w.did(deed{fault: ClientLeaves, call: c.n})
	w.cover(ClientLeaves, c.phases())
	c.checked(func() { c.m.ClientGone(w.time(), c.shell()) })
	c.after()
}

// checked requires of a step that it ends all that the call has under way.
func (c *call) checked(step func()) {
	w := c.w
	seen := &stepSeen{lingered: map[uint64]bool{}, aborted: map[uint64]bool{}}
	asked := c.asked
	open := append([]*attempt(nil), c.open...)
	c.stepping = seen
	step()
	c.stepping = nil
	if asked != 0 && !seen.withdrew {
		w.violate(Cancel, "call %d leaves, and its submission %d is not withdrawn in that step", c.n, asked)
	}
	for _, a := range open {
		if a.cancelled && !seen.aborted[a.id] {
			continue // before
		}
		if !seen.aborted[a.id] || !seen.lingered[a.place.Claim.Ticket.Number] {
			w.violate(Cancel, "call %d leaves, and attempt %d is not aborted and left to linger in that step", c.n, a.id)
		}
	}
	if !c.ended {
		w.violate(Cancel, "call %d leaves, and its response does not end in that step", c.n)
	}
}

// after arms the timer and follows the call's phases.
func (c *call) after() {
	c.w.checkRace(c)
	if !c.listens() {
		c.w.live.Quit(c.handle)
	}
	c.parks()
	if at, ok := c.m.NextTimeout(); ok {
		when := c.w.since(at)
		if c.armed == none || when < c.armed {
			c.armed = max(when, c.w.now)
			c.w.at(when, evTick).call = c
		}
	}
	if !c.left && c.unread > unread && !c.ended {
		c.left, c.overran = true, true
		c.w.note(noteOverrun, c.n, 0, 0)
		c.checked(func() { c.m.Overrun(c.w.time(), c.shell()) })
	}
}

// enter notes a phase: a client that leaves in it does so in a moment.
func (c *call) enter(p Phase) {
	if c.slow {
		c.w.coverage[SlowClient][p]++
	}
	if !c.leaving || c.leaves != p || c.left {
		return
	}
	c.leaving = false
	within := 20 * time.Millisecond
	if p == Decode {
		within = 300 * time.Millisecond
	}
	c.w.in(c.w.between(0, within), evLeave).call = c
}

// phases are those that the call's legs are in, as bits.
func (c *call) phases() uint {
	if c.ended {
		return 0
	}
	var bits uint
	for _, l := range c.legs {
		if l.finish == nil {
			bits |= 1 << l.phase()
		}
	}
	for _, a := range c.open {
		if !a.cancelled && a.host.draining() {
			bits |= 1 << Draining
		}
	}
	return bits
}

func (l *leg) phase() Phase {
	a := l.current()
	lost := a == nil || a.returned || a.cancelled
	switch {
	case lost && len(l.got) > 0, !lost && len(a.got) == 0 && len(l.got) > 0:
		return Resuming
	case lost:
		return Queued
	case len(a.got) == 0:
		return Prefill
	}
	return Decode
}

// The effects of the stream's machine.

// ToRouter implements stream.Shell.
func (c *call) ToRouter(message any) {
	w := c.w
	switch m := message.(type) {
	case *stream.Submit:
		if m.Hedge {
			c.asked = m.Number
			c.asksHedge(m)
		} else {
			c.retries(m)
		}
		c.asked, c.waited = m.Number, w.now
		c.roomSince = none
		w.note(noteSubmit, c.n, m.Number, uint64(len(m.Legs)))
		for _, a := range m.Legs {
			if l := c.legs[a.Leg]; len(l.got) > 0 {
				c.enter(Resuming)
			}
		}
	case stream.Withdraw:
		w.note(noteWithdraw, c.n, m.Number, 0)
		if c.stepping != nil {
			c.stepping.withdrew = true
		}
		w.withdrawn(c, m.Number)
		if m.Number == c.race.number {
			c.asked = 0 // what the router says to it is not waited for
		}
	}
	w.router.box.post(&c.box, message)
}

// ToReplica implements stream.Shell.
func (c *call) ToReplica(ref *fleet.Ref, message any) {
	w := c.w
	h := w.hostOf(ref)
	switch m := message.(type) {
	case fleet.End:
		w.note(noteEnd, c.n, m.Ticket.Number, uint64(m.Reason))
		w.released(m.Ticket.Number, h)
	case fleet.Linger:
		w.note(noteLinger, c.n, m.Claim.Ticket.Number, 0)
		c.lingers(m.Claim.Ticket.Number)
		if c.stepping != nil {
			c.stepping.lingered[m.Claim.Ticket.Number] = true
		}
	case fleet.AttemptFailed:
		w.note(noteFailure, c.n, m.Claim.Ticket.Number, uint64(m.Failure.Kind))
		c.stalled(m.Claim.Ticket.Number, m.Failure)
		lingers := m.Failure.Kind == engine.Stalled || m.Failure.Kind == engine.Broken && !ref.Capabilities.ConfirmsAbort
		if !lingers {
			w.released(m.Claim.Ticket.Number, h)
		}
	}
	h.box.post(&c.box, message)
}

// StartAttempt implements stream.Shell.
func (c *call) StartAttempt(id uint64, place stream.Placement, request engine.Request) {
	w := c.w
	h := w.hostOf(place.Ref)
	l := c.legs[place.Leg]
	a := &attempt{id: id, call: c, host: h, place: place, request: request, entropy: entropy(w.cfg.Seed, c.n, place.Leg, fruitful(l.tries)), mischief: NumFaults, nth: len(l.tries) + 1, base: l.produced, began: w.now, beat: place.Ref.Beat()}
	l.tries = append(l.tries, a)
	l.retry.asks = false
	h.feed.sent = append(h.feed.sent, c)
	c.open = append(c.open, a)
	w.attempts++
	w.note(noteAttempt, c.n, id, place.Claim.Ticket.Number)
	w.explain("call %d: attempt %d of leg %d on %s, ticket %d, %d + %d tokens", c.n, id, place.Leg, h.id, place.Claim.Ticket.Number, len(request.PromptTokens), request.MaxTokens)
	w.checkAttempt(a, l)
	if c.ended {
		w.violate(Outcome, "call %d starts attempt %d after its end", c.n, id)
	}
	w.begin(a)
	c.enter(Prefill)
}

// AbortAttempt implements stream.Shell.
func (c *call) AbortAttempt(id uint64) {
	for _, a := range c.open {
		if a.id == id && !a.cancelled {
			if c.stepping != nil {
				c.stepping.aborted[id] = true
			}
			c.w.note(noteAbort, c.n, id, 0)
			c.w.cancel(a)
		}
	}
}

// Append implements stream.Shell.
func (c *call) Append(n int, entries []stream.Entry, _ stream.Usage) {
	w := c.w
	l := c.legs[n]
	if c.ended || l.finish != nil {
		w.violate(Output, "call %d: leg %d gets a token after its end", c.n, n)
	}
	first := len(l.got) == 0
	for i := range entries {
		e := &entries[i]
		l.got = append(l.got, c.framing.takes(e)...)
		l.groups = append(l.groups, 1+e.LostIDs)
		l.produced += 1 + e.LostIDs
		if e.Logprob != nil {
			l.logprobs++
		}
		l.text = append(l.text, e.Text...)
		if c.slow {
			c.unread += e.Bytes()
		}
	}
	l.retry.shares = false
	if first {
		c.enter(Decode)
	}
	if w.healed != none {
		l.current().host.served++
	}
}

// Restart implements stream.Shell.
func (c *call) Restart(n int, _ stream.Usage) {
	w := c.w
	w.note(noteRestart, c.n, uint64(n), 0)
	l := c.legs[n]
	if !c.req.Whole || l.finish != nil {
		w.violate(Output, "call %d: leg %d begins anew after its client was sent %d tokens", c.n, n, len(l.got))
	}
	l.got, l.groups, l.produced, l.text, l.logprobs, l.from = nil, nil, 0, nil, 0, len(l.tries)
}

// Finish implements stream.Shell.
func (c *call) Finish(n int, f stream.Finish, u stream.Usage) {
	c.usage = u
	c.w.note(noteFinish, c.n, uint64(n), uint64(f.CompletionTokens))
	l := c.legs[n]
	if l.finish != nil {
		c.w.violate(Output, "call %d: leg %d finishes twice", c.n, n)
	}
	l.finish = &f
	l.text = append(l.text, f.Text...)
	c.w.checkFinish(c, n, l, u)
}

// Placed implements stream.Shell.
func (c *call) Placed(int, scoring.ReplicaID) {}

// End implements stream.Shell.
func (c *call) End(f *fault.Fault) {
	w := c.w
	if c.ended {
		w.violate(Outcome, "call %d ends twice", c.n)
	}
	c.ended, c.endedAt, c.fault = true, w.now, f
	kind := uint64(fault.NumKinds)
	if f != nil {
		kind = uint64(f.Kind)
		w.explain("call %d fails: %s: %s", c.n, f.Kind, f.Message)
	}
	w.note(noteDone, c.n, kind, 0)
	w.checkOutcome(c)
}
