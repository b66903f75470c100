package stream

import (
	"fmt"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring"
)

// Shell does what a request's machine asks for, in the order in which it is called. What it is given is valid during the
// call only.
type Shell interface {
	ToRouter(message any)
	ToReplica(ref *fleet.Ref, message any)
	// StartAttempt calls the engine; what it says comes back as Frame and AttemptEnded.
	StartAttempt(attempt uint64, place Placement, request engine.Request)
	// AbortAttempt ends the call of the engine. AttemptEnded follows.
	AbortAttempt(attempt uint64)
	Append(leg int, entries []Entry, usage Usage)
	// Restart takes back all that was appended to a leg.
	Restart(leg int, usage Usage)
	Finish(leg int, finish Finish, usage Usage)
	Placed(leg int, at scoring.ReplicaID)
	End(f *fault.Fault) // nil: well
}

// NewCall is a call without a goroutine, for who drives a [Machine]: what it is told waits until it is taken.
func NewCall(req *Request, model Model) *Call {
	return &Call{Request: req, deps: Deps{Model: model}, inbox: newInbox()}
}

// Take returns what a call of NewCall was told since the last time.
func (c *Call) Take() []any { return c.inbox.take() }

// Enter registers a call of NewCall, so that it is told what is for all of its model's. It returns the budget that those share.
func (l *Live) Enter(c *Call) *Budget {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[c] = struct{}{}
	return l.budget(c.model())
}

// Quit takes a call of NewCall out.
func (l *Live) Quit(c *Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, c)
}

// Machine is the decisions for one request without the [Call] around them, for who brings a clock, a mail and engines of
// its own: the simulator. It is pure: what it hears it is told by the methods, what it wants done it tells the shell.
type Machine struct {
	m    *machine
	left bool // it has given back its share in the retry budget
}

// NewMachine returns the machine of a request. call is only named in messages; the requests of a model share its budget.
func NewMachine(cfg Config, req *Request, model Model, call *Call, b *Budget) *Machine {
	return &Machine{m: newMachine(cfg, req, model, call, b.join())}
}

// Start submits the request.
func (d *Machine) Start(now time.Time, to Shell) { d.perform(to, d.m.start(now)) }

// Message takes a message to the call.
func (d *Machine) Message(now time.Time, message any, to Shell) {
	d.perform(to, d.m.step(now, message))
}

// Frame takes what an engine said at a time.
func (d *Machine) Frame(at time.Time, attempt uint64, e engine.Event, to Shell) {
	d.perform(to, d.m.read(frame{attempt, e, at}))
}

// AttemptEnded takes the return of the engine's Generate.
func (d *Machine) AttemptEnded(now time.Time, attempt uint64, err error, to Shell) {
	d.perform(to, d.m.step(now, attemptEnded{attempt, err}))
}

// ClientGone says that nobody reads any more.
func (d *Machine) ClientGone(now time.Time, to Shell) { d.perform(to, d.m.step(now, clientGone{})) }

// Overrun says that what the client has not read exceeds its bound.
func (d *Machine) Overrun(now time.Time, to Shell) { d.perform(to, d.m.step(now, overrun{})) }

// NextTimeout is when the machine wants Timeout, if at all.
func (d *Machine) NextTimeout() (time.Time, bool) { return d.m.nextTimeout() }

// Timeout says that a time has come, maybe the one that was wanted.
func (d *Machine) Timeout(now time.Time, to Shell) { d.perform(to, d.m.step(now, timeout{})) }

// Done says that a call would leave now. Attempts that have not returned were aborted; the machine still takes their
// ends, and answers restarted replicas for them, as those do in a call's stead that outlive it.
func (d *Machine) Done() bool { return d.m.done() }

// Twice counts the legs that wait, or waited, for their first token on a second replica that fell silent with them.
func (d *Machine) Twice() (n int) {
	for _, l := range d.m.legs {
		if l.twice {
			n++
		}
	}
	return n
}

// Open counts the attempts that have not returned.
func (d *Machine) Open() int { return len(d.m.attempts) }

func (d *Machine) perform(to Shell, effects []effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case toRouter:
			to.ToRouter(e.message)
		case toReplica:
			to.ToReplica(e.ref, e.message)
		case startAttempt:
			to.StartAttempt(e.attempt, e.place, e.request)
		case abortAttempt:
			to.AbortAttempt(e.attempt)
		case *appendLeg:
			to.Append(e.leg, e.entries, e.usage)
		case restartLeg:
			to.Restart(e.leg, e.usage)
		case finishLeg:
			to.Finish(e.leg, e.finish, e.usage)
		case placedLeg:
			to.Placed(e.leg, e.replica)
		case endResponse:
			to.End(e.fault)
		case observed, hedged:
		default:
			panic(fmt.Sprintf("stream: no shell does %T", e))
		}
	}
	if d.m.done() && !d.left {
		d.left = true
		d.m.retries.close()
	}
}
