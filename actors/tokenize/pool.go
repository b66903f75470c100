package tokenize

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"plimsoll/actors/fault"
	"plimsoll/actors/meter"
	"plimsoll/actors/stream"
	"plimsoll/actors/supervise"
)

// Deps are what a pool needs from outside. All are required.
type Deps struct {
	Handle *Handle
	Gate   *Gate
	// Prompts makes an input's prompts, rendered and not encoded; raw ones where the engine renders. Several workers call it at
	// once. Errors are faults.
	Prompts func(stream.Input) ([]stream.Prompt, error)
	Texts   Texts
	Limits  func() Limits // as they are now
	// Router sends the model's router what the pool does not keep: submissions whose prompts are known, and what is withdrawn.
	Router func(message any)
	Log    *slog.Logger
	Meter  *meter.Tokenizer
	Failed func(supervise.Failed) // hears of a worker that panicked
	// Restarted asks every live call of the model whose prompts are not known to submit again: what was sent to an instance
	// before this one is lost.
	Restarted  func(model string)
	Middleware func(kind string) actor.ReceiverMiddleware
	Supervise  supervise.Config
	Seed       uint64
}

// pool wraps the machine: it is its shell, and supervises the workers.
type pool struct {
	*supervise.Strategy

	cfg      Config
	deps     Deps
	encoder  *encoder
	m        *machine
	wake     func() // tells the pool that a slot of the node may be free
	instance uint64 // tells messages of a former instance's workers from those of this one's
	idle     [NumLanes][]*actor.PID
	running  map[*job]struct{}
}

// Props returns how to spawn a model's pool.
func Props(cfg Config, deps Deps) *actor.Props {
	if err := cfg.Validate(); err != nil {
		panic(fmt.Sprintf("tokenize: %v", err)) // whoever makes a system has checked it
	}
	return actor.PropsFromProducer(
		func() actor.Actor {
			return supervise.Final(newPool(cfg, deps), func(message any) { answerLost(deps, message, "restarting") })
		},
		actor.WithReceiverMiddleware(
			supervise.Guard(deps.Log, "tokenizer", func(message, value any) { answerLost(deps, message, value) }), deps.Middleware("tokenizer")),
	)
}

// answerLost answers a message that an instance failed at, if its sender does not send it again.
func answerLost(deps Deps, message, value any) {
	switch m := message.(type) {
	case *Tokenize:
		m.answer(Tokenized{Err: internal(value)})
	case stream.Withdraw, stream.Inquire:
		deps.Router(m) // nothing is kept here any more
	}
}

func newPool(cfg Config, deps Deps) *pool {
	p := &pool{
		cfg: cfg, deps: deps, instance: deps.Handle.instances.Add(1), m: newMachine(cfg), running: map[*job]struct{}{},
		encoder: &encoder{prompts: deps.Prompts, texts: deps.Texts, limits: deps.Limits, sliceBytes: cfg.SliceBytes},
	}
	p.Strategy = supervise.NewStrategy(deps.Supervise, deps.Seed+p.instance, p.workerFailed)
	return p
}

// Receive implements actor.Actor.
func (p *pool) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		p.start(c)
	case *actor.Restarting, *actor.Stopping:
		p.stop()
	case *actor.Stopped, *actor.Terminated:
		return
	case *stream.Submit:
		p.submit(c, m)
	case stream.Withdraw:
		p.withdraw(m)
	case stream.Inquire:
		p.inquire(m)
	case *Tokenize:
		if p.m.bare[m] == nil { // else it was asked again
			p.add(c, &job{input: m.Input, tenant: m.Tenant, class: m.Class, arrival: time.Now(), bare: m})
		}
	case Abandon:
		p.left(p.m.abandon(time.Now(), m.Of))
	case ran:
		p.ran(c, m)
	case ready:
		if m.instance == p.instance {
			p.idle[m.lane] = append(p.idle[m.lane], m.worker)
			p.runNext(c)
		}
	case gateOpen:
		p.runNext(c)
	}
	p.publish()
}

func (p *pool) start(c actor.Context) {
	self, root := c.Self(), c.ActorSystem().Root
	p.wake = func() { root.Send(self, gateOpen{}) }
	for lane, n := range slots(p.deps.Gate.n) {
		for range n {
			p.spawnWorker(c, Lane(lane)) //nolint:gosec // less than NumLanes
		}
	}
	p.deps.Handle.Attach(self)
	p.deps.Restarted(p.cfg.Model)
}

func (p *pool) spawnWorker(c actor.Context, lane Lane) {
	self := c.Self()
	props := actor.PropsFromProducer(
		func() actor.Actor {
			w := &worker{encoder: p.encoder, gate: p.deps.Gate, lane: lane, pool: self, instance: p.instance}
			return supervise.Final(w, func(message any) {
				if m, ok := message.(run); ok {
					m.slot.release(p.deps.Gate)
				}
			})
		},
		actor.WithReceiverMiddleware(
			supervise.Guard(p.deps.Log, "worker", nil), releaseOnPanic(p.deps.Gate), p.deps.Middleware("worker")))
	c.SpawnPrefix(props, "worker")
}

func (p *pool) stop() {
	p.Strategy.Close()
	for j := range p.running {
		j.slot.release(p.deps.Gate) // its worker may be stopped before it takes it
	}
	for _, j := range p.m.jobs { // bare tokenizations have nobody who asks again
		if j.bare != nil {
			j.bare.answer(Tokenized{Err: &fault.Fault{Kind: fault.Internal, Message: "internal error"}})
		}
	}
}

// submit has a submission tokenized.
func (p *pool) submit(c actor.Context, sub *stream.Submit) {
	if p.m.submitted(sub) {
		return
	}
	req := sub.Call.Request
	if req.Input.Tokens != nil {
		prompts := make([]stream.Prompt, len(req.Input.Tokens))
		for i, ids := range req.Input.Tokens {
			prompts[i].IDs = ids
		}
		p.known(sub, prompts)
		return
	}
	p.add(c, &job{input: req.Input, tenant: req.Tenant, class: req.Class, arrival: sub.Arrival, limited: true, owner: sub})
}

func (p *pool) known(sub *stream.Submit, prompts []stream.Prompt) {
	sub.Call.Tell(stream.Encoded{Prompts: prompts})
	full := *sub
	full.Prompts = prompts
	p.deps.Router(&full)
}

func (p *pool) add(c actor.Context, j *job) {
	j.bytes = inputBytes(j.input)
	if !p.m.admit(j) {
		p.answer(j, nil, &fault.Fault{
			Kind: fault.Contended, Message: "too much text waits to be tokenized; try again later", RetryAfter: time.Second,
		})
		return
	}
	if !p.m.waits(j.lane) && p.free(j.lane) {
		p.m.direct(j)
		p.run(c, j)
		return
	}
	p.m.push(time.Now(), j)
	p.runNext(c)
}

// runNext gives steps to workers, in each lane as long as both and a slot of the node are free.
func (p *pool) runNext(c actor.Context) {
	for lane := range NumLanes {
		for p.m.waits(lane) && p.free(lane) {
			p.run(c, p.m.next(time.Now(), lane))
		}
	}
}

// free takes a slot of the node for an idle worker of a lane; false if there is none of one of them.
func (p *pool) free(lane Lane) bool {
	return len(p.idle[lane]) > 0 && p.deps.Gate.TryAcquire(lane, p.cfg.Model, p.wake)
}

// run gives a job's step to an idle worker, of whose slot free has taken care.
func (p *pool) run(c actor.Context, j *job) {
	lane := j.lane
	last := len(p.idle[lane]) - 1
	w := p.idle[lane][last]
	p.idle[lane] = p.idle[lane][:last]
	p.running[j] = struct{}{}
	c.Send(w, run{j, j.take(lane)})
}

func (p *pool) ran(c actor.Context, r ran) {
	j := r.job
	if _, ok := p.running[j]; !ok {
		return // of a former instance
	}
	delete(p.running, j)
	j.took += r.took
	if r.result.more {
		if p.m.ran(time.Now(), j, r.result.lane, r.result.step) {
			p.runNext(c)
			return
		}
	}
	p.over(j, r.result.prompts, r.result.err)
}

// over ends a job that ran.
func (p *pool) over(j *job, prompts []stream.Prompt, err error) {
	wanted := p.m.end(j)
	p.deps.Meter.Encoded(j.took, j.work.tokens)
	p.deps.Meter.Waited(j.short, j.waited)
	if wanted {
		p.answer(j, prompts, err)
	}
}

// answer tells whoever asked for a job what has come of it.
func (p *pool) answer(j *job, prompts []stream.Prompt, err error) {
	switch {
	case j.bare != nil:
		j.bare.answer(Tokenized{prompts, err})
	case err != nil:
		f := fault.Of(err)
		p.deps.Meter.Refused(f.Kind)
		j.owner.Call.Tell(stream.Rejected{Number: j.owner.Number, Fault: f})
	default:
		p.known(j.owner, prompts)
	}
}

// workerFailed answers for a worker that panicked; the strategy restarts it. It runs on the pool's goroutine.
func (p *pool) workerFailed(f supervise.Failed) {
	p.deps.Failed(f)
	m, ok := f.Message.(run)
	if !ok {
		return
	}
	if _, ok := p.running[m.job]; !ok {
		return
	}
	delete(p.running, m.job)
	if p.m.end(m.job) {
		p.answer(m.job, nil, internal(f.Reason))
	}
}

func (p *pool) withdraw(w stream.Withdraw) {
	j := p.m.withdraw(time.Now(), w.Call, w.Number)
	if j == nil || w.Number == 0 {
		p.deps.Router(w)
	}
	if j != nil {
		w.Call.Tell(stream.Withdrawn{Number: j.owner.Number})
		p.left(j)
	}
}

// inquire says that the pool has a submission; of what it has not the router has to say it, which it hears of behind all that
// was passed on.
func (p *pool) inquire(q stream.Inquire) {
	if p.m.has(q.Call, q.Number) {
		q.Call.Tell(stream.Known{Number: q.Number})
		return
	}
	p.deps.Router(q)
}

// left counts the wait of a job that was dropped before its end; one that runs is counted when its step is over.
func (p *pool) left(j *job) {
	if j != nil && !j.running {
		p.deps.Meter.Waited(j.short, j.waited)
	}
}

func (p *pool) publish() {
	s := Stats{}
	s.Jobs, s.WaitingBytes = p.m.held()
	if s == *p.deps.Handle.stats.Load() {
		return
	}
	p.deps.Handle.stats.Store(&s)
	p.deps.Meter.Queue(s.Jobs, s.WaitingBytes)
}
