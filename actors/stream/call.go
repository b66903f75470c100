package stream

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/replica"
	"plimsoll/actors/supervise"
	"plimsoll/engine"
	"plimsoll/scoring/ledger"
)

// Deps are what a call needs from outside. All are required.
type Deps struct {
	Live *Live
	Log  *slog.Logger
	// Router sends a message to the model's router.
	Router func(message any)
	Model  Model
	// Ended hears of the request's end, on its goroutine, before the client's writer does not wait for it.
	Ended func(Summary)
}

// Summary is what is worth knowing of an ended request.
type Summary struct {
	Request  *Request
	Usage    Usage
	Fault    *fault.Fault // nil: it ended well
	Replicas []string
	Attempts int
	// PredictedTokens are the prompt tokens that the index held for the first attempts.
	PredictedTokens int
}

// framesBuffered is how many frames of a call's attempts may wait for its goroutine; the readers then wait, not the client.
const framesBuffered = 64

// Call runs one request. Actors know it by its address and talk to it by Tell.
type Call struct {
	Request  *Request
	Response *Response

	cfg    Config
	deps   Deps
	inbox  *inbox
	events chan any // frame, attemptEnded

	ctx    context.Context //nolint:containedctx // the request's life: ends with its goroutine
	cancel context.CancelFunc
	open   map[uint64]*openAttempt // the goroutine's own

	summary Summary
}

// openAttempt is a running attempt's goroutine.
type openAttempt struct {
	place  Placement
	cancel context.CancelFunc
}

// Start runs a request in a goroutine of its own and returns its response.
func Start(cfg Config, deps Deps, req *Request) *Response {
	c := &Call{
		Request: req, cfg: cfg, deps: deps, inbox: newInbox(), events: make(chan any, framesBuffered),
		open: map[uint64]*openAttempt{}, summary: Summary{Request: req},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	var once sync.Once
	c.Response = NewResponse(req.Input.Prompts()*req.N, func() { once.Do(func() { c.inbox.put(clientGone{}) }) })
	done := deps.Live.enter(c)
	supervise.Go(deps.Log, "request", c.run, c.panicked, done)
	return c.Response
}

// Tell gives the call a message. It never blocks. What comes after the call's end is answered for it: places are given
// back, a replica that restarted hears that nothing of this call lives there.
func (c *Call) Tell(message any) {
	if !c.inbox.put(message) {
		refuse(message)
	}
}

func (c *Call) run() {
	m := newMachine(c.cfg, c.Request, c.deps.Model, c)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	defer c.cancel()
	c.perform(m, m.start())
	for !m.done() {
		if at, ok := m.nextTimeout(); ok {
			timer.Reset(max(0, time.Until(at)))
		} else {
			timer.Reset(time.Hour)
		}
		select {
		case <-c.inbox.wake:
			for _, message := range c.inbox.take() {
				c.perform(m, m.step(time.Now(), message))
			}
		case e := <-c.events: // its frames come before an attempt's end: one channel carries both
			c.perform(m, m.step(time.Now(), e))
			if ended, ok := e.(attemptEnded); ok {
				c.open[ended.attempt].cancel()
				delete(c.open, ended.attempt)
			}
		case <-timer.C:
			c.perform(m, m.step(time.Now(), timeout{}))
		}
	}
	c.finish(m)
}

// finish answers what came after the last step and reports.
func (c *Call) finish(m *machine) {
	c.deps.Live.leave(c)
	for _, message := range c.inbox.close() {
		refuse(message)
	}
	c.summary.Usage = m.usage()
	c.summary.Replicas = c.Response.Replicas()
	c.deps.Ended(c.summary)
}

func (c *Call) perform(m *machine, effects []effect) {
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
		case appendLeg:
			if c.Response.Append(e.leg, e.entries, e.usage) > c.cfg.JournalBytes {
				c.inbox.put(clientGone{})
			}
		case finishLeg:
			c.Response.Finish(e.leg, e.finish, e.usage)
		case placedLeg:
			c.Response.Placed(e.leg, string(e.replica))
		case endResponse:
			c.summary.Fault = e.fault
			c.Response.End(e.fault)
		}
	}
}

// attempt opens the engine's stream in a goroutine of its own, which ends with an attemptEnded.
func (c *Call) attempt(e startAttempt) {
	ctx, cancel := context.WithCancel(c.ctx)
	c.open[e.attempt] = &openAttempt{place: e.place, cancel: cancel}
	c.summary.Attempts++
	if c.summary.Attempts <= len(c.Response.Replicas()) {
		c.summary.PredictedTokens += int(e.place.OverlapTokens)
	}
	supervise.Go(c.deps.Log, "attempt", func() {
		err := e.place.Ref.Engine.Generate(ctx, e.request, func(ev engine.Event) error {
			select {
			case c.events <- frame{attempt: e.attempt, event: ev, at: time.Now()}:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		c.events <- attemptEnded{attempt: e.attempt, err: err}
	}, func(value any) {
		c.events <- attemptEnded{attempt: e.attempt, err: &supervise.PanicError{Value: value}}
	}, func() {})
}

// panicked ends a request whose machine broke: nothing it said is trusted, so every attempt is aborted and every ticket
// given back by what the shell itself knows.
func (c *Call) panicked(value any) {
	flt := &fault.Fault{Kind: fault.Internal, Message: "internal error", Err: &supervise.PanicError{Value: value}}
	c.Response.End(flt)
	c.deps.Router(Withdraw{Call: c, Number: 0})
	for _, a := range c.open {
		a.cancel()
	}
	for len(c.open) > 0 {
		if e, ok := (<-c.events).(attemptEnded); ok {
			a := c.open[e.attempt]
			delete(c.open, e.attempt)
			a.place.Ref.Tell(replica.Linger{Ticket: a.place.Claim.Ticket})
			if a.place.Ref.Capabilities.ConfirmsAbort {
				a.place.Ref.Tell(replica.End{Ticket: a.place.Claim.Ticket, Reason: ledger.Failed})
			}
		}
	}
	c.cancel()
	c.summary.Fault = flt
	c.deps.Live.leave(c)
	for _, message := range c.inbox.close() {
		refuse(message)
	}
	c.deps.Ended(c.summary)
}

// refuse gives back what a message brings to a call that is over.
func refuse(message any) {
	switch e := message.(type) {
	case ReplicaRestarted:
		e.Ref.Tell(replica.Announced{Epoch: e.Epoch})
	case Placed:
		for _, p := range e.Placements {
			p.Ref.Tell(replica.End{Ticket: p.Claim.Ticket, Reason: ledger.Cancelled})
		}
	}
}
