package actors

import (
	"errors"
	"hash/fnv"
	"log/slog"
	"strconv"

	"github.com/asynkron/protoactor-go/actor"

	"plimsoll/actors/fault"
	"plimsoll/actors/replica"
	"plimsoll/actors/router"
	"plimsoll/actors/stream"
	"plimsoll/actors/supervise"
	"plimsoll/scoring"
	"plimsoll/tokenizer"
	"plimsoll/tokenizer/chat"
	"plimsoll/tokenizer/hf"
)

// nodeName is the root actor's. Its children get a new name at each spawn, and others learn their PIDs only then: the library
// lets messages reach an actor of a known name before its mailbox is ready.
const nodeName = "node"

// node supervises routers and replicas. What it spawned is known from the fleets: after a panic it spawns all anew, and
// they find their way back as after panics of their own.
type node struct {
	*supervise.Strategy

	s       *System
	indexes map[*model]*replica.Indexes
	spawned map[string]leaving    // replicas' actors, by PID
	pids    map[string]*actor.PID // of replicas' actors, by member.actor
}

// leaving is what is to be done when a replica's actor has stopped for good.
type leaving struct {
	model  *model
	member member
}

type (
	// spawnReplica: a replica was added. From the system.
	spawnReplica struct {
		model  *model
		member member
	}
	// ranksFound: a replica's server turned out to have several data-parallel ranks. From its actor.
	ranksFound struct {
		model  *model
		member member
		ranks  []int
	}
	// replicaGone: a replica is drained. From its actor.
	replicaGone struct {
		model  *model
		member member
	}
)

func newNode(s *System) *node {
	return &node{
		Strategy: supervise.NewStrategy(s.cfg.Supervise, s.deps.Seed+1, s.failed), s: s,
		indexes: map[*model]*replica.Indexes{}, spawned: map[string]leaving{}, pids: map[string]*actor.PID{},
	}
}

// Receive implements actor.Actor.
func (n *node) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		n.spawn(c)
	case *actor.Restarting, *actor.Stopping:
		n.Strategy.Close()
	case spawnReplica:
		n.replica(c, m.model, m.member)
	case ranksFound:
		n.s.grow(m)
	case replicaGone:
		n.s.forget(m.model, m.member)
		if pid := n.pids[m.member.actor]; pid != nil {
			c.Stop(pid)
		}
	case *actor.Terminated:
		n.terminated(m.Who)
	}
}

func (n *node) spawn(c actor.Context) {
	s := n.s
	for i, m := range s.models {
		n.indexes[m] = replica.NewIndexes(m.Router.Model)
		// Replicas first: a router that finds live calls reserves at once, and a message to an actor that is not there is lost.
		for _, member := range m.fleet.members() {
			n.replica(c, m, member)
		}
		m.router.Store(c.SpawnPrefix(router.Props(m.Router, router.Deps{
			Refs: m.fleet.refs, Encode: m.encode, Gate: s.gate, Workers: s.cfg.TokenizeMax, Log: s.deps.Log,
			Meter: m.meters.router, Tokenizer: m.meters.tokenizer, Failed: s.failed,
			Restarted: func(name string) { s.live.TellModel(name, stream.RouterRestarted{}) },
			NewTicket: s.newTicket, Stats: &m.stats, Instances: &m.routers, Middleware: s.deps.Middleware,
			Supervise: s.cfg.Supervise, Seed: s.deps.Seed, Watch: m.watch,
		}), "router-"+strconv.Itoa(i)))
	}
	s.upOnce.Do(func() { close(s.up) })
}

// replica spawns a replica's actor, unless it runs already: one that was added while the node restarted is in its fleet
// and comes by message too.
func (n *node) replica(c actor.Context, m *model, r member) {
	s := n.s
	if n.pids[r.actor] != nil {
		return
	}
	node, root := c.Self(), c.ActorSystem().Root
	pid := c.SpawnPrefix(replica.Props(r.parts.Config, replica.Deps{
		Ref: r.ref, Memory: r.memory, Indexes: n.indexes[m], Log: s.deps.Log, Meter: r.meter, Failed: s.failed,
		TellRouter: func(message any) { s.tellRouter(m, message) },
		Announce: func(_ scoring.ReplicaID, epoch uint64) int {
			return s.live.Tell(stream.ReplicaRestarted{Ref: r.ref, Epoch: epoch})
		},
		Evict: func(incarnation uint64, hung bool, why string) {
			if m.fleet.other(r.ref, serves) {
				s.live.TellModel(m.Router.Model, stream.Leave{Ref: r.ref, Incarnation: incarnation, Hung: hung, Why: why})
			}
		},
		Alone: func() bool { return !m.fleet.other(r.ref, serves) },
		Successor: func() bool {
			return !m.fleet.other(r.ref, serves) && m.fleet.other(r.ref, rises)
		},
		Accord:     m.accord,
		Ranks:      func(ranks []int) { root.Send(node, ranksFound{m, r, ranks}) },
		Gone:       func() { root.Send(node, replicaGone{m, r}) },
		Middleware: s.deps.Middleware, Supervise: s.cfg.Supervise, Seed: s.deps.Seed + hash(r.actor),
	}), r.actor)
	n.pids[r.actor] = pid
	n.spawned[pid.GetId()] = leaving{m, r}
	r.ref.Attach(pid)
}

// hash spreads the seeds of replicas, so that they do not retry in step.
func hash(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return h.Sum64()
}

// terminated closes the engine of a replica that is gone, beside the actor: an engine that is a process of ours takes its
// time to end. At the node's own end the system closes all engines.
func (n *node) terminated(who *actor.PID) {
	l, ok := n.spawned[who.GetId()]
	if !ok {
		return
	}
	delete(n.spawned, who.GetId())
	delete(n.pids, l.member.actor)
	if now, ok := l.model.fleet.find(l.member.ref.ID); ok && now.ref == l.member.ref {
		return // it was stopped with the node, not for good
	}
	id := slog.String("replica", string(l.member.ref.ID))
	n.s.engines.Go(func() {
		if err := l.member.parts.Engine.Close(); err != nil {
			n.s.deps.Log.Warn("an engine did not close", id, slog.Any("error", err))
		}
		n.s.deps.Log.Info("replica removed", id)
	})
}

func (s *System) newTicket() scoring.Ticket {
	return scoring.Ticket{Boot: s.deps.Boot, Number: s.tickets.Add(1)}
}

// encode turns an input into prompts. Workers call it.
func (m *model) encode(in stream.Input) ([]stream.Prompt, error) {
	if in.Chat != nil {
		return m.encodeChat(in)
	}
	if in.Texts == nil {
		return idsOf(in.Tokens), nil
	}
	prompts := make([]stream.Prompt, len(in.Texts))
	for i, text := range in.Texts {
		ids, err := m.Tokenizer.Encode(text, in.AddSpecial)
		if err != nil {
			return nil, inputFault(err, "prompt")
		}
		prompts[i] = stream.Prompt{Text: text, IDs: ids}
	}
	return prompts, nil
}

func idsOf(tokens [][]uint32) []stream.Prompt {
	prompts := make([]stream.Prompt, len(tokens))
	for i, ids := range tokens {
		prompts[i].IDs = ids
	}
	return prompts
}

// inputFault says what a client did wrong with its prompt; everything else is a fault of ours. param is what it sent.
func inputFault(err error, param string) *fault.Fault {
	var inChat *chat.BadInput
	var inText *hf.BadInput
	switch {
	case errors.As(err, &inChat):
		return &fault.Fault{Kind: fault.BadInput, Param: inChat.Param, Message: inChat.Message, Err: err}
	case errors.As(err, &inText):
		return &fault.Fault{Kind: fault.BadInput, Param: param, Message: inText.Message, Err: err}
	case errors.Is(err, tokenizer.ErrNoTemplate):
		return &fault.Fault{Kind: fault.BadInput, Param: param, Message: err.Error(), Err: err}
	}
	return fault.Of(err)
}
