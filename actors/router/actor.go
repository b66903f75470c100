package router

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"plimsoll/actors/explain"
	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/meter"
	"plimsoll/actors/stream"
	"plimsoll/actors/supervise"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// Stats is what a router publishes for metrics.
type Stats struct {
	QueuedRequests int
	QueuedTokens   scoring.Tokens
	Reserving      int // reservations not answered yet
	Encoding       int // inputs waiting for a worker or with one
	EncodingBytes  int
}

// Encoder turns an input into prompts. It is called by several workers at once. Errors are faults.
type Encoder func(stream.Input) ([]stream.Prompt, error)

// Deps are what a router needs from outside. All are required.
type Deps struct {
	Refs      func() []*fleet.Ref // the fleet as it is now, ordered by ID
	Encode    Encoder
	Gate      *Gate
	Workers   int
	Log       *slog.Logger
	Meter     *meter.Router
	Tokenizer *meter.Tokenizer
	Failed    func(supervise.Failed) // hears of a worker that panicked
	// Instances counts the model's routers since the node's start, also over restarts of its supervisor.
	Instances *atomic.Uint64
	// Attach makes the actor the one that calls submit to. It runs before Restarted: who submits again must reach this one.
	Attach func(pid *actor.PID)
	// Restarted asks every live call of the model to submit again. The first router asks too: what was submitted before it
	// was attached reached nobody.
	Restarted func(model string)
	// NewTicket names reservations; it must not repeat itself across restarts.
	NewTicket  func() scoring.Ticket
	Stats      *atomic.Pointer[Stats]
	Middleware func(kind string) actor.ReceiverMiddleware
	Supervise  supervise.Config
	Seed       uint64
	Watch      *explain.Watch // hears of every decision; nil: nobody does
}

// Tokenize asks for an input's prompts without running it. From the ingress; answered once on Reply.
type Tokenize struct {
	Input stream.Input
	Reply chan<- Tokenized // of capacity 1
}

// answer replies once: a second answer, of an instance that failed after the first, is dropped.
func (t *Tokenize) answer(r Tokenized) {
	select {
	case t.Reply <- r:
	default:
	}
}

// Tokenized answers Tokenize.
type Tokenized struct {
	Prompts []stream.Prompt
	Err     error
}

type (
	// encode is a job for a worker.
	encode struct{ job *job }
	// encoded is its result. From the worker.
	encoded struct {
		job     *job
		prompts []stream.Prompt
		err     error
		took    time.Duration
	}
	// ready: a worker can take a job. From the worker, at its start and after each job.
	ready struct {
		worker   *actor.PID
		instance uint64
	}
	// gateOpen: a tokenization slot of the node may be free. From the gate.
	gateOpen struct{}
)

var _ Shell = (*routerActor)(nil)

// routerActor wraps the machine: it is its shell, and supervises the workers.
type routerActor struct {
	*supervise.Strategy

	cfg      Config
	deps     Deps
	self     *actor.PID
	m        *machine
	views    []view // the fleet as the last step saw it
	granted  grants
	instance uint64 // tells messages of a former instance's workers from those of this one's

	jobs    jobs
	idle    []*actor.PID
	running map[*job]struct{}

	alarm supervise.Alarm
}

// Props returns how to spawn a model's router. Every instance asks the live calls to submit again.
func Props(cfg Config, deps Deps) *actor.Props {
	return actor.PropsFromProducer(
		func() actor.Actor {
			return supervise.Final(newActor(cfg, deps, deps.Instances.Add(1)), func(message any) { answerLost(message, "restarting") })
		},
		actor.WithReceiverMiddleware(supervise.Guard(deps.Log, "router", func(message, value any) {
			answerLost(message, value)
			giveUp(grants{}.lost(message, deps.Refs())...)
		}), deps.Middleware("router")),
	)
}

// answerLost answers the message whose sender does not ask again.
func answerLost(message, value any) {
	switch m := message.(type) {
	case *Tokenize:
		m.answer(Tokenized{Err: internal(value)})
	case *Suppose:
		m.answer(nil)
	}
}

// giveUp tells replicas of grants that nobody uses.
func giveUp(unused ...giveBack) {
	for _, g := range unused {
		g.ref.Tell(fleet.End{Ticket: g.ticket, Reason: ledger.Refused})
	}
}

func internal(value any) *fault.Fault {
	return &fault.Fault{Kind: fault.Internal, Message: "internal error", Err: &supervise.PanicError{Value: value}}
}

func newActor(cfg Config, deps Deps, instance uint64) *routerActor {
	a := &routerActor{cfg: cfg, deps: deps, instance: instance, jobs: newJobs(cfg.EncodeBytes), running: map[*job]struct{}{}, granted: grants{}}
	a.Strategy = supervise.NewStrategy(deps.Supervise, deps.Seed+instance, a.workerFailed)
	m, err := newMachine(cfg, rand.New(rand.NewPCG(deps.Seed, instance)), deps.NewTicket)
	if err != nil {
		panic(fmt.Sprintf("router: %v", err)) // the policy's name was checked by Validate of the system
	}
	a.m = m
	return a
}

// Receive implements actor.Actor.
func (a *routerActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		a.self = c.Self()
		a.deps.Attach(a.self)
		for range a.deps.Workers {
			a.spawnWorker(c)
		}
		a.deps.Restarted(a.cfg.Model)
	case *actor.Restarting, *actor.Stopping:
		a.stop()
	case *actor.Stopped, *actor.Terminated:
		return
	case *stream.Submit:
		a.submit(c, m)
	case *Tokenize:
		a.tokenize(c, m)
	case encoded:
		a.encoded(m)
	case ready:
		if m.instance == a.instance {
			a.idle = append(a.idle, m.worker)
			a.encodeNext(c)
		}
	case tick:
		a.alarm.Rung()
		a.step(c, m)
	case *Suppose:
		a.suppose(m)
	case gateOpen:
		a.encodeNext(c)
	case stream.Withdraw:
		a.withdraw(c, m)
	default:
		a.step(c, m)
	}
	a.publish()
}

func (a *routerActor) spawnWorker(c actor.Context) {
	self := c.Self()
	props := actor.PropsFromProducer(
		func() actor.Actor {
			w := &worker{encode: a.deps.Encode, gate: a.deps.Gate, router: self, instance: a.instance}
			return supervise.Final(w, func(message any) {
				if e, ok := message.(encode); ok {
					e.job.release(a.deps.Gate)
				}
			})
		},
		actor.WithReceiverMiddleware(
			supervise.Guard(a.deps.Log, "worker", nil), releaseOnPanic(a.deps.Gate), a.deps.Middleware("worker")))
	c.SpawnPrefix(props, "worker")
}

func (a *routerActor) stop() {
	a.Strategy.Close()
	a.alarm.Stop()
	if len(a.granted) > 0 {
		giveUp(a.granted.lost(nil, a.deps.Refs())...)
	}
	// Bare tokenizations have nobody who asks again.
	lost := &fault.Fault{Kind: fault.Internal, Message: "internal error"}
	for j := a.jobs.pop(); j != nil; j = a.jobs.pop() {
		if j.owner == nil {
			j.done(nil, lost)
		}
	}
	for j := range a.running {
		j.release(a.deps.Gate) // its worker may be stopped before it takes it
		if j.owner == nil {
			j.done(nil, lost)
		}
	}
}

func (a *routerActor) step(c actor.Context, message any) {
	began := time.Now()
	fleet := a.deps.Refs()
	a.views = views(fleet, a.views)
	a.m.trace = a.deps.Watch.Batch()
	effects := a.m.step(began, message, a.views)
	a.tell()
	a.granted.heard(message, fleet)
	if _, ok := message.(*stream.Submit); ok {
		a.deps.Meter.Decided(time.Since(began))
	}
	perform(effects, a, a.granted)
	a.arm(c)
}

// tell hands over what a step has noted.
func (a *routerActor) tell() {
	b := a.m.trace
	if b == nil {
		return
	}
	a.m.trace = nil
	if b.Empty() {
		a.deps.Watch.Keep(b)
		return
	}
	b.Instance = a.instance
	a.deps.Watch.Tell(b)
}

// suppose answers with what would be decided.
func (a *routerActor) suppose(s *Suppose) {
	a.views = views(a.deps.Refs(), a.views)
	a.m.trace = &explain.Batch{}
	a.m.suppose(time.Now(), s, a.views)
	s.answer(a.m.trace)
	a.m.trace = nil
}

// TellCall implements [Shell].
func (a *routerActor) TellCall(call *stream.Call, message any) { call.Tell(message) }

// Reserve implements [Shell].
func (a *routerActor) Reserve(ref *fleet.Ref, r *fleet.Reserve) {
	r.From = a.self
	ref.Tell(r)
}

// GiveBack implements [Shell].
func (a *routerActor) GiveBack(ref *fleet.Ref, ticket scoring.Ticket) {
	giveUp(giveBack{ref, ticket})
}

// Turned implements [Shell].
func (a *routerActor) Turned(kind fault.Kind, cause fault.Cause) { a.deps.Meter.Refused(kind, cause) }

// Ejected implements [Shell].
func (a *routerActor) Ejected(id scoring.ReplicaID, slowdown float64, until time.Time) {
	a.deps.Meter.Ejected(string(id))
	a.deps.Log.Warn("replica ejected: its steps take much longer than they did", slog.String("replica", string(id)),
		slog.Float64("slowdown", slowdown), slog.Time("until", until))
}

// Reranked implements [Shell].
func (a *routerActor) Reranked() { a.deps.Meter.Reranked() }

// Dispatched implements [Shell].
func (a *routerActor) Dispatched(waited time.Duration) { a.deps.Meter.Dispatched(waited) }

// arm keeps the one timer at the time that the machine wants.
func (a *routerActor) arm(c actor.Context) {
	at, ok := a.m.nextTick()
	self, root := a.self, c.ActorSystem().Root
	a.alarm.Set(at, ok, func() { root.Send(self, tick{}) })
}

func (a *routerActor) publish() {
	s := Stats{
		QueuedRequests: a.m.waiting.Len(), QueuedTokens: a.m.waiting.Tokens(), Reserving: len(a.m.tickets),
		Encoding: a.jobs.heap.Len() + len(a.running), EncodingBytes: a.jobs.bytes,
	}
	if s == *a.deps.Stats.Load() {
		return
	}
	a.deps.Stats.Store(&s)
	a.deps.Meter.Queue(s.QueuedRequests, int(s.QueuedTokens))
	a.deps.Tokenizer.Queue(s.Encoding, s.EncodingBytes)
}

// submit has a submission tokenized, unless it brings its prompts, and then places it.
func (a *routerActor) submit(c actor.Context, sub *stream.Submit) {
	a.forget(sub.Call, 0) // an older submission of the call, made to an instance that failed
	if sub.Prompts != nil {
		a.step(c, sub)
		return
	}
	in := sub.Call.Request.Input
	if in.Tokens != nil {
		prompts := make([]stream.Prompt, len(in.Tokens))
		for i, ids := range in.Tokens {
			prompts[i].IDs = ids
		}
		a.known(c, sub, prompts)
		return
	}
	j := &job{input: in, bytes: inputBytes(in), arrival: sub.Arrival, owner: sub}
	j.done = func(prompts []stream.Prompt, err error) {
		if err != nil {
			a.deps.Tokenizer.Refused(fault.Of(err).Kind)
			sub.Call.Tell(stream.Rejected{Number: sub.Number, Fault: fault.Of(err)})
			return
		}
		a.known(c, sub, prompts)
	}
	a.enqueue(c, j)
}

func (a *routerActor) known(c actor.Context, sub *stream.Submit, prompts []stream.Prompt) {
	sub.Call.Tell(stream.Encoded{Prompts: prompts})
	full := *sub
	full.Prompts = prompts
	a.step(c, &full)
}

func (a *routerActor) tokenize(c actor.Context, t *Tokenize) {
	a.enqueue(c, &job{
		input: t.Input, bytes: inputBytes(t.Input), arrival: time.Now(),
		done: func(prompts []stream.Prompt, err error) { t.answer(Tokenized{prompts, err}) },
	})
}

func (a *routerActor) enqueue(c actor.Context, j *job) {
	if !a.jobs.push(j) {
		j.done(nil, contended(time.Second, "too much text waits to be tokenized; try again later"))
		return
	}
	a.encodeNext(c)
}

// encodeNext gives jobs to workers while both and a slot of the node are free.
func (a *routerActor) encodeNext(c actor.Context) {
	self, root := a.self, c.ActorSystem().Root
	for len(a.idle) > 0 && a.jobs.heap.Len() > 0 {
		if !a.deps.Gate.TryAcquire(a.cfg.Model, func() { root.Send(self, gateOpen{}) }) {
			return
		}
		j := a.jobs.pop()
		w := a.idle[len(a.idle)-1]
		a.idle = a.idle[:len(a.idle)-1]
		a.running[j] = struct{}{}
		c.Send(w, encode{j})
	}
}

func (a *routerActor) encoded(e encoded) {
	if _, ok := a.running[e.job]; !ok {
		return // of a former instance
	}
	delete(a.running, e.job)
	tokens := 0
	for _, p := range e.prompts {
		tokens += len(p.IDs)
	}
	a.deps.Tokenizer.Encoded(e.took, tokens)
	if !e.job.withdrawn {
		e.job.done(e.prompts, e.err)
	}
}

// workerFailed answers for a worker that panicked; the strategy restarts it. It runs on the router's goroutine.
func (a *routerActor) workerFailed(f supervise.Failed) {
	a.deps.Failed(f)
	e, ok := f.Message.(encode)
	if !ok {
		return
	}
	delete(a.running, e.job)
	switch {
	case e.job.withdrawn:
	case e.job.owner != nil:
		e.job.owner.Call.Tell(stream.Rejected{Number: e.job.owner.Number, Fault: internal(f.Reason)})
	default:
		e.job.done(nil, internal(f.Reason))
	}
}

func (a *routerActor) withdraw(c actor.Context, w stream.Withdraw) {
	if a.forget(w.Call, w.Number) {
		w.Call.Tell(stream.Withdrawn{Number: w.Number})
		return
	}
	a.step(c, w)
}

// forget drops the tokenization of a call's submission, 0 for any; false if there is none. A job that runs goes on, and
// its result is dropped.
func (a *routerActor) forget(call *stream.Call, number uint64) bool {
	if a.jobs.remove(call, number) {
		return true
	}
	for j := range a.running {
		if !j.withdrawn && j.isOf(call, number) {
			j.withdrawn = true
			return true
		}
	}
	return false
}
