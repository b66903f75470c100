package replica

import (
	"fmt"
	"math/rand/v2"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// Shell does what a replica's machine asks for, in the order in which it is called. Publish is called with a snapshot
// that others may read from then on.
type Shell interface {
	Grant(ticket scoring.Ticket)
	Refuse(ticket scoring.Ticket, reason ledger.Reason)
	// Publish says that the reference shows a new snapshot; room: that there may be more room than before.
	Publish(snapshot *fleet.Snapshot, room bool)
	// HurryProbe asks to probe the engine at once.
	HurryProbe()
	// TuneFeed says at what index block size and capacity the feed works from now on, for which life.
	TuneFeed(blockTokens, capacity scoring.Tokens, incarnation uint64)
	// VoidIndex says that what the feed knows counts no more.
	VoidIndex()
	Entered(from, to fleet.State, why string)
	Alarm(what string)
	// SendCanary asks the engine, by its name of the model, for one token of a prompt of its own salt; its end comes back by
	// CanaryDone. CancelCanary gives it up: its end comes back all the same.
	SendCanary(number uint64, model string)
	CancelCanary()
	// Evict sends the Leave of package stream to every call, if another replica serves.
	Evict(leaving fleet.Leaving)
	// Others are the replicas of the model; this one may be among them.
	Others() []*fleet.Ref
}

// Machine is a replica's decisions without the actor around them, for who brings a clock, a mail and an engine of its
// own: the simulator. It is pure but for what it publishes on its reference, and for the pulse that it reads there: whoever
// reads an engine's stream notes each token by [fleet.Ref.Beat], else the replica counts as hung.
type Machine struct {
	m      *machine
	ref    *fleet.Ref
	memory *Memory
}

// NewMachine begins an epoch of a replica as its actor does: announced tells each live call of the epoch and returns how
// many answer.
func NewMachine(now time.Time, cfg Config, ref *fleet.Ref, memory *Memory, announced func(epoch uint64) int, to Shell) *Machine {
	epoch := ref.Begin()
	awaited := 0
	if epoch > 1 {
		awaited = announced(epoch)
	} else {
		ref.Pulse().Start(now)
		ref.Figures().Start(now)
	}
	rng := rand.New(rand.NewPCG(epoch, 3))
	d := &Machine{m: newMachine(now, cfg, ref.Capabilities, rng, memory.life, awaited, ref.Snapshot()), ref: ref, memory: memory}
	d.perform(to, d.m.start(now))
	for _, message := range memory.inherit() {
		d.observe(now, to)
		d.perform(to, d.m.step(now, message))
	}
	return d
}

// Message takes a message to the replica's actor.
func (d *Machine) Message(now time.Time, message any, to Shell) {
	switch message.(type) {
	case Probed, ProbeFailed, fleet.Late, fleet.Drain, fleet.Undrain:
		d.observe(now, to)
	}
	d.perform(to, d.m.step(now, message))
}

// CanaryDone takes the end of a canary; err is nil if a token came.
func (d *Machine) CanaryDone(now time.Time, number uint64, err error, to Shell) {
	d.perform(to, d.m.step(now, canaryDone{number, err}))
}

// NextTick is when the machine wants Tick, if at all.
func (d *Machine) NextTick() (time.Time, bool) { return d.m.nextTick() }

// Tick says that the time has come which NextTick named, or a later one.
func (d *Machine) Tick(now time.Time, to Shell) {
	d.observe(now, to)
	d.perform(to, d.m.step(now, tick{}))
}

// observe tells the machine what the streams have shown, before it judges their silence.
func (d *Machine) observe(now time.Time, to Shell) {
	beats := d.ref.Pulse().Take()
	beats.Peers = fleet.Peers(to.Others(), d.ref)
	d.perform(to, d.m.step(now, beats))
}

// Fail says that the actor has failed at a message: nothing is granted before the next epoch has recovered.
func (d *Machine) Fail(message any) { d.memory.fail(d.ref, message) }

// Empty says whether no ticket is booked: the set of tickets, the references to shared blocks and the prefill queue are
// empty, and no sum is left over.
func (d *Machine) Empty() bool { return d.m.ledger.Empty() }

// State is where the ledger has a ticket.
func (d *Machine) State(t scoring.Ticket) ledger.State { return d.m.ledger.State(t) }

func (d *Machine) perform(to Shell, effects []effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case grant:
			to.Grant(e.ticket)
		case refuse:
			to.Refuse(e.ticket, e.reason)
		case publish:
			d.memory.life = d.m.life
			d.ref.Publish(d.m.snapshot())
			to.Publish(d.ref.Snapshot(), e.room)
		case hurryProbe:
			to.HurryProbe()
		case tuneFeed:
			to.TuneFeed(e.blockTokens, e.capacity, e.incarnation)
		case voidIndex:
			to.VoidIndex()
		case remember:
			d.memory.order = e.order
		case entered:
			to.Entered(e.from, e.to, e.why)
		case alarm:
			to.Alarm(e.what)
		case sendCanary:
			to.SendCanary(e.number, e.model)
		case cancelCanary:
			to.CancelCanary()
		case giveUp: // no process here is ours
		case suspected, struck: // nobody counts them here
		case evict:
			to.Evict(e.Leaving)
		default:
			panic(fmt.Sprintf("replica: no shell does %T", e))
		}
	}
}
