package dst

import (
	"math/rand/v2"
	"slices"
	"time"

	"plimsoll/actors/fault"
)

// sluggish says that the engines of a seed are slow, and nothing worse: passes of half a minute, pauses for what is done for the
// first time, probes that starve meanwhile, and moments in which the whole machine is overloaded. It is drawn by a generator of its
// own.
type sluggish struct {
	rng *rand.Rand // nil: they are not
}

// Of the passes that are long.
const (
	// longLeast is how long the passes are at least that are counted, longStep how long they are.
	longLeast          = 20 * time.Second
	longFrom, longMost = 21 * time.Second, 35 * time.Second
	everywhere         = 0.1 // the part of them that falls on all replicas at once
)

// drawSluggish draws them for an eighth of the seeds.
func drawSluggish(seed uint64) sluggish {
	rng := rand.New(rand.NewPCG(seed, 0x5851f42d4c957f2d))
	if rng.Float64() >= 1.0/8 {
		return sluggish{}
	}
	return sluggish{rng}
}

func (s *sluggish) between(a, b time.Duration) time.Duration {
	return a + time.Duration(s.rng.Int64N(int64(b-a)))
}

// set makes a plan one in which engines are only slow, and whose patience does not end before they answer.
func (s *sluggish) set(p *plan) {
	if s.rng == nil {
		return
	}
	harmless := []Fault{ClientLeaves, SlowClient, ClockJump, Add, KVLost, KVDoubled, KVReordered, KVGarbled, KVDelayed}
	for f := range drawnFaults {
		p.enabled[f] = p.enabled[f] && slices.Contains(harmless, f)
	}
	p.enabled[Drain] = true
	p.singles, p.sieges, p.relapses, p.raw, p.ranks = singles{}, sieges{}, relapses{}, false, 1
	p.safety = s.between(100*time.Second, 160*time.Second)
	p.router.QueueTimeout, p.router.ResumeWait = 100*time.Second, 100*time.Second
	p.stream.FirstTokenTimeout, p.stream.TokenTimeout, p.stream.HedgeAfter = 10*time.Minute, 5*time.Minute, 0
}

// gait is how an engine of the seed is slow from the beginning to the heal.
type gait struct {
	slow     int           // how many times as long as they should its passes take
	starves  bool          // while a pass takes long it answers no probe
	compiles time.Duration // how long it stands still at its first request for logprobs; 0: it does not
}

// gait draws an engine's.
func (s *sluggish) gait() gait {
	g := gait{slow: 1}
	if s.rng == nil {
		return g
	}
	g.slow, g.starves = 1+s.rng.IntN(20), s.rng.Float64() < 0.5
	if s.rng.Float64() < 0.5 {
		g.compiles = s.between(longFrom, longMost)
	}
	return g
}

// walk gives an engine its gait.
func (p *process) walk(g gait) { p.gait, p.slow = g, g.slow }

// sluggishEngines has the engines' long passes begin.
func (w *world) sluggishEngines() {
	s := &w.plan.sluggish
	if s.rng == nil {
		return
	}
	for range 16 + s.rng.IntN(24) {
		w.in(s.between(time.Second, w.plan.safety-time.Second), evFault).fault = LongStep
	}
}

// drag has passes of a replica take long, or of all of them: then it is the machine that is overloaded.
func (w *world) drag(h *host) {
	hosts := []*host{h}
	if w.chance(everywhere) {
		hosts = w.present()
	}
	for _, h := range hosts {
		if !h.p.alive || h.p.frozen() || h.p.m.Status().Running == 0 || h.p.until > w.now { // one long pass is enough at a time
			continue
		}
		phases := w.phasesOn(h)
		span := w.between(longFrom, longMost)
		d := deed{fault: LongStep, host: h.n, n: int(span.Milliseconds())}
		w.did(d)
		h.p.suffer(d)
		w.cover(LongStep, phases)
		w.note(noteFault, h.n, uint64(LongStep), 0)
		w.explain("fault: %s", LongStep)
	}
}

// compile has the engine stand still at its first request for logprobs.
func (p *process) compile(a *attempt) {
	if p.gait.compiles == 0 || p.w.healed != none || p.compiled || a.request.TopLogprobs == nil {
		return
	}
	p.compiled, p.until = true, p.w.now+p.gait.compiles
	p.w.cover(LongStep, p.w.phasesOn(p.host))
	p.w.explain("%s compiles for %s", p.host.id, p.gait.compiles)
}

// drags says whether a pass is to go on, though its time is over.
func (p *process) drags(n uint64) bool {
	if p.w.now >= p.until {
		return false
	}
	e := p.w.at(p.until, evPass)
	e.host, e.n = p.host, n
	return true
}

// starving says whether probes get no answer because a pass takes long.
func (p *process) starving() bool { return p.gait.starves && p.w.now < p.until }

// checkSlow looks whether a request that fails may: none does for engines that are only slow, as long as its client has patience.
func (w *world) checkSlow(c *call) {
	if w.plan.sluggish.rng == nil || c.fault == nil || c.req.SLO.TTFT != nil || c.req.SLO.TPOT != nil {
		return
	}
	switch c.fault.Kind { //nolint:exhaustive // what is not the engines' speed
	case fault.ClientGone, fault.SlowReader, fault.ContextLength, fault.BadInput:
		return
	}
	if c.rejected && w.now-c.inserted >= w.plan.router.QueueTimeout {
		return // what is left of the fleet has no room for all of it at once
	}
	left := func(h *host) bool { // by an order, or by a leg that may have silenced it
		return h.drained || h.draining() || slices.ContainsFunc(c.legs, func(l *leg) bool { return l.failedAt(w, h, h.ref.Snapshot().Incarnation) })
	}
	if !slices.ContainsFunc(w.present(), func(h *host) bool { return !left(h) }) {
		return // orders have emptied the rest of the fleet
	}
	for _, l := range c.legs {
		if l.moved { // an order was to empty its replica
			return
		}
	}
	w.violate(OnlySlow, "call %d fails though engines are only slow: %s: %s", c.n, c.fault.Kind, c.fault.Message)
}
