package fleet

import (
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/scoring"
	"plimsoll/scoring/queue"
	"plimsoll/testbench/trace"
)

// call is one request: its client and its stream's machine.
type call struct {
	w      *world
	n      int // of the run's samples
	at     int // place among the live calls
	handle *stream.Call
	m      *stream.Machine
	prompt []uint32
	answer []uint32
	open   []*attempt     // those that have not returned
	armed  *time.Duration // when its timer rings; nil: it does not
	over   bool
}

var _ stream.Shell = (*call)(nil)

// letters decodes each ID to one letter: nobody reads the text.
type letters struct{}

// many letters are at least as many as are decoded at once.
const many = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// Decode implements detok.Decoder.
func (letters) Decode(ids []uint32, _ bool) (string, error) { return many[:len(ids)], nil }

// newCall makes the call of a request that comes now.
func (w *world) newCall(r trace.Request) *call {
	ids := w.text.Sequence(make([]uint32, 0, r.PromptTokens+r.OutputTokens), r)
	c := &call{w: w, n: len(w.samples), at: len(w.live), prompt: ids[:r.PromptTokens:r.PromptTokens], answer: ids[r.PromptTokens:]}
	w.samples = append(w.samples, Sample{
		Number: r.Number, At: w.now(), PromptTokens: r.PromptTokens, OutputTokens: r.OutputTokens, Session: r.Session, Replica: -1,
	})
	w.live = append(w.live, c)
	request := &stream.Request{
		Model: Model, Arrival: w.time(), Input: stream.Input{Tokens: [][]uint32{c.prompt}}, N: 1, MaxTokens: r.MaxTokens,
		IgnoreEOS: true, Tenant: r.Tenant, Session: r.Session, Class: classOf(r.Class),
	}
	c.handle = &stream.Call{Request: request}
	c.m = stream.NewMachine(w.cfg.Stream, request, stream.Model{Decoder: letters{}}, c.handle, w.budget)
	w.byHandle[c.handle] = c
	return c
}

// classOf is the class of a name; one that is not known here is the middle one.
func classOf(name string) queue.Class {
	for c := range queue.NumClasses {
		if c.String() == name {
			return c
		}
	}
	return queue.Default
}

func (c *call) sample() *Sample { return &c.w.samples[c.n] }

func (c *call) start() {
	c.m.Start(c.w.time(), c)
	c.after()
}

// receive implements actor.
func (c *call) receive(message any) {
	if r, ok := message.(returned); ok {
		c.forget(r.attempt)
		c.m.AttemptEnded(c.w.time(), r.attempt.id, r.err, c)
	} else {
		c.m.Message(c.w.time(), message, c)
	}
	c.after()
}

func (c *call) timeout() {
	if c.over || c.armed == nil || c.w.now() < *c.armed {
		return
	}
	c.armed = nil
	c.m.Timeout(c.w.time(), c)
	c.after()
}

// after follows a step: it sets the timer, and leaves when all is over.
func (c *call) after() {
	if c.over {
		return
	}
	if c.m.Done() && c.m.Open() == 0 {
		c.leave()
		return
	}
	at, ok := c.m.NextTimeout()
	if !ok {
		return
	}
	when := max(c.w.since(at), c.w.now())
	if c.armed != nil && *c.armed <= when {
		return
	}
	c.armed = &when
	c.w.ring(at, nil, c)
}

// leave forgets the call, and what it holds: its timer may keep it for a while.
func (c *call) leave() {
	w := c.w
	c.over = true
	last := w.live[len(w.live)-1]
	w.live[c.at], last.at = last, c.at
	w.live[len(w.live)-1] = nil
	w.live = w.live[:len(w.live)-1]
	delete(w.byHandle, c.handle)
	c.handle, c.m, c.prompt, c.answer = nil, nil, nil, nil
}

func (c *call) forget(a *attempt) {
	for i, o := range c.open {
		if o == a {
			c.open = append(c.open[:i], c.open[i+1:]...)
			return
		}
	}
}

// attempt is one try of a call on a replica, or a canary.
type attempt struct {
	id   uint64 // its call's number of it, or the canary's
	name string // the engine's
	call *call  // nil: a canary
	host *host
	beat fleet.Beat
}

// returned tells a call that an engine has let go of an attempt.
type returned struct {
	attempt *attempt
	err     error
}

// frame takes what a pass gave.
func (a *attempt) frame(e engine.Event) {
	w := a.host.w
	if a.call == nil {
		a.end(nil)
		return
	}
	a.beat.Heard(w.time())
	a.call.m.Frame(w.time(), a.id, e, a.call)
	if e.Finish != nil {
		a.end(nil)
	} else if a.call.sample().Produced == 1 {
		a.call.after() // it is waited for otherwise from now on
	}
}

// end is the return of the engine's Generate.
func (a *attempt) end(err error) {
	if a.call == nil {
		a.host.w.post(a.host, results{a.id, err})
		return
	}
	a.host.w.post(a.call, returned{a, err})
}

// ToRouter implements [stream.Shell].
func (c *call) ToRouter(message any) { c.w.post(&c.w.front, message) }

// ToReplica implements [stream.Shell].
func (c *call) ToReplica(ref *fleet.Ref, message any) { c.w.post(c.w.hostOf(ref), message) }

// StartAttempt implements [stream.Shell].
func (c *call) StartAttempt(id uint64, place stream.Placement, r engine.Request) {
	h := c.w.hostOf(place.Ref)
	a := &attempt{id: id, name: r.ID, call: c, host: h, beat: place.Ref.Beat()}
	c.open = append(c.open, a)
	h.open[a.name] = a
	s := c.sample()
	if s.Attempts == 0 {
		s.Dispatched = c.w.now()
	}
	s.Attempts++
	for i, o := range c.w.hosts {
		if o == h {
			s.Replica = i
		}
	}
	c.w.post(h, submit{sim.Submit{
		ID: r.ID, PromptTokens: r.PromptTokens, MaxTokens: r.MaxTokens, IgnoreEOS: true, Answer: c.answer[len(r.PromptTokens)-len(c.prompt):],
	}})
}

// AbortAttempt implements [stream.Shell].
func (c *call) AbortAttempt(id uint64) {
	for _, a := range c.open {
		if a.id == id {
			c.w.post(a.host, abort{a.name})
		}
	}
}

// Append implements [stream.Shell].
func (c *call) Append(_ int, entries []stream.Entry, _ stream.Usage) {
	s := c.sample()
	if s.Produced == 0 {
		s.First = c.w.now()
	}
	s.Produced += len(entries)
	s.Last = c.w.now()
}

// Restart implements [stream.Shell]. Only answers that are sent whole begin anew.
func (c *call) Restart(int, stream.Usage) {}

// Finish implements [stream.Shell].
func (c *call) Finish(_ int, _ stream.Finish, u stream.Usage) {
	c.sample().CachedTokens = u.CachedTokens
}

// Placed implements [stream.Shell].
func (c *call) Placed(int, scoring.ReplicaID) {}

// End implements [stream.Shell].
func (c *call) End(f *fault.Fault) {
	s := c.sample()
	switch {
	case f == nil:
		s.Outcome = Finished
	case s.Attempts == 0:
		s.Outcome, s.Why = Refused, f.Kind.String()
	default:
		s.Outcome, s.Why = Failed, f.Kind.String()
	}
}
