package router

import (
	"math/rand/v2"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
)

// Machine is a router's decisions without the actor around them, for who brings a clock and a mail of its own: the
// simulator. It is pure: time and tickets are arguments, the fleet is read from what the references publish.
type Machine struct {
	m       *machine
	views   []view
	granted grants
}

// NewMachine returns a router that knows of no request.
func NewMachine(cfg Config, rng *rand.Rand, newTicket func() scoring.Ticket) (*Machine, error) {
	m, err := newMachine(cfg, rng, newTicket)
	if err != nil {
		return nil, err
	}
	return &Machine{m: m, granted: grants{}}, nil
}

// Message takes a message to the router: a submission brings its prompts. fleet is ordered by ID.
func (d *Machine) Message(now time.Time, message any, fleet []*fleet.Ref, to Shell) {
	d.views = views(fleet, d.views)
	effects := d.m.step(now, message, d.views)
	d.granted.heard(message, fleet)
	perform(effects, to, d.granted)
}

// Fail says that the actor has failed at a message: grants that nobody was told of are given back.
func (d *Machine) Fail(message any, fleet []*fleet.Ref, to Shell) {
	for _, e := range d.granted.lost(message, fleet) {
		to.GiveBack(e.ref, e.ticket)
	}
}

// NextTick is when the machine wants Tick, if at all.
func (d *Machine) NextTick() (time.Time, bool) { return d.m.nextTick() }

// Tick says that the time has come which NextTick named, or a later one.
func (d *Machine) Tick(now time.Time, fleet []*fleet.Ref, to Shell) {
	d.Message(now, tick{}, fleet, to)
}

// HeldUntil is until when a request that waits may be held for a better replica, as its policy says; false if it does not wait.
func (d *Machine) HeldUntil(call *stream.Call) (time.Time, bool) {
	e := d.m.queuedAs[call]
	if e == nil {
		return time.Time{}, false
	}
	return e.bound, true
}

// Asks is the request that a ticket is asked for; nil: for none any more.
func (d *Machine) Asks(ticket scoring.Ticket) *stream.Call {
	if a := d.m.tickets[ticket]; a != nil {
		return a.by.entry.sub.Call
	}
	return nil
}

// Charge is the service that a request comes to which waits, or for which replicas were asked, as its tenant is charged for it in the
// queue, in seconds; false if there is no such request.
func (d *Machine) Charge(call *stream.Call) (float64, bool) {
	e := d.m.queuedAs[call]
	if by := d.m.byCall[call]; by != nil {
		e = by.entry
	}
	if e == nil {
		return 0, false
	}
	return e.chargeSeconds, true
}

// Residue counts what the machine holds of requests: in the queue, in its sets of reservations under way, and in what it
// has booked for them. Without requests it is all zero.
type Residue struct {
	Queued, QueuedCalls, Deadlines, Asking, Tickets, Booked int
	QueuedTokens                                            scoring.Tokens
}

// Residue returns what is held now.
func (d *Machine) Residue() Residue {
	m := d.m
	return Residue{
		Queued: m.waiting.Len(), QueuedTokens: m.waiting.Tokens(), QueuedCalls: len(m.queuedAs), Deadlines: m.deadlines.Len(),
		Asking: len(m.byCall), Tickets: len(m.tickets), Booked: len(m.booked),
	}
}
