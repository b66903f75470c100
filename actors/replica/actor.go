package replica

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"plimsoll/actors/fleet"
	"plimsoll/actors/meter"
	"plimsoll/actors/supervise"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// Deps are what a replica actor needs from outside. All are required.
type Deps struct {
	Ref     *fleet.Ref
	Memory  *Memory // of the instances before
	Indexes *Indexes
	Log     *slog.Logger
	Meter   *meter.Registered
	Failed  func(supervise.Failed) // hears of a child that panicked
	// TellRouter tells the model's router of room.
	TellRouter func(message any)
	// Announce asks every live request to answer with Announced and returns how many were asked.
	Announce func(id scoring.ReplicaID, epoch uint64) int
	// Evict tells the attempts that run here to leave, if there is another place for them.
	Evict func(leaving fleet.Leaving)
	// Others are the other replicas of the model, and maybe this one.
	Others func() []*fleet.Ref
	// Accord is what the model's engines have to agree on; the replica has joined it.
	Accord *fleet.Accord
	// Settled hears what the engines call the model, if it is this replica's engine that says so.
	Settled func(s *fleet.Spoken)
	// Ranks hears of all data-parallel ranks of the replica's server, where it has several; maybe more than once.
	Ranks func(ranks []int)
	// Gone hears that the replica is drained and may be forgotten; maybe more than once.
	Gone func()
	// Middleware is put around each kind of actor's Receive, inside its Guard; used by fault injection.
	Middleware func(kind string) actor.ReceiverMiddleware
	Supervise  supervise.Config
	Seed       uint64
}

// replicaActor wraps the machine: it performs effects and supervises connection and feed.
type replicaActor struct {
	*supervise.Strategy // supervises the children

	cfg  Config
	deps Deps
	m    *machine
	// meter counts from zero with each instance, as the ledger does.
	meter *meter.Replica

	connection, feed *actor.PID
	alarm            supervise.Alarm
	early            *Probed   // the last answer, if it is to be said again
	earlySince       time.Time // it, or one before it without another between them
	ranks            []int     // that were told last
}

// Props returns how to spawn a replica actor. Each instance after a panic is a new epoch.
func Props(cfg Config, deps Deps) *actor.Props {
	return actor.PropsFromProducer(
		func() actor.Actor {
			return supervise.Final(newActor(cfg, deps), func(message any) { answerLost(deps.Ref, message) })
		},
		actor.WithReceiverMiddleware(
			supervise.Guard(deps.Log, "replica", func(message, _ any) {
				deps.Memory.fail(deps.Ref, message)
				answerLost(deps.Ref, message)
			}),
			deps.Middleware("replica")),
	)
}

// answerLost answers the one message whose sender would wait for ever. What else is lost with a failing instance needs no
// answer: the announcements to the next one make up for it, or what is left to that one.
func answerLost(ref *fleet.Ref, message any) {
	if r, ok := message.(*fleet.Reserve); ok {
		ref.Answer(r.From, &fleet.Refused{
			Ticket: r.Claim.Ticket, Replica: ref.ID, Reason: ledger.Closed, Snapshot: ref.Snapshot(),
		})
	}
}

func newActor(cfg Config, deps Deps) *replicaActor {
	return &replicaActor{
		cfg: cfg, deps: deps, meter: deps.Meter.Replica(),
		Strategy: supervise.NewStrategy(deps.Supervise, deps.Seed, deps.Failed),
	}
}

// Receive implements actor.Actor.
func (a *replicaActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		a.start(c)
	case *actor.Stopping, *actor.Restarting:
		a.stop()
	case *actor.Stopped, *actor.Terminated:
	case fleet.Learned:
		c.Send(a.feed, m)
	case fleet.Cached:
		c.Send(a.feed, m)
	case tick:
		a.alarm.Rung()
		a.observe(c)
		a.perform(c, a.m.step(time.Now(), m), nil)
	case Probed:
		a.probed(c, m)
	case sayAgain:
		if a.early != nil {
			a.probed(c, *a.early)
		}
	case ProbeFailed:
		a.early = nil
		a.deps.Accord.Silent(a.cfg.ID)
		a.observe(c)
		a.perform(c, a.m.step(time.Now(), m), nil)
	case fleet.Late:
		a.observe(c)
		a.perform(c, a.m.step(time.Now(), m), nil)
	case fleet.Drain, fleet.Undrain:
		a.observe(c)
		a.perform(c, a.m.step(time.Now(), m), nil)
	case fleet.Started:
		a.meter.FirstToken(m.Waited)
		a.perform(c, a.m.step(time.Now(), m), nil)
	case fleet.AttemptFailed:
		a.meter.AttemptFailed(m.Failure.Kind)
		a.perform(c, a.m.step(time.Now(), m), nil)
	case *fleet.Reserve:
		a.perform(c, a.m.step(time.Now(), m), m)
	default:
		a.perform(c, a.m.step(time.Now(), m), nil)
	}
}

func (a *replicaActor) start(c actor.Context) {
	ref := a.deps.Ref
	ref.Attach(c.Self())
	a.meter.State(ref.Snapshot().State.String())
	epoch := ref.Begin() // before the calls are asked: a grant of the epoch before is told from one of this
	awaited := 0
	if epoch > 1 {
		a.meter.Restarted()
		awaited = a.deps.Announce(a.cfg.ID, epoch)
	}
	rng := rand.New(rand.NewPCG(a.deps.Seed, epoch))
	a.m = newMachine(time.Now(), a.cfg, ref.Capabilities, rng, a.deps.Memory.life, awaited, ref.Snapshot())
	names := rand.New(rand.NewPCG(^a.deps.Seed, epoch))
	a.connection = a.spawn(c, "connection", func() actor.Actor {
		return newConnection(a.cfg, ref.Engine, c.Self(), a.deps.Log, names)
	})
	a.feed = a.spawn(c, "feed", func() actor.Actor {
		return newFeed(a.cfg, a.deps, c.Self())
	})
	a.perform(c, a.m.start(time.Now()), nil)
	for _, message := range a.deps.Memory.inherit() {
		a.observe(c)
		a.perform(c, a.m.step(time.Now(), message), nil)
	}
	if a.m.state == fleet.Gone {
		a.deps.Gone() // the instance before may have failed before it said so
	}
}

func (a *replicaActor) spawn(c actor.Context, kind string, producer actor.Producer) *actor.PID {
	props := actor.PropsFromProducer(func() actor.Actor { return supervise.Final(producer(), nil) }, actor.WithReceiverMiddleware(
		supervise.Guard(a.deps.Log, kind, nil), a.deps.Middleware(kind)))
	return c.SpawnPrefix(props, kind)
}

func (a *replicaActor) stop() {
	a.Strategy.Close()
	a.alarm.Stop()
}

// observe tells the machine what the streams have shown, before it judges their silence.
func (a *replicaActor) observe(c actor.Context) {
	beats := a.deps.Ref.Pulse().Take()
	for bucket, n := range beats.Gaps {
		if n > 0 {
			a.meter.TokenGaps(fleet.PaceOf(bucket), n)
		}
	}
	beats.Peers = fleet.Peers(a.deps.Others(), a.deps.Ref)
	a.perform(c, a.m.step(time.Now(), beats), nil)
}

// perform does what a step asked for. request is the Reserve that the step answered, if it was one.
func (a *replicaActor) perform(c actor.Context, effects []effect, request *fleet.Reserve) {
	ref := a.deps.Ref
	for _, e := range effects {
		switch e := e.(type) {
		case grant:
			c.Send(request.From, &fleet.Granted{Ticket: e.ticket, Replica: a.cfg.ID, Snapshot: ref.Snapshot()})
		case refuse:
			c.Send(request.From, &fleet.Refused{Ticket: e.ticket, Replica: a.cfg.ID, Reason: e.reason, Snapshot: ref.Snapshot()})
		case publish:
			a.publish()
			if e.room {
				a.deps.TellRouter(fleet.Room{Replica: a.cfg.ID})
			}
		case hurryProbe:
			c.Send(a.connection, probeNow{})
		case tuneFeed:
			c.Send(a.feed, e.tune)
		case voidIndex:
			c.Send(a.feed, void{})
		case remember:
			a.deps.Memory.order = e.order
		case entered:
			a.meter.State(e.to.String())
			a.deps.Log.Info("replica state", slog.String("replica", string(a.cfg.ID)),
				slog.String("from", e.from.String()), slog.String("to", e.to.String()), slog.String("why", e.why))
			switch e.to { //nolint:exhaustive // the other states concern nobody else
			case fleet.Gone:
				a.deps.Gone()
			case fleet.Down:
				a.deps.Accord.Down(a.cfg.ID)
			}
		case suspected:
			a.meter.Suspected()
		case struck:
			a.meter.Struck(e.kind.String())
		case sendCanary:
			a.meter.Canary()
			c.Send(a.connection, canary(e))
		case cancelCanary:
			c.Send(a.connection, noCanary{})
		case giveUp:
			a.restart(e.why)
		case evict:
			a.deps.Evict(e.Leaving)
		case alarm:
			a.deps.Log.Warn("replica alarm", slog.String("replica", string(a.cfg.ID)), slog.String("what", e.what))
		}
	}
	a.arm(c)
}

// publish lets others know how the replica is now.
func (a *replicaActor) publish() {
	ref := a.deps.Ref
	if a.deps.Memory.life.incarnation != a.m.life.incarnation {
		a.meter.Reborn()
	}
	a.deps.Memory.life = a.m.life
	ref.Publish(a.m.snapshot())
	a.meter.Load(ref.Snapshot().Load)
	a.meter.Counters(a.m.ledger.Counters())
}

// arm keeps the one timer at the time that the machine wants.
func (a *replicaActor) arm(c actor.Context) {
	at, ok := a.m.nextTick()
	self, root := c.Self(), c.ActorSystem().Root
	a.alarm.Set(at, ok, func() { root.Send(self, tick{}) })
}

// failureOf returns an error of a probe as a failure.
func failureOf(err error) *engine.Failure {
	var f *engine.Failure
	if errors.As(err, &f) {
		return f // its words are not to be wrapped in themselves
	}
	return &engine.Failure{Kind: engine.KindOf(err), Message: err.Error(), Err: err}
}
