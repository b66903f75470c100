package actors

import (
	"hash/fnv"
	"log/slog"
	"strconv"

	"github.com/asynkron/protoactor-go/actor"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/replica"
	"plimsoll/actors/router"
	"plimsoll/actors/stream"
	"plimsoll/actors/supervise"
	"plimsoll/scoring"
)

// nodeName is the root actor's. Its children get a new name at each spawn, and others learn their PIDs only then: the library
// lets messages reach an actor of a known name before its mailbox is ready.
const nodeName = "node"

// node supervises routers and replicas, and owns the roll. What it spawned is known from there: after a panic it spawns all
// anew, and they find their way back as after panics of their own.
type node struct {
	*supervise.Strategy

	s       *System
	indexes map[*model]*replica.Indexes
	spawned map[string]*fleet.Ref     // replicas by their actors' PIDs
	pids    map[*fleet.Ref]*actor.PID // and the reverse
}

func newNode(s *System) *node {
	return &node{
		Strategy: supervise.NewStrategy(s.cfg.Supervise, s.deps.Seed+1, s.failed), s: s,
		indexes: map[*model]*replica.Indexes{}, spawned: map[string]*fleet.Ref{}, pids: map[*fleet.Ref]*actor.PID{},
	}
}

// orderLost answers an order that the node's actor has failed at. What it had noted of it the next instance carries out.
func orderLost(message, value any) {
	switch m := message.(type) {
	case addReplica:
		m.answer(internal(value))
	case orderReplica:
		m.answer(internal(value))
	}
}

func internal(value any) *fault.Fault {
	return &fault.Fault{Kind: fault.Internal, Message: "internal error", Err: &supervise.PanicError{Value: value}}
}

// Receive implements actor.Actor.
func (n *node) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		n.start(c)
	case *actor.Restarting, *actor.Stopping:
		n.Strategy.Close()
	case addReplica:
		if m.begin() {
			m.answer(n.add(c, m.model, m.parts))
		}
	case orderReplica:
		if m.begin() {
			m.answer(n.s.roll.membership.Order(m.id, m.what, nodeShell{n, c}))
		}
	case ranksFound:
		n.grow(c, m)
	case replicaGone:
		n.s.roll.membership.Gone(m.ref, nodeShell{n, c})
	case *actor.Terminated:
		if ref := n.spawned[m.Who.GetId()]; ref != nil {
			delete(n.spawned, m.Who.GetId())
			delete(n.pids, ref)
			n.s.roll.membership.Ended(ref, nodeShell{n, c})
		}
	}
}

// add takes a replica in, unless the system is being closed: whose engines are closed at the end is settled then.
func (n *node) add(c actor.Context, m *model, parts Replica) *fault.Fault {
	n.s.changes.Lock()
	defer n.s.changes.Unlock()
	if n.s.closing.Load() {
		return shuttingDown()
	}
	return n.s.join(m, parts, nodeShell{n, c})
}

func (n *node) start(c actor.Context) {
	s := n.s
	for _, m := range s.models {
		n.indexes[m] = replica.NewIndexes(m.Router.Model)
	}
	// Replicas first: a router that finds live calls reserves at once, and a message to an actor that is not there is lost.
	s.roll.membership.Begin(nodeShell{n, c})
	for i, m := range s.models {
		s.spawnTokenizer(c, i, m)
		c.SpawnPrefix(router.Props(m.Router, router.Deps{
			Refs: m.fleet.Refs, Log: s.deps.Log, Meter: m.meters.router,
			Attach:    func(pid *actor.PID) { m.router.Store(pid) },
			Restarted: func(name string) { s.live.TellModel(name, stream.RouterRestarted{}) },
			NewTicket: s.newTicket, Stats: &m.stats, Instances: &m.routers, Middleware: s.deps.Middleware,
			Seed: s.deps.Seed, Watch: m.watch,
		}), "router-"+strconv.Itoa(i))
	}
	s.upOnce.Do(func() { close(s.up) })
}

// nodeShell does what the membership decides, for the node's actor.
type nodeShell struct {
	n *node
	c actor.Context
}

var _ fleet.Shell = nodeShell{}

// Spawn implements [fleet.Shell].
func (h nodeShell) Spawn(ref *fleet.Ref) {
	s, r := h.n.s, h.n.s.roll.members[ref]
	m := r.model
	node, root := h.c.Self(), h.c.ActorSystem().Root
	pid := h.c.SpawnPrefix(replica.Props(r.parts.Config, replica.Deps{
		Ref: ref, Memory: r.memory, Indexes: h.n.indexes[m], Log: s.deps.Log, Meter: r.meter, Failed: s.failed,
		TellRouter: func(message any) { s.tellRouter(m, message) },
		Announce: func(_ scoring.ReplicaID, epoch uint64) int {
			return s.live.Tell(stream.ReplicaRestarted{Ref: ref, Epoch: epoch})
		},
		Evict: func(leaving fleet.Leaving) {
			if fleet.OtherServes(m.fleet.Refs(), ref) {
				s.live.TellModel(m.Router.Model, stream.Leave{Ref: ref, Leaving: leaving})
			}
		},
		Others:     m.fleet.Refs,
		Accord:     m.accord,
		Settled:    func(spoken *fleet.Spoken) { s.settled(m, spoken) },
		Ranks:      func(ranks []int) { root.Send(node, ranksFound{ref, ranks}) },
		Gone:       func() { root.Send(node, replicaGone{ref}) },
		Middleware: s.deps.Middleware, Supervise: s.cfg.Supervise, Seed: s.deps.Seed + hash(r.actor),
	}), r.actor)
	h.n.pids[ref] = pid
	h.n.spawned[pid.GetId()] = ref
	ref.Attach(pid)
}

// Tell implements [fleet.Shell].
func (nodeShell) Tell(ref *fleet.Ref, order any) { ref.Tell(order) }

// Forget implements [fleet.Shell].
func (h nodeShell) Forget(ref *fleet.Ref) {
	r := h.n.s.roll.members[ref]
	r.model.accord.Leave(ref.ID)
	r.meter.Close()
}

// Stop implements [fleet.Shell].
func (h nodeShell) Stop(ref *fleet.Ref) {
	if pid := h.n.pids[ref]; pid != nil {
		h.c.Stop(pid)
	}
}

// Close implements [fleet.Shell]. It is done beside the actor: an engine that is a process of ours takes its time to end. At
// the node's own end the system closes all engines.
func (h nodeShell) Close(ref *fleet.Ref) {
	s, r := h.n.s, h.n.s.roll.members[ref]
	delete(s.roll.members, ref)
	id := slog.String("replica", string(ref.ID))
	s.engines.Go(func() {
		if err := r.parts.Engine.Close(); err != nil {
			s.deps.Log.Warn("an engine did not close", id, slog.Any("error", err))
		}
		s.deps.Log.Info("replica removed", id)
	})
}

// hash spreads the seeds of replicas, so that they do not retry in step.
func hash(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return h.Sum64()
}

func (s *System) newTicket() scoring.Ticket {
	return scoring.Ticket{Boot: s.deps.Boot, Number: s.tickets.Add(1)}
}
