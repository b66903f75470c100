package dst

import (
	"time"

	"plimsoll/testbench/agenda"
)

// kind says what an event does.
type kind uint8

const (
	evMail    kind = iota // box handles its next message
	evDirect              // box handles msg
	evTick                // a machine's timer rings
	evProbe               // host's connection is to probe
	evProbed              // the answer to a probe
	evArrive              // an attempt's request reaches its engine
	evHangUp              // an attempt's closed connection is seen by its engine
	evPass                // an engine's forward pass is over
	evFrame               // an attempt's frame is read
	evReturn              // an attempt's Generate returns
	evFeed                // something comes over a subscription's link
	evRevive              // a failed actor's next instance starts
	evCall                // a client sends its request
	evLeave               // a client leaves
	evEncoded             // a worker has tokenized
	evFault               // something happens
	evRecover             // a lasting fault ends
	evOrder               // an operator orders
	evWatch               // slow checkers look around
)

// event is one thing that happens at a time. Which fields mean anything depends on its kind.
type event struct {
	kind    kind
	fault   Fault
	phase   Phase
	leave   time.Duration
	n       uint64 // generation, step or number
	box     *mailbox
	host    *host
	call    *call
	attempt *attempt
	msg     any
}

// clock is the virtual clock: what is due, and the memory of what was.
type clock struct {
	now time.Duration
	due agenda.Agenda[event]
}

// in has something happen after a delay. The event is the caller's to fill in until it returns to the run's loop.
func (c *clock) in(delay time.Duration, k kind) *event { return c.at(c.now+delay, k) }

// at has something happen at a time.
func (c *clock) at(at time.Duration, k kind) *event {
	e := c.due.At(max(at, c.now))
	e.kind = k
	return e
}

// next takes out what is due first and moves the clock there; nil if nothing is.
func (c *clock) next() *event {
	e := c.due.Next()
	c.now = c.due.Now()
	return e
}

// done gives an event's memory back.
func (c *clock) done(e *event) { c.due.Done(e) }
