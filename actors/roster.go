package actors

import (
	"strconv"
	"sync/atomic"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/meter"
	"plimsoll/actors/replica"
	"plimsoll/scoring"
)

// member is a replica at run time: its handle, and what its actor is spawned from.
type member struct {
	model  *model
	ref    *fleet.Ref
	memory *replica.Memory
	parts  Replica
	actor  string // its actor's name below node; never used again
	meter  *meter.Registered
	ranks  *ranks
}

// roll is who is in the fleets. The node's actor owns it, and it outlives that actor's instances.
type roll struct {
	membership *fleet.Membership
	members    map[*fleet.Ref]*member // until their engines are closed
	ever       int                    // members that ever were
}

// join gives a replica a handle, an actor's name and its metrics, and takes it into its model's fleet.
func (s *System) join(m *model, parts Replica, to fleet.Shell) *fault.Fault {
	if f := s.roll.membership.Check(m.Router.Model, parts.Config.ID); f != nil {
		return f
	}
	m.accord.Join(parts.Config.ID)
	s.roll.ever++
	ref := fleet.NewRef(parts.Config.ID, m.Router.Model, parts.Engine, s.actors.Root)
	ref.Process, ref.Identity = parts.Config.Process, parts.Config.Identity
	s.roll.members[ref] = &member{
		model: m, ref: ref, memory: replica.NewMemory(),
		parts: parts, actor: "replica-" + strconv.Itoa(s.roll.ever),
		meter: s.deps.Meter.Register(string(parts.Config.ID), m.Router.Model),
		ranks: &ranks{known: map[int]bool{}},
	}
	return s.roll.membership.Add(ref, to)
}

// Messages to the node's actor. Each is carried out or answered with an error; none is lost with an instance that fails.
type (
	// addReplica: a replica joins a model's fleet.
	addReplica struct {
		*order

		model *model
		parts Replica
	}
	// orderReplica: an operator wants a Drain or an Undrain.
	orderReplica struct {
		*order

		id   scoring.ReplicaID
		what any
	}
	// ranksFound: a replica's server turned out to have several data-parallel ranks. From its actor.
	ranksFound struct {
		ref   *fleet.Ref
		ranks []int
	}
	// replicaGone: a replica is drained. From its actor.
	replicaGone struct{ ref *fleet.Ref }
)

// order is the part of an order that its sender waits for. One side settles it: the node, which begins to carry it out, or a
// sender who has waited too long.
type order struct {
	settled atomic.Bool
	done    chan *fault.Fault // of capacity 1
}

func newOrder() *order { return &order{done: make(chan *fault.Fault, 1)} }

// begin says whether the order is to be carried out: it is its sender's no more.
func (o *order) begin() bool { return o.settled.CompareAndSwap(false, true) }

// answer ends an order. A second answer is dropped.
func (o *order) answer(f *fault.Fault) {
	select {
	case o.done <- f:
	default:
	}
}

// orderWait bounds how long the node's actor may take to take an order. It is there again a moment after it has failed.
const orderWait = 10 * time.Second

// ordered gives the node an order and waits for its answer.
func (s *System) ordered(o *order, message any) error {
	s.actors.Root.Send(s.node, message)
	late := time.NewTimer(orderWait)
	defer late.Stop()
	var f *fault.Fault
	select {
	case f = <-o.done:
	case <-late.C:
		if o.begin() {
			return fault.New(fault.Internal, "this node did not take the order in time; nothing has changed: try again")
		}
		f = <-o.done
	case <-s.over:
		if o.begin() {
			return shuttingDown()
		}
		f = <-o.done
	}
	if f != nil {
		return f
	}
	return nil
}

func shuttingDown() *fault.Fault { return fault.New(fault.ShuttingDown, "this node is shutting down") }

// Add takes a replica into a running model's fleet. Its engine need not be up yet; the system closes it at the end, unless
// Add fails. The error is a [*fault.Fault]. The node's own actors must not wait for it.
func (s *System) Add(modelName string, parts Replica) error {
	m := s.model(modelName)
	if m == nil {
		return fault.New(fault.ModelNotFound, "the model %q does not exist", modelName)
	}
	if err := parts.Config.Validate(); err != nil {
		return &fault.Fault{Kind: fault.BadInput, Message: err.Error(), Err: err}
	}
	o := newOrder()
	return s.ordered(o, addReplica{o, m, parts})
}

// Remove drains a replica and then forgets it: it gets nothing new, what still runs after Config.DrainWait is moved to other
// replicas, and it is gone when its last request has ended. It returns when the order is taken; the error is a [*fault.Fault].
func (s *System) Remove(id scoring.ReplicaID) error {
	leave := time.Now().Add(s.cfg.DrainWait)
	return s.order(id, fleet.Drain{Leave: &leave})
}

// DrainReplica empties a replica and keeps it, until UndrainReplica or Remove: it gets nothing new, and what still runs after wait is moved
// to other replicas. It returns when the order is taken; the error is a [*fault.Fault].
func (s *System) DrainReplica(id scoring.ReplicaID, wait time.Duration) error {
	leave := time.Now().Add(wait)
	return s.order(id, fleet.Drain{Leave: &leave, Keep: true})
}

// UndrainReplica takes a DrainReplica back. The error is a [*fault.Fault].
func (s *System) UndrainReplica(id scoring.ReplicaID) error { return s.order(id, fleet.Undrain{}) }

// order has the node tell a replica's actor what an operator wants.
func (s *System) order(id scoring.ReplicaID, what any) error {
	o := newOrder()
	return s.ordered(o, orderReplica{o, id, what})
}
