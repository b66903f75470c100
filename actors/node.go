package actors

import (
	"errors"
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

// nodeName is the root actor's; its children are found by name below it, also after a restart.
const nodeName = "node"

// node supervises routers and replicas. It has no state: after a panic it spawns them anew, and they find their way back
// as after panics of their own.
type node struct {
	*supervise.Strategy

	s *System
}

func newNode(s *System) *node {
	return &node{Strategy: supervise.NewStrategy(s.cfg.Supervise, s.deps.Seed+1, s.failed), s: s}
}

// Receive implements actor.Actor.
func (n *node) Receive(c actor.Context) {
	switch c.Message().(type) {
	case *actor.Started:
		n.spawn(c)
	case *actor.Restarting, *actor.Stopping:
		n.Strategy.Close()
	}
}

func (n *node) spawn(c actor.Context) {
	s := n.s
	number := 0
	for i, m := range s.models {
		// Replicas first: a router that finds live calls reserves at once, and a message to an actor that is not there is lost.
		number = n.replicas(c, m, number)
		n.named(c, routerName(i), router.Props(m.Router, router.Deps{
			Refs: m.refs, Encode: m.encode, Gate: s.gate, Workers: s.cfg.TokenizeMax, Log: s.deps.Log,
			Meter: m.meters.router, Tokenizer: m.meters.tokenizer, Failed: s.failed,
			Restarted: func(name string) { s.live.TellModel(name, stream.RouterRestarted{}) },
			NewTicket: s.newTicket, Stats: &m.stats, Middleware: s.deps.Middleware,
			Supervise: s.cfg.Supervise, Seed: s.deps.Seed,
		}))
	}
}

// replicas spawns a model's replicas and returns how many were spawned so far.
func (n *node) replicas(c actor.Context, m *model, number int) int {
	s := n.s
	indexes := replica.NewIndexes(m.Router.Model)
	for _, parts := range m.Replicas {
		number++
		ref := m.ref(parts.Config.ID)
		n.named(c, "replica-"+strconv.Itoa(number), replica.Props(parts.Config, replica.Deps{
			Ref: ref, Indexes: indexes, Log: s.deps.Log, Meter: s.deps.Meter, Failed: s.failed, Router: m.router,
			Announce: func(_ scoring.ReplicaID, epoch uint64) int {
				return s.live.Tell(stream.ReplicaRestarted{Ref: ref, Epoch: epoch})
			},
			Middleware: s.deps.Middleware, Supervise: s.cfg.Supervise, Seed: s.deps.Seed + uint64(number), //nolint:gosec // it counts replicas
		}))
	}
	return number
}

// named spawns a child under a fixed name.
func (n *node) named(c actor.Context, name string, props *actor.Props) {
	if _, err := c.SpawnNamed(props, name); err != nil {
		n.s.deps.Log.Error("an actor did not start", slog.String("actor", name), slog.Any("error", err))
	}
}

func (s *System) newTicket() scoring.Ticket {
	return scoring.Ticket{Boot: s.deps.Boot, Number: s.tickets.Add(1)}
}

func (m *model) ref(id scoring.ReplicaID) *replica.Ref {
	for _, r := range m.refs {
		if r.ID == id {
			return r
		}
	}
	return nil // Validate has seen to it that every ID is there once
}

// encode turns an input into prompts. Workers call it.
func (m *model) encode(in stream.Input) ([]stream.Prompt, error) {
	if in.Chat != nil {
		text, ids, err := m.Tokenizer.Chat(*in.Chat)
		if err != nil {
			return nil, inputFault(err, "messages")
		}
		return []stream.Prompt{{Text: text, IDs: ids}}, nil
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
