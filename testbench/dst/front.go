package dst

import (
	"math/rand/v2"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/router"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// front is the model's router: its actor, its tokenizer workers, and the roster of the fleet.
type front struct {
	w      *world
	m      *router.Machine
	box    mailbox
	jobs   map[*call]*stream.Submit
	armed  time.Duration
	epoch  uint64
	steps  uint64 // of the machine
	panics bool
}

// encoded is a worker's result.
type encoded struct {
	call *call
	sub  *stream.Submit
}

func (f *front) start() {
	w := f.w
	f.epoch++
	f.panics = false
	f.armed = none
	f.jobs = map[*call]*stream.Submit{}
	cfg := w.plan.router
	if plant := w.cfg.Plant; plant != nil && plant.weightless {
		cfg.TenantWeights = nil
	}
	m, err := router.NewMachine(cfg, rand.New(rand.NewPCG(w.cfg.Seed, f.epoch)), w.newTicket)
	if err != nil {
		panic(err)
	}
	f.m = m
	w.lineLost()
	f.box.resume()
	if f.epoch > 1 {
		w.tellModel(&f.box, stream.RouterRestarted{})
	}
}

func (f *front) shell() router.Shell {
	if plant := f.w.cfg.Plant; plant != nil && plant.router != nil {
		return plant.router(f)
	}
	return f
}

// receive implements recipient.
func (f *front) receive(message any) {
	w := f.w
	if f.panics {
		f.panic(message)
		return
	}
	switch m := message.(type) {
	case *stream.Submit:
		if m.Hedge {
			w.byHandle[m.Call].race.taken = w.now
		}
		f.submit(m)
		return
	case encoded:
		f.encoded(m)
		return
	case stream.Withdraw:
		c := w.byHandle[m.Call]
		if sub := f.jobs[c]; sub != nil && (m.Number == 0 || m.Number == sub.Number) {
			delete(f.jobs, c)
			c.box.post(&f.box, stream.Withdrawn{Number: m.Number})
			return
		}
	case *fleet.Refused:
		w.hostByID(m.Replica).feed.slot.withdraw(w.now, m.Ticket.Number)
	case stream.Failed:
		w.hostByID(m.Replica).feed.slot.withdraw(w.now, m.Ticket.Number)
	case stream.Finished:
		w.hostByID(m.Replica).feed.slot.withdraw(w.now, m.Ticket.Number)
	}
	f.message(message)
}

func (f *front) message(message any) {
	f.steps++
	f.w.lineHears(message)
	if plant := f.w.cfg.Plant; plant != nil && plant.toRouter != nil {
		if message = plant.toRouter(f, message); message == nil {
			return
		}
	}
	f.m.Message(f.w.time(), message, f.w.fleet(), f.shell())
	f.arm()
}

func (f *front) tick() {
	f.steps++
	f.m.Tick(f.w.time(), f.w.fleet(), f.shell())
	f.arm()
}

func (f *front) arm() {
	at, ok := f.m.NextTick()
	if !ok {
		return
	}
	when := f.w.since(at)
	if f.armed != none && f.armed <= when {
		return
	}
	f.armed = max(when, f.w.now)
	e := f.w.at(when, evTick)
	e.n = f.epoch
}

// submit has a submission tokenized, unless it brings its prompts.
func (f *front) submit(sub *stream.Submit) {
	w := f.w
	c := w.byHandle[sub.Call]
	delete(f.jobs, c) // an older one
	if sub.Prompts != nil {
		f.message(sub)
		return
	}
	f.jobs[c] = sub
	wait := w.delay()
	if !c.small && w.chance(0.2) {
		wait = w.between(0, 200*time.Millisecond)
	}
	e := w.in(wait, evEncoded)
	e.box, e.msg = &f.box, encoded{c, sub}
}

func (f *front) encoded(e encoded) {
	if f.jobs[e.call] != e.sub {
		return // withdrawn, superseded, or of an instance before
	}
	delete(f.jobs, e.call)
	prompts := make([]stream.Prompt, e.sub.Call.Request.Input.Prompts())
	for i := range prompts {
		if prompts[i].IDs = e.call.prompts()[i]; e.call.raw > 0 {
			prompts[i] = stream.Prompt{Raw: true, EstimatedTokens: e.call.raw}
		}
	}
	e.call.box.post(&f.box, stream.Encoded{Prompts: prompts})
	full := *e.sub
	full.Prompts = prompts
	f.message(&full)
}

func (f *front) panic(message any) {
	w := f.w
	w.note(noteFailed, 0, 0, 0)
	f.m.Fail(message, f.w.fleet(), f)
	f.panics = false
	f.epoch++
	f.jobs = nil
	f.box.suspend()
	w.in(w.between(time.Millisecond, 300*time.Millisecond), evRevive)
}

// The effects of the router's machine.

// TellCall implements router.Shell.
func (f *front) TellCall(handle *stream.Call, message any) {
	w := f.w
	c := w.byHandle[handle]
	switch m := message.(type) {
	case stream.Placed:
		w.note(notePlaced, c.n, m.Number, uint64(len(m.Placements)))
		w.checkPlaced(c, m)
		c.leavesLine(m.Number)
	case stream.Rejected:
		w.note(noteReject, c.n, m.Number, uint64(m.Fault.Kind))
		w.checkRejected(c, m)
		c.leavesLine(m.Number)
	case stream.Withdrawn:
		w.note(noteWithdrawn, c.n, m.Number, 0)
		c.taken[m.Number] = true
		c.leavesLine(m.Number)
	}
	c.box.post(&f.box, message)
}

// Reserve implements router.Shell.
func (f *front) Reserve(ref *fleet.Ref, r *fleet.Reserve) {
	w, claim := f.w, r.Claim
	h := w.hostOf(ref)
	w.note(noteReserve, h.n, claim.Ticket.Number, r.Incarnation)
	rec := w.ticket(claim.Ticket.Number)
	w.checkRamp(h, &claim)
	rec.reserved, rec.host, rec.epoch = w.now, h, f.epoch
	w.checkTurn(h, claim)
	if h.ref.Place() != nil && h.ref.Capabilities.Sharing != engine.SharingNever {
		// From now on the router counts the prompt as cached there.
		h.feed.slot.speculate(w.now, claim.Ticket.Number, claim.SharedKeys, claim.PromptTokens%blockTokens == 0, w.plan.router.SpeculationTTL)
	}
	h.box.post(&f.box, r)
}

// GiveBack implements router.Shell.
func (f *front) GiveBack(ref *fleet.Ref, ticket scoring.Ticket) {
	w := f.w
	h := w.hostOf(ref)
	w.note(noteGiveBack, h.n, ticket.Number, 0)
	h.feed.slot.withdraw(w.now, ticket.Number)
	w.released(ticket.Number, h)
	w.lineGivesBack(ticket.Number)
	h.box.post(&f.box, fleet.End{Ticket: ticket, Reason: ledger.Refused})
}

// Turned implements router.Shell.
func (f *front) Turned(fault.Kind, fault.Cause) {}

// Ejected implements router.Shell.
func (f *front) Ejected(id scoring.ReplicaID, slowdown float64, until time.Time) {
	w := f.w
	h := w.hostByID(id)
	w.note(noteEjected, h.n, 0, 0)
	w.explain("%s is %.1f times as slow as it was: it gets nothing for %s", id, slowdown, until.Sub(w.time()))
	h.ejected = max(h.ejected, w.since(until))
}

// Reranked implements router.Shell.
func (*front) Reranked() {}

// Dispatched implements router.Shell.
func (f *front) Dispatched(time.Duration) {}
