package dst

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
)

// process is an engine's process and what becomes of the bytes to and from it. The address outlives it.
type process struct {
	w    *world
	host *host
	cfg  sim.Config
	m    *sim.Machine

	alive    bool
	stopped  bool // SIGSTOP: everything waits
	hung     bool // the core waits, the server does not
	slow     int  // how many times as long as they should its passes take
	lives    uint64
	byID     map[string]*attempt
	known    []*attempt // at least those of byID, in the order in which they came
	canaries []*attempt // those of known that are none of a request
	held     []event    // what came while nothing was taken
	due      uint64     // a pass that ended while nothing was taken
	stale    sim.Status
	stops    time.Duration // when it was last stopped or hung
	until    time.Duration // its pass goes on until then; it is over for a longer one
	passing  uint64        // the number of its last pass
	gait     gait
	compiled bool // it has stood still for that

	refuses Fault // ServerError, Shed or Distrust until healed; NumFaults: takes requests
	trouble Fault // what happens to the next batch of cache events; NumFaults: nothing

	pub   *publisher // of its cache events
	lossy bool       // it loses IDs
}

func newProcess(w *world, h *host, cfg sim.Config, pub *publisher) *process {
	p := &process{w: w, host: h, cfg: cfg, alive: true, lives: 1, byID: map[string]*attempt{}, slow: 1, refuses: NumFaults, trouble: NumFaults}
	m, err := sim.New(p.cfg, sim.Deps{Source: source})
	if err != nil {
		panic(err)
	}
	p.m = m
	p.pub = pub
	p.lossy = h.ref.Capabilities.LostMost > 0
	pub.serves(p)
	return p
}

// source is what all engines say: the same weights.
var source = sim.HashSource{Vocab: vocabulary, EOSID: idEnd, EndPerMille: 6}

// frozen says that nothing moves in the core.
func (p *process) frozen() bool { return p.stopped || p.hung }

// keep puts something aside until the process goes on.
func (p *process) keep(e *event) { p.held = append(p.held, *e) }

// take handles what reaches the process: requests and closed connections.
func (p *process) take(e *event) {
	a := e.attempt
	if !p.alive || a.life != 0 && a.life != p.lives {
		if e.kind == evArrive {
			p.w.comeBack(a, p.w.network(), errRefused)
		} else if a.life != 0 {
			p.w.comeBack(a, p.w.network(), a.why()) // nobody there knows the connection
		}
		return // its connections died with it
	}
	if e.kind == evArrive {
		a.life = p.lives
		if !p.frozen() && p.turnAway(a) {
			return
		}
		p.byID[a.request.ID] = a
		if len(p.known) > 2*len(p.byID)+16 {
			p.known = slices.DeleteFunc(p.known, func(o *attempt) bool { return p.byID[o.request.ID] != o })
		}
		p.known = append(p.known, a)
		if a.call == nil {
			p.canaries = append(slices.DeleteFunc(p.canaries, func(o *attempt) bool { return p.byID[o.request.ID] != o }), a)
		}
	}
	if p.frozen() {
		p.keep(e)
		return
	}
	p.feed(e)
}

func (p *process) feed(e *event) {
	a := e.attempt
	if e.kind == evHangUp {
		p.step(sim.Abort{ID: a.request.ID})
		return
	}
	p.compile(a)
	r := &a.request
	p.step(sim.Submit{
		ID: r.ID, PromptTokens: a.prompted(), MaxTokens: r.MaxTokens, MinTokens: r.MinTokens, Sampling: r.Sampling,
		EndTokens: a.ends(), IgnoreEOS: r.IgnoreEOS, TopLogprobs: r.TopLogprobs, Salt: r.CacheSalt, LoRA: r.LoRA,
		Entropy: a.entropy,
	})
}

// What engines and connections say when they fail.
var (
	errRefused = &engine.Failure{Kind: engine.Refused, Message: "connection refused"}
	errReset   = &engine.Failure{Kind: engine.Broken, Message: "connection reset"}
	errNoEnd   = &engine.Failure{Kind: engine.Broken, Unfinished: true, Message: "the stream ended without a finish"}
	errSaid    = &engine.Failure{Kind: engine.Broken, FromEngine: true, Status: http.StatusInternalServerError, Message: "internal error"}
	errBusy    = &engine.Failure{Kind: engine.Shed, FromEngine: true, Status: http.StatusServiceUnavailable, Message: "busy"}
	errLimited = &engine.Failure{Kind: engine.Shed, FromEngine: true, Status: http.StatusTooManyRequests, RetryAfter: time.Second, Message: "too many requests"}
	errBadKey  = &engine.Failure{Kind: engine.Operator, FromEngine: true, Status: http.StatusUnauthorized, Message: "unauthorized"}
	errSilent  = &engine.Failure{Kind: engine.Broken, Message: "no answer in time", Err: context.DeadlineExceeded}
)

// turnAway refuses a request at the door.
func (p *process) turnAway(a *attempt) bool {
	w := p.w
	if p.oddly(a) {
		return true
	}
	if p.refuses == NumFaults {
		return false
	}
	why := errSaid
	if p.refuses == Distrust {
		why = errBadKey
	}
	if p.refuses == Shed {
		why = errBusy
		if w.chance(0.5) {
			why = errLimited
		}
	}
	w.comeBack(a, w.network(), why)
	return true
}

// step lets the engine take an event. Its effects only schedule: none of them comes back here before this returns.
func (p *process) step(e sim.Event) {
	w := p.w
	for _, effect := range p.m.Step(w.now, e) {
		switch e := effect.(type) {
		case sim.StartStep:
			p.passing = e.Step
			ev := w.at(w.now+e.Duration*time.Duration(p.slow), evPass)
			ev.host, ev.n = p.host, e.Step
		case sim.Emit:
			p.emit(e)
		case sim.KV:
			p.pub.publish(e.Events)
		case sim.Rejected:
			a := p.byID[e.ID]
			delete(p.byID, e.ID)
			w.comeBack(a, w.network(), e.Failure)
		case sim.Aborted:
			a := p.byID[e.ID]
			delete(p.byID, e.ID)
			delete(p.host.books.excused, a.place.Claim.Ticket.Number)
			w.comeBack(a, w.network(), a.why())
		case sim.Lost:
			// kill has seen to it
		case sim.ResetDone:
		}
	}
	p.host.books.held()
}

// emit sends what a pass gave to whom it is for.
func (p *process) emit(e sim.Emit) {
	w := p.w
	a := p.byID[e.ID]
	last := e.Event.Finish != nil
	if last {
		delete(p.byID, e.ID)
	}
	a.emitted++
	if p.lossy && !a.lose(&e.Event) {
		return
	}
	if a.call != nil && a.call.raw > 0 {
		a.renders(&e.Event)
	}
	if last && a.mischief == MissingFinish {
		e.Event.Finish = nil
		w.carry(a, e.Event)
		w.comeBack(a, w.network(), errNoEnd)
		return
	}
	if !last && a.mischief == ErrorFrame && a.emitted >= a.after {
		// The engine lets go of it by itself.
		a.failure = errSaid
		a.mischief = NumFaults
		ev := w.in(0, evHangUp)
		ev.host, ev.attempt = p.host, a
		if !p.host.ref.Capabilities.ConfirmsAbort {
			w.comeBack(a, w.network(), errSaid)
		}
		return
	}
	if a.failure != nil {
		if last {
			w.comeBack(a, w.network(), a.failure) // the hang-up will find nothing
		}
		return
	}
	w.carry(a, e.Event)
	if last {
		p.trail(a)
		w.comeBack(a, w.network(), nil)
	}
}

// pass ends a forward pass.
func (p *process) pass(n uint64) {
	if p.frozen() {
		p.due = max(p.due, n) // one of a life before may come late
		return
	}
	if p.drags(n) {
		return
	}
	p.step(sim.StepDone{Step: n})
}

func (p *process) freeze(core bool) {
	if !p.alive || p.frozen() {
		return
	}
	p.stale = p.m.Status()
	p.stopped, p.hung, p.stops = !core, core, p.w.now
}

// thaw lets the process go on: what has come meanwhile is handled in order.
func (p *process) thaw() {
	if !p.alive || !p.frozen() {
		return
	}
	p.stopped, p.hung = false, false
	p.stops = p.w.now
	if p.due != 0 {
		n := p.due
		p.due = 0
		p.step(sim.StepDone{Step: n})
	}
	p.pub.thaw()
	held := p.held
	p.held = nil
	for i := range held {
		p.feed(&held[i])
	}
}

// kill ends the process. The kernel resets its connections, unless its machine goes with it: then nobody hears anything.
func (p *process) kill(silent bool) {
	if !p.alive {
		return
	}
	w := p.w
	p.alive, p.stopped, p.hung, p.slow, p.refuses, p.held, p.due = false, false, false, 1, NumFaults, nil, 0
	for _, a := range p.known {
		if p.byID[a.request.ID] != a {
			continue
		}
		switch {
		case a.cancelled:
			w.comeBack(a, w.network(), context.Canceled)
		case a.failure != nil: // its connection was cut before
			w.comeBack(a, w.network(), a.failure)
		case !silent:
			w.comeBack(a, w.network(), errReset)
		}
	}
	p.known = p.known[:0]
	clear(p.byID)
	clear(p.host.books.excused)
	p.step(sim.Kill{})
	p.pub.end(silent)
}

// start begins another life at the same address.
func (p *process) start() {
	if p.alive {
		return
	}
	p.alive = true
	p.lives++
	p.pub.begin()
	p.step(sim.Start{})
}

// status is what a probe finds; nil and a failure where it finds no engine, and neither where nothing answers.
func (p *process) status() (*engine.Status, *engine.Failure) {
	if !p.alive {
		return nil, errRefused
	}
	if p.stopped || p.starving() {
		return nil, nil
	}
	load := p.m.Status()
	if p.hung {
		load = p.stale
	}
	blocks, limit := p.cfg.UsableBlocks(), p.cfg.SequenceTokens()
	s := &engine.Status{
		Model: p.cfg.Model, Adapters: p.cfg.Adapters, BlockTokens: &p.cfg.BlockTokens, KVBlocks: &blocks, Seats: &p.cfg.Seats, SequenceTokens: &limit,
		Load: engine.Load{
			RunningSequences: &load.Running, WaitingSequences: &load.Waiting, UsedBlocks: &load.UsedBlocks, Steps: &load.Steps,
		},
	}
	if p.host.ref.Capabilities.Kind != "plain" {
		s.Incarnation = strconv.FormatUint(p.lives, 10)
	}
	return s, nil
}
