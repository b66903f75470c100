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
}

// Deps are what a router needs from outside. All are required.
type Deps struct {
	Refs  func() []*fleet.Ref // the fleet as it is now, ordered by ID
	Log   *slog.Logger
	Meter *meter.Router
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
	Seed       uint64
	Watch      *explain.Watch // hears of every decision; nil: nobody does
}

var _ Shell = (*routerActor)(nil)

// routerActor wraps the machine: it is its shell.
type routerActor struct {
	cfg      Config
	deps     Deps
	self     *actor.PID
	m        *machine
	views    []view // the fleet as the last step saw it
	granted  grants
	instance uint64

	alarm supervise.Alarm
}

// Props returns how to spawn a model's router. Every instance asks the live calls to submit again.
func Props(cfg Config, deps Deps) *actor.Props {
	return actor.PropsFromProducer(
		func() actor.Actor {
			return supervise.Final(newActor(cfg, deps, deps.Instances.Add(1)), answerLost)
		},
		actor.WithReceiverMiddleware(supervise.Guard(deps.Log, "router", func(message, _ any) {
			answerLost(message)
			giveUp(grants{}.lost(message, deps.Refs())...)
		}), deps.Middleware("router")),
	)
}

// answerLost answers the message whose sender does not ask again.
func answerLost(message any) {
	if m, ok := message.(*Suppose); ok {
		m.answer(nil)
	}
}

// giveUp tells replicas of grants that nobody uses.
func giveUp(unused ...giveBack) {
	for _, g := range unused {
		g.ref.Tell(fleet.End{Ticket: g.ticket, Reason: ledger.Refused})
	}
}

func newActor(cfg Config, deps Deps, instance uint64) *routerActor {
	a := &routerActor{cfg: cfg, deps: deps, instance: instance, granted: grants{}}
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
		a.deps.Restarted(a.cfg.Model)
	case *actor.Restarting, *actor.Stopping:
		a.stop()
	case *actor.Stopped, *actor.Terminated:
		return
	case tick:
		a.alarm.Rung()
		a.step(c, m)
	case *Suppose:
		a.suppose(m)
	default:
		a.step(c, m)
	}
	a.publish()
}

func (a *routerActor) stop() {
	a.alarm.Stop()
	if len(a.granted) > 0 {
		giveUp(a.granted.lost(nil, a.deps.Refs())...)
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
	}
	if s == *a.deps.Stats.Load() {
		return
	}
	a.deps.Stats.Store(&s)
	a.deps.Meter.Queue(s.QueuedRequests, int(s.QueuedTokens))
}
