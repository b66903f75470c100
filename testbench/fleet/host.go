package fleet

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/actors/replica"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/prefix"
)

// host is one replica: its machine, its engine, and the feed between the engine and the index.
type host struct {
	w      *world
	ref    *fleet.Ref
	m      *replica.Machine
	engine *sim.Machine
	cfg    sim.Config
	open   map[string]*attempt // by the engine's name of it
	place  *fleet.Place
	armed  *time.Duration // when its timer rings; nil: it does not
	probes uint64         // tells the probe that is due from those before
	canary *attempt       // the last one; nil: there was none

	figures Figures
}

var _ replica.Shell = (*host)(nil)

// engineStub is what a reference needs of an engine.
type engineStub struct{ engine.Engine }

// Capabilities implements engine.Engine.
func (engineStub) Capabilities() engine.Capabilities {
	return engine.Capabilities{
		Kind: "sim", Sharing: engine.SharingFromDispatch, ConfirmsAbort: true, Logprobs: true, MinTokens: true, LogitBias: true, KVEvents: true,
	}
}

func newHost(w *world, n int) (*host, error) {
	h := &host{w: w, cfg: w.cfg.Engines[n], open: map[string]*attempt{}}
	var err error
	h.engine, err = sim.New(h.cfg, sim.Deps{Source: sim.HashSource{Vocab: vocabulary}})
	if err != nil {
		return nil, err
	}
	id := scoring.ReplicaID(fmt.Sprintf("r%03d", n+1))
	h.ref = fleet.NewRef(id, Model, engineStub{}, nil)
	return h, nil
}

func (h *host) start() {
	cfg := h.w.cfg.Replica
	cfg.ID, cfg.Model, cfg.Process = h.ref.ID, Model, string(h.ref.ID)
	if h.w.cfg.Unqueued {
		cfg.RampSeats = h.cfg.Seats * roomWithoutEnd
	}
	h.m = replica.NewMachine(h.w.time(), cfg, h.ref, replica.NewMemory(), nil, h)
	h.probe(h.probes)
}

// Commands to an engine, which it takes when nothing else of it is being dealt with.
type (
	submit  struct{ event sim.Submit }
	abort   struct{ id string }
	results struct { // of a canary
		number uint64
		err    error
	}
)

// receive implements actor.
func (h *host) receive(message any) {
	switch m := message.(type) {
	case submit:
		h.step(m.event)
		return
	case abort:
		h.step(sim.Abort{ID: m.id})
		return
	case fleet.Learned, fleet.Cached: // the feed's: its events say it all
		return
	case results:
		h.m.CanaryDone(h.w.time(), m.number, m.err, h)
	default:
		h.m.Message(h.w.time(), message, h)
	}
	h.arm()
}

func (h *host) tick() {
	if h.armed == nil || h.w.now() < *h.armed {
		return
	}
	h.armed = nil
	h.m.Tick(h.w.time(), h)
	h.arm()
}

// arm sets a timer unless one rings before it is wanted.
func (h *host) arm() {
	at, ok := h.m.NextTick()
	if !ok {
		return
	}
	when := max(h.w.since(at), h.w.now())
	if h.armed != nil && *h.armed <= when {
		return
	}
	h.armed = &when
	h.w.ring(at, h, nil)
}

// roomWithoutEnd is how many times what an engine has a router without admission takes it to have.
const roomWithoutEnd = 1000

// probe asks the engine how it is, unless another probe was asked for since.
func (h *host) probe(run uint64) {
	if run != h.probes {
		return
	}
	load := h.engine.Status()
	blocks, seats, limit := h.cfg.UsableBlocks(), h.cfg.Seats, h.cfg.SequenceTokens()
	if h.w.cfg.Unqueued {
		blocks, seats = blocks*roomWithoutEnd, seats*roomWithoutEnd
	}
	h.w.post(h, replica.Probed{Began: h.w.time(), Status: engine.Status{
		Model: h.cfg.Model, Incarnation: "1", BlockTokens: &h.cfg.BlockTokens, KVBlocks: &blocks, Seats: &seats, SequenceTokens: &limit,
		Load: engine.Load{RunningSequences: &load.Running, WaitingSequences: &load.Waiting, UsedBlocks: &load.UsedBlocks, Steps: &load.Steps},
	}})
	h.probeIn(h.w.cfg.Replica.ProbeInterval)
}

func (h *host) probeIn(wait time.Duration) {
	h.probes++
	e := h.w.at(h.w.now()+wait, evProbe)
	e.host, e.n = h, h.probes
}

func (h *host) pass(n uint64) { h.step(sim.StepDone{Step: n}) }

// step lets the engine take an event. Nothing of what its effects do comes back to it before this returns.
func (h *host) step(e sim.Event) {
	for _, effect := range h.engine.Step(h.w.now(), e) {
		switch e := effect.(type) {
		case sim.StartStep:
			ev := h.w.at(e.Due, evPass)
			ev.host, ev.n = h, e.Step
			h.figures.Busy += e.Duration
		case sim.Emit:
			a := h.open[e.ID]
			if e.Event.Finish != nil {
				delete(h.open, e.ID)
			}
			a.frame(e.Event)
		case sim.KV:
			h.publish(e.Events)
		case sim.Preempted:
			if c := h.open[e.ID].call; c != nil {
				c.sample().Preemptions++
			}
			h.figures.Preemptions++
		case sim.Rejected:
			h.returned(e.ID, e.Failure)
		case sim.Aborted:
			h.returned(e.ID, context.Canceled)
		case sim.Lost, sim.ResetDone: // nobody kills it or resets its cache
		}
	}
}

func (h *host) returned(id string, err error) {
	a := h.open[id]
	delete(h.open, id)
	a.end(err)
}

// batch is what one pass changed in the cache.
type batch struct{ events []prefix.Event }

func (h *host) publish(events []prefix.Event) {
	e := h.w.at(h.w.now()+h.w.cfg.FeedDelay, evBatch)
	e.host, e.kv = h, &batch{events}
}

// heard brings cache events to the index.
func (h *host) heard(b *batch) { h.place.Index.Apply(h.place.Slot, b.events) }

// Grant implements [replica.Shell].
func (h *host) Grant(t scoring.Ticket) {
	h.w.post(&h.w.front, &fleet.Granted{Ticket: t, Replica: h.ref.ID, Snapshot: h.ref.Snapshot()})
}

// Refuse implements [replica.Shell].
func (h *host) Refuse(t scoring.Ticket, why ledger.Reason) {
	h.figures.Refusals++
	h.w.post(&h.w.front, &fleet.Refused{Ticket: t, Replica: h.ref.ID, Reason: why, Snapshot: h.ref.Snapshot()})
}

// Publish implements [replica.Shell].
func (h *host) Publish(_ *fleet.Snapshot, room bool) {
	if room {
		h.w.post(&h.w.front, fleet.Room{Replica: h.ref.ID})
	}
}

// hurry is the least time between two probes.
const hurry = 50 * time.Millisecond

// HurryProbe implements [replica.Shell].
func (h *host) HurryProbe() { h.probeIn(hurry) }

// TuneFeed implements [replica.Shell]: the feed begins with an empty cache.
func (h *host) TuneFeed(blockTokens, _ scoring.Tokens, incarnation uint64) {
	ix := h.w.indexes.Join(blockTokens)
	h.place = &fleet.Place{
		Index: ix, BlockTokens: blockTokens, Incarnation: incarnation,
		Slot: ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: scoring.Blocks(h.cfg.UsableBlocks())}),
	}
	h.ref.SetPlace(h.place)
	h.place.Index.Apply(h.place.Slot, nil)
	h.w.post(h, replica.FeedReady{Incarnation: incarnation})
}

// VoidIndex implements [replica.Shell].
func (h *host) VoidIndex() {
	if h.place != nil {
		h.place.Index.Void(h.place.Slot)
	}
}

// Entered implements [replica.Shell].
func (h *host) Entered(_, to fleet.State, _ string) {
	if to == fleet.Down {
		h.figures.Downs++
	}
}

// Alarm implements [replica.Shell].
func (h *host) Alarm(string) {}

// SendCanary implements [replica.Shell].
func (h *host) SendCanary(number uint64, _ string) {
	h.figures.Canaries++
	id := "canary-" + strconv.FormatUint(number, 10)
	h.canary = &attempt{id: number, name: id, host: h}
	h.open[id] = h.canary
	h.w.post(h, submit{sim.Submit{ID: id, PromptTokens: []uint32{h.w.cfg.Replica.CanaryToken}, MaxTokens: 1, Salt: id, IgnoreEOS: true}})
}

// CancelCanary implements [replica.Shell].
func (h *host) CancelCanary() {
	if h.canary != nil && h.open[h.canary.name] == h.canary {
		h.w.post(h, abort{h.canary.name})
	}
}

// Evict implements [replica.Shell].
func (h *host) Evict(leaving fleet.Leaving) {
	others := slices.ContainsFunc(h.w.front.fleet, func(r *fleet.Ref) bool {
		s := r.Snapshot()
		return r != h.ref && s.State.Routable() && !s.Suspect
	})
	if !others {
		return
	}
	for _, c := range h.w.live {
		h.w.post(c, stream.Leave{Ref: h.ref, Leaving: leaving})
	}
}

// Others implements [replica.Shell].
func (h *host) Others() []*fleet.Ref { return h.w.front.fleet }
