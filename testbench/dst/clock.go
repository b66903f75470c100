package dst

import "time"

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
	evWatch               // slow checkers look around
)

// event is one thing that happens at a time. Which fields mean anything depends on its kind.
type event struct {
	kind    kind
	fault   Fault
	phase   Phase
	n       uint64 // generation, step or number
	box     *mailbox
	host    *host
	call    *call
	attempt *attempt
	msg     any
}

// due is an event's place in the heap.
type due struct {
	at  time.Duration
	seq uint64 // orders what is due at once
	e   *event
}

// clock is the virtual clock: a heap of what is due, and the memory of what was.
type clock struct {
	now  time.Duration
	seq  uint64
	heap []due
	free []*event
}

func (a *due) before(b *due) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

// in has something happen after a delay. The event is the caller's to fill in until it returns to the run's loop.
func (c *clock) in(delay time.Duration, k kind) *event { return c.at(c.now+delay, k) }

// at has something happen at a time.
func (c *clock) at(at time.Duration, k kind) *event {
	var e *event
	if n := len(c.free); n > 0 {
		e = c.free[n-1]
		c.free = c.free[:n-1]
	} else {
		e = new(event)
	}
	e.kind = k
	c.seq++
	c.heap = append(c.heap, due{max(at, c.now), c.seq, e})
	for i := len(c.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !c.heap[i].before(&c.heap[up]) {
			break
		}
		c.heap[i], c.heap[up] = c.heap[up], c.heap[i]
		i = up
	}
	return e
}

// next takes out what is due first and moves the clock there; nil if nothing is.
func (c *clock) next() *event {
	if len(c.heap) == 0 {
		return nil
	}
	first := c.heap[0]
	last := len(c.heap) - 1
	c.heap[0] = c.heap[last]
	c.heap[last].e = nil
	c.heap = c.heap[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			break
		}
		if down+1 < last && c.heap[down+1].before(&c.heap[down]) {
			down++
		}
		if !c.heap[down].before(&c.heap[i]) {
			break
		}
		c.heap[i], c.heap[down] = c.heap[down], c.heap[i]
		i = down
	}
	c.now = first.at
	return first.e
}

// done gives an event's memory back.
func (c *clock) done(e *event) {
	*e = event{}
	c.free = append(c.free, e)
}
