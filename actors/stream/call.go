package stream

import (
	"log/slog"
	"sync"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/meter"
	"plimsoll/actors/supervise"
	"plimsoll/scoring/ledger"
)

// Deps are what a call needs from outside. All are required.
type Deps struct {
	Live *Live
	Log  *slog.Logger
	// Router sends a message to the model's router.
	Router func(message any)
	Model  Model
	Meter  *meter.Stream // nil: nothing is counted
	// Ended hears of the request's end once, on the request's goroutine, when its last attempt is over or aborted. The
	// client may have read the response's end before that.
	Ended func(Summary)
}

// Summary is what is worth knowing of an ended request.
type Summary struct {
	Request  *Request
	Usage    Usage
	Fault    *fault.Fault // nil: it ended well
	Replicas []string
	Attempts int
	Legs     []LegSummary
}

// LegSummary is one answer of an ended request. Its IDs are shared: nobody writes to them.
type LegSummary struct {
	Prompt, Answer             []uint32 // the answer as far as its IDs are known without a gap; nil: the engine rendered the prompt
	PromptTokens, OutputTokens int
}

// readsBuffered is how much of what its attempts read may wait for a call's goroutine; the readers then wait for it. It
// never waits for the client.
const readsBuffered = 64

// Call runs one request. Actors know it by its address and talk to it by Tell.
type Call struct {
	Request  *Request
	Response *Response

	cfg     Config
	deps    Deps
	inbox   *inbox
	reads   chan read
	retries *share // in the model's budget

	// The goroutine's own.
	open    map[uint64]*running // attempts whose end was not dealt with
	pending []any               // taken from the inbox; the first is being dealt with, and nothing was done of it if its step panics
	left    bool                // nothing reaches the call any more
	summary Summary
}

// Start runs a request in a goroutine of its own and returns its response.
func Start(cfg Config, deps Deps, req *Request) *Response {
	c := &Call{
		Request: req, cfg: cfg, deps: deps, inbox: newInbox(), reads: make(chan read, readsBuffered),
		open: map[uint64]*running{}, summary: Summary{Request: req},
	}
	var once sync.Once
	c.Response = NewResponse(req.Input.Prompts()*req.N, func() { once.Do(func() { c.inbox.put(clientGone{}) }) })
	supervise.Go(deps.Log, "request", c.run, c.panicked, deps.Live.enter(c))
	return c.Response
}

// model is the served model's name.
func (c *Call) model() string { return c.deps.Model.Name }

// Tell gives the call a message. It never blocks. What comes after the call's end is answered for it: places are given
// back, a replica that restarted hears that nothing of this call lives there.
func (c *Call) Tell(message any) {
	if !c.inbox.put(message) {
		c.refuse(message)
	}
}

func (c *Call) run() {
	m := newMachine(c.cfg, c.Request, c.deps.Model, c, c.retries)
	timer := newAlarm()
	defer timer.stop()
	c.perform(m, m.start(time.Now()))
	for !m.done() {
		timer.set(m.nextTimeout())
		select {
		case <-c.inbox.wake:
			for c.pending = c.inbox.take(); len(c.pending) > 0; c.pending = c.pending[1:] {
				now := time.Now()
				if _, ok := c.pending[0].(Encoded); ok {
					c.Response.Encoded(now)
				}
				c.perform(m, m.step(now, c.pending[0]))
			}
		case r := <-c.reads: // an attempt's frames come before its end: one channel carries both
			c.read(m, r)
		case <-timer.rings():
			timer.rung()
			c.perform(m, m.step(time.Now(), timeout{}))
		}
	}
	c.finish(m)
}

func (c *Call) read(m *machine, r read) {
	if !r.ended {
		c.perform(m, m.read(r.frame))
		return
	}
	a := c.open[r.attempt]
	a.read = true
	a.cancel()
	c.perform(m, m.step(time.Now(), attemptEnded{r.attempt, r.err}))
	delete(c.open, r.attempt)
}

// finish leaves, deals with what came after the last step, and reports.
func (c *Call) finish(m *machine) {
	c.deps.Live.leave(c,
		func(e ReplicaRestarted) { c.perform(m, m.step(time.Now(), e)) },
		func(attempt uint64) fleet.Announcement { return m.attempts[attempt].announcement() })
	for len(c.open) > 0 { // their Generate has returned
		c.read(m, <-c.reads)
	}
	c.summary.Legs = m.summary()
	c.over(m.usage())
}

// over gives back what nobody will use and reports. Nothing reaches the call any more.
func (c *Call) over(u Usage) {
	for _, message := range c.pending {
		c.refuse(message)
	}
	c.left = true
	c.summary.Usage = u
	c.summary.Replicas = c.Response.Replicas()
	c.deps.Ended(c.summary)
}

func (c *Call) perform(m *machine, effects []effect) {
	unread := 0
	for _, e := range effects {
		switch e := e.(type) {
		case toRouter:
			c.deps.Router(e.message)
		case toReplica:
			e.ref.Tell(e.message)
		case startAttempt:
			c.attempt(e)
		case abortAttempt:
			c.open[e.attempt].cancel()
		case *appendLeg:
			unread = c.Response.Append(e.leg, e.entries, e.usage)
		case finishLeg:
			c.Response.Finish(e.leg, e.finish, e.usage)
		case restartLeg:
			c.Response.Restart(e.leg, e.usage)
		case observed:
			c.deps.Meter.Broken(e.class.String(), e.outcome.String(), e.carried, e.gap)
		case hedged:
			c.deps.Meter.Hedged(e.event.String())
		case placedLeg:
			c.Response.Placed(e.leg, string(e.replica), time.Now())
		case endResponse:
			c.summary.Fault = e.fault
			c.Response.End(e.fault)
		}
	}
	if unread > c.cfg.JournalBytes {
		c.perform(m, m.step(time.Now(), overrun{}))
	}
}

// panicked ends a request whose machine broke: nothing it said is trusted, so every attempt is aborted and every ticket
// given back by what the shell itself knows.
func (c *Call) panicked(value any) {
	if c.left {
		return // its report broke; there is nothing to give back
	}
	flt := &fault.Fault{Kind: fault.Internal, Message: "internal error", Err: &supervise.PanicError{Value: value}}
	c.summary.Fault = flt
	c.Response.End(flt)
	c.deps.Router(Withdraw{Call: c, Number: 0})
	for _, a := range c.open {
		a.place.Ref.Tell(fleet.Linger{Attempt: a.known()})
		a.cancel()
	}
	c.deps.Live.leave(c, c.announce, func(attempt uint64) fleet.Announcement { return lingering(c.open[attempt]) })
	for attempt, a := range c.open { // their Generate has returned
		for !a.read {
			r := <-c.reads
			if of := c.open[r.attempt]; r.ended && of != nil {
				of.read = true
			}
		}
		ref := a.place.Ref
		if ref.Capabilities.ConfirmsAbort {
			ref.Tell(fleet.End{Ticket: a.place.Claim.Ticket, Reason: ledger.Failed})
		}
		delete(c.open, attempt)
	}
	c.over(c.Response.Usage())
}

// announce answers a restarted replica for a call whose machine broke.
func (c *Call) announce(e ReplicaRestarted) {
	answer := fleet.Announced{Epoch: e.Epoch}
	for _, a := range c.open {
		if a.place.Ref == e.Ref {
			answer.Tickets = append(answer.Tickets, lingering(a))
		}
	}
	e.Ref.Tell(answer)
}

func lingering(a *running) fleet.Announcement {
	return fleet.Announcement{Attempt: a.known(), State: ledger.Lingering}
}

// refuse gives back what a message brings to a call that is over.
func (c *Call) refuse(message any) {
	switch e := message.(type) {
	case ReplicaRestarted:
		e.Ref.Tell(fleet.Announced{Epoch: e.Epoch})
	case Placed:
		for _, p := range e.Placements {
			p.Ref.Tell(fleet.End{Ticket: p.Claim.Ticket, Reason: ledger.Cancelled})
			c.deps.Router(Failed{Replica: p.Ref.ID, Ticket: p.Claim.Ticket})
		}
	}
}
