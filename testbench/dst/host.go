package dst

import (
	"strconv"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/actors/replica"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// host is one replica: its actor with connection and feed, its engine's process, and the checkers' books of it.
type host struct {
	w      *world
	n      int
	id     scoring.ReplicaID
	ref    *fleet.Ref
	memory *replica.Memory // of the instances of its actor
	cfg    replica.Config
	m      *replica.Machine
	box    mailbox
	p      *process
	feed   feed

	connection connection
	books      books

	canary  *attempt      // the last one
	ejected time.Duration // until when the router leaves it alone because it has become slow

	request    *fleet.Reserve // being answered
	panics     bool           // at its next message
	armed      time.Duration  // when its timer rings; none: it does not
	epoch      uint64         // counts timers and probes of instances apart
	gone       bool
	ordered    any           // what an operator has wanted last, as the node has taken it; nil: nothing
	wanted     *fleet.Drain  // the last one that its actor was given, if it was not taken back
	orderedAt  time.Duration // or when something last kept it from being carried out
	drained    bool          // an order to drain and to leave is on its way, or was heard
	distrusted bool          // has refused us at some time
	readyAt    time.Duration // since when it is ready without a break; none: it is not
	troubled   time.Duration // when it was last in trouble that it may show
	served     int           // first tokens since the heal
	refusals   []refusedCall // in a row
}

const none = time.Duration(-1)

// engineStub is what a reference needs of an engine.
type engineStub struct {
	engine.Engine

	caps engine.Capabilities
}

// Capabilities implements engine.Engine.
func (e engineStub) Capabilities() engine.Capabilities { return e.caps }

func (w *world) newHost() *host {
	w.hostsMade++
	h := &host{w: w, n: w.hostsMade, id: scoring.ReplicaID([]byte{'r', byte('0' + w.hostsMade/10), byte('0' + w.hostsMade%10)}), armed: none, readyAt: none}
	h.cfg = replica.DefaultConfig(h.id, modelName)
	if w.chance(0.5) {
		h.cfg.RampSeats = 2
	}
	if w.chance(0.3) {
		h.cfg.FeedSilence = w.between(500*time.Millisecond, 3*time.Second)
	}
	caps := w.capabilities()
	if caps.Chat = w.drawRenders(h.n); !caps.Chat && w.drawLossy(h.n, caps.Kind) {
		caps.LostMost = lostMost
	}
	h.ref = fleet.NewRef(h.id, modelName, engineStub{caps: caps}, nil)
	w.settleIn(h)
	h.memory = replica.NewMemory()
	h.box = mailbox{w: w, owner: h, id: w.newBox(), closed: true} // until it is spawned
	h.cfg.FirstTokenTimeout = w.plan.stream.FirstTokenTimeout
	h.p = newProcess(w, h, w.engineConfig(), w.drawPublisher())
	h.p.walk(w.plan.sluggish.gait())
	h.feed = newFeed(w, h)
	h.connection.host = h
	h.books.init(h)
	return h
}

// start begins an instance of the actor.
func (h *host) start() {
	w := h.w
	h.epoch++
	h.panics = false
	h.books.restart()
	h.m = nil
	h.feed.start()
	h.m = replica.NewMachine(w.time(), h.cfg, h.ref, h.memory, func(epoch uint64) int {
		n := w.tellAll(&h.box, stream.ReplicaRestarted{Ref: h.ref, Epoch: epoch})
		h.books.awaits(n)
		return n
	}, h.shell())
	h.books.opened()
	h.connection.start()
	h.arm()
	h.box.resume()
}

func (h *host) shell() replica.Shell {
	if plant := h.w.cfg.Plant; plant != nil && plant.replica != nil {
		return plant.replica(h)
	}
	return h
}

// receive implements recipient.
func (h *host) receive(message any) {
	h.evidence(message)
	if h.panics {
		h.panic(message)
		return
	}
	switch message.(type) {
	case fleet.Learned, fleet.Cached:
		h.feed.box.post(&h.box, message)
		return
	}
	h.step(message)
}

func (h *host) step(message any) {
	w := h.w
	h.books.before(message)
	if plant := w.cfg.Plant; plant != nil && plant.toReplica != nil {
		message = plant.toReplica(h, message)
	}
	h.request, _ = message.(*fleet.Reserve)
	h.wants(message)
	switch m := message.(type) {
	case nil:
	case fleet.Drain:
		h.drained = h.drained || !m.Keep
		h.m.Message(w.time(), m, h.shell())
		h.putsOff()
	case canaryDone:
		h.m.CanaryDone(w.time(), m.number, m.err, h.shell())
	default:
		h.m.Message(w.time(), message, h.shell())
	}
	h.books.after()
	h.arm()
}

func (h *host) tick() {
	h.books.before(nil)
	h.m.Tick(h.w.time(), h.shell())
	h.books.after()
	h.arm()
}

// arm keeps one timer, which is left to ring early.
func (h *host) arm() {
	at, ok := h.m.NextTick()
	if !ok {
		return
	}
	when := h.w.since(at)
	if h.armed != none && h.armed <= when {
		return
	}
	h.armed = max(when, h.w.now)
	e := h.w.at(when, evTick)
	e.host, e.n = h, h.epoch
}

// panic is the actor's failure at a message, which is lost.
func (h *host) panic(message any) {
	w := h.w
	w.note(noteFailed, h.n, 0, 0)
	h.panics = false
	h.m.Fail(message)
	h.books.blind(message)
	switch m := message.(type) {
	case *fleet.Reserve:
		r := m
		w.router.box.post(&h.box, &fleet.Refused{Ticket: r.Claim.Ticket, Replica: h.id, Reason: ledger.Closed, Snapshot: h.ref.Snapshot()})
	case fleet.Drain:
		h.drained = h.drained || !m.Keep // the next instance takes it
		h.wants(m)
	case fleet.Undrain:
		h.wants(m)
	}
	h.box.suspend()
	h.armed = none
	h.epoch++
	h.connection.stop()
	h.CancelCanary()
	h.feed.stop()
	w.in(w.between(time.Millisecond, 300*time.Millisecond), evRevive).host = h
}

// The effects of the replica's machine.

// Grant implements replica.Shell.
func (h *host) Grant(t scoring.Ticket) {
	h.w.note(noteGrant, h.n, t.Number, 0)
	h.books.granted(t)
	h.w.router.box.post(&h.box, &fleet.Granted{Ticket: t, Replica: h.id, Snapshot: h.ref.Snapshot()})
}

// Refuse implements replica.Shell.
func (h *host) Refuse(t scoring.Ticket, why ledger.Reason) {
	h.w.note(noteRefuse, h.n, t.Number, uint64(why))
	h.w.router.box.post(&h.box, &fleet.Refused{Ticket: t, Replica: h.id, Reason: why, Snapshot: h.ref.Snapshot()})
}

// Publish implements replica.Shell.
func (h *host) Publish(s *fleet.Snapshot, room bool) {
	h.w.checkCooling(h, s)
	if s.State == fleet.Ready && !s.Recovering {
		if h.readyAt == none {
			h.readyAt = h.w.now
		}
	} else {
		h.readyAt = none
	}
	if room {
		h.w.router.box.post(&h.box, fleet.Room{Replica: h.id})
	}
}

// HurryProbe implements replica.Shell.
func (h *host) HurryProbe() { h.connection.hurry() }

// TuneFeed implements replica.Shell.
func (h *host) TuneFeed(blockTokens, capacity scoring.Tokens, incarnation uint64) {
	if p, ok := h.books.message.(replica.Probed); ok && h.feed.born[incarnation] == 0 {
		h.feed.born[incarnation], _ = strconv.ParseUint(p.Status.Incarnation, 10, 64)
	}
	h.feed.box.post(&h.box, tuning{blockTokens, capacity, incarnation})
}

// VoidIndex implements replica.Shell.
func (h *host) VoidIndex() { h.feed.box.post(&h.box, voiding{}) }

// Entered implements replica.Shell.
func (h *host) Entered(from, to fleet.State, why string) {
	h.w.note(noteState, h.n, uint64(from), uint64(to))
	h.w.explain("%s: %s, was %s: %s", h.id, to, from, why)
	if to == fleet.Degraded {
		h.w.checkDegraded(h)
	}
	if to == fleet.Draining {
		h.leavesNobody(from)
	}
	if to == fleet.Gone && !h.gone {
		h.gone = true
		h.w.node.tell(emptied{h})
	}
}

// Alarm implements replica.Shell.
func (h *host) Alarm(what string) { h.w.explain("%s: alarm: %s", h.id, what) }

// SendCanary implements replica.Shell.
func (h *host) SendCanary(number uint64, model string) {
	w := h.w
	w.note(noteCanary, h.n, number, 0)
	w.canaries++
	id := "canary-" + strconv.Itoa(w.canaries)
	h.canary = &attempt{id: number, host: h, mischief: NumFaults, request: engine.Request{
		ID: id, Model: model, PromptTokens: []uint32{h.cfg.CanaryToken}, MaxTokens: 1, IgnoreEOS: true, CacheSalt: id,
	}}
	w.begin(h.canary)
}

// CancelCanary implements replica.Shell.
func (h *host) CancelCanary() {
	if a := h.canary; a != nil && !a.returned && !a.cancelled {
		h.w.cancel(a)
	}
}

// canaryDone is the end of a canary, or a token of it.
func (h *host) canaryDone(a *attempt, err error) {
	if a.returned {
		return
	}
	a.returned = true
	switch {
	case len(a.got) > 0:
		err = nil
	case err == nil:
		err = errNoEnd
	}
	h.box.post(&h.box, canaryDone{a.id, err})
}

type canaryDone struct {
	number uint64
	err    error
}

// Evict implements replica.Shell.
func (h *host) Evict(leaving fleet.Leaving) {
	w := h.w
	if !fleet.OtherServes(h.Others(), h.ref) {
		return
	}
	w.note(noteEvict, h.n, leaving.Incarnation, 0)
	w.tellModel(&h.box, stream.Leave{Ref: h.ref, Leaving: leaving})
}

// Others implements replica.Shell.
func (h *host) Others() []*fleet.Ref { return h.w.fleet() }

// close stops the actor of a replica that has left.
func (h *host) close() {
	h.box.close()
	h.epoch++
	h.connection.stop()
	h.CancelCanary()
	h.feed.stop()
	h.books.close()
}
