package dst

import (
	"time"

	"plimsoll/actors/fleet"
)

// lasting says how long a fault lasts: from, to. Others are over at once.
var lasting = map[Fault][2]time.Duration{
	Kill: {100 * time.Millisecond, 5 * time.Second}, Stop: {50 * time.Millisecond, 6 * time.Second},
	HungCore: {50 * time.Millisecond, 5 * time.Second}, Slow: {200 * time.Millisecond, 4 * time.Second},
	ServerError: {50 * time.Millisecond, 2 * time.Second}, Shed: {50 * time.Millisecond, 2 * time.Second},
	Distrust: {50 * time.Millisecond, 2 * time.Second},
}

// routerPanicsMax keeps router panics below what a request may give up at.
const routerPanicsMax = 3

// drawFault draws one of those that the seed has.
func (w *world) drawFault() (Fault, bool) {
	for range 2 * int(drawnFaults) {
		if f := Fault(w.rng.IntN(int(drawnFaults))); w.plan.enabled[f] { //nolint:gosec // an enum
			return f, true
		}
	}
	return 0, false
}

// cover counts a fault in phases.
func (w *world) cover(f Fault, phases uint) {
	for p := range NumPhases {
		if phases&(1<<p) != 0 {
			w.coverage[f][p]++
		}
	}
}

// inject has a fault happen, where an ambush has led to or where it falls.
func (w *world) inject(f Fault, prey *attempt) {
	if w.healed != none {
		return
	}
	h := w.target(f)
	if prey != nil {
		h = prey.host
	}
	if h == nil {
		return
	}
	switch f {
	case LongStep:
		w.drag(h)
		return
	case ClientLeaves, SlowClient:
		w.meddle(f, prey)
		return
	case ErrorFrame, MissingFinish, Cut:
		w.spoil(f, h, prey)
		return
	case PanicRouter, ClockJump, Add:
		w.shake(f)
		return
	case PanicReplica:
		if h.box.suspended {
			return
		}
		h.panics = true
		w.did(deed{fault: f, host: h.n})
	case Drain:
		if !w.drain(h) {
			return
		}
	case Kill, Restart, Stop, HungCore, Slow, ServerError, Shed, Distrust, KVLost, KVDoubled, KVReordered, KVGarbled, KVDelayed:
		phases := w.phasesOn(h) // before it has changed them
		if w.harm(f, h) {
			w.cover(f, phases)
			w.note(noteFault, h.n, uint64(f), 0)
			w.explain("fault: %s", f)
		}
		return
	case Undrain, RefuseOne, ForAnHour, Trailing, NumFaults: // an order takes it back, a request brings it along, or none
		return
	}
	w.cover(f, w.phasesOn(h))
	w.note(noteFault, h.n, uint64(f), 0)
	w.explain("fault: %s", f)
}

// shake does something to the whole fleet.
func (w *world) shake(f Fault) {
	n := 0
	phases := w.phasesOn(nil)
	if f == PanicRouter {
		if w.panics++; w.panics > routerPanicsMax {
			return
		}
		w.router.panics = true
		w.did(deed{fault: f})
	}
	if f == ClockJump {
		w.wall += w.between(-time.Hour, time.Hour)
	}
	if f == Add {
		if len(w.present()) > 7 {
			return
		}
		h := w.join()
		n = h.n
		w.did(deed{fault: f, host: n})
		w.node.tell(addition{h})
		w.hasty(h)
	}
	w.cover(f, phases)
	w.note(noteFault, n, uint64(f), 0)
	w.explain("fault: %s", f)
}

// harm does something to a replica's engine; false if there is nothing to harm.
func (w *world) harm(f Fault, h *host) bool {
	p := h.p
	d := deed{fault: f, host: h.n}
	switch f {
	case Kill, Restart:
		if !p.alive {
			return false
		}
		d.silent = w.chance(0.25)
		d.orphan = f == Kill && !d.silent && w.chance(0.4)
	case Stop, HungCore:
		if !p.alive || p.frozen() {
			return false
		}
	case Slow:
		d.n = 3 + w.rng.IntN(15)
	case ServerError, Shed, Distrust:
		h.distrusted = h.distrusted || f == Distrust
	case KVLost, KVDoubled, KVReordered, KVGarbled, KVDelayed:
		if !h.feed.link.hears() {
			return false
		}
	case ErrorFrame, Cut, MissingFinish, PanicReplica, PanicRouter, ClockJump, ClientLeaves, SlowClient, Drain, Add, Undrain, RefuseOne, ForAnHour,
		Trailing, LongStep, NumFaults:
		return false
	}
	w.did(d)
	p.suffer(d)
	w.share(d)
	h.troubled = w.now
	if span, ok := lasting[f]; ok {
		e := w.in(w.between(span[0], span[1]), evRecover)
		e.host, e.fault = h, f
	}
	return true
}

// recovers ends a lasting fault.
func (w *world) recovers(f Fault, h *host) {
	if h.gone {
		return
	}
	h.troubled = w.now
	d := deed{fault: f, host: h.n, over: true}
	w.did(d)
	h.p.suffer(d)
	w.share(d)
}

// spoil does something to one stream.
func (w *world) spoil(f Fault, h *host, a *attempt) {
	if a == nil {
		a = w.victim(h)
	}
	if a == nil {
		return
	}
	h = a.host
	bits := uint(1) << a.call.legs[a.place.Leg].phase()
	if h.draining() {
		bits |= 1 << Draining
	}
	if w.phasesOn(nil)&(1<<Queued) != 0 {
		bits |= 1 << Queued
	}
	w.cover(f, bits)
	w.note(noteFault, h.n, uint64(f), uint64(a.call.n))
	w.explain("fault: %s of attempt %d of call %d", f, a.id, a.call.n)
	d := deed{fault: f, host: h.n, call: a.call.n, leg: a.place.Leg}
	if f != Cut {
		d.n = a.emitted + 1 + w.rng.IntN(12)
	}
	w.did(d)
	w.spoilt(a, d)
}

// meddle has a client leave, or stop reading.
func (w *world) meddle(f Fault, prey *attempt) {
	var found *call
	if prey != nil {
		found = prey.call
	}
	seen := 0
	for _, c := range w.calls {
		if prey == nil && !c.ended && !c.left {
			if seen++; w.rng.IntN(seen) == 0 {
				found = c
			}
		}
	}
	if found == nil || found.ended || found.left {
		return
	}
	w.note(noteFault, 0, uint64(f), uint64(found.n))
	if f == ClientLeaves {
		found.leave()
		return
	}
	found.slow = true
	w.did(deed{fault: f, call: found.n})
	w.cover(f, found.phases())
}

// drain has a replica drained, if others are left.
func (w *world) drain(h *host) bool {
	serving := 0
	for _, o := range w.present() {
		if !o.draining() && !o.drained {
			serving++
		}
	}
	if serving <= 2 && !h.drained {
		return false
	}
	h.drained = true // or asked once more, with another time
	drain, d := fleet.Drain{}, deed{fault: Drain, host: h.n, leave: none}
	if w.chance(0.7) {
		d.leave = w.between(0, 3*time.Second)
		leave := w.time().Add(d.leave)
		drain.Leave = &leave
	}
	w.did(d)
	w.node.tell(order{h, drain})
	return true
}

// heal ends all faults.
func (w *world) heal() {
	w.healed = w.now
	w.note(noteHeal, 0, 0, 0)
	w.did(deed{fault: NumFaults, over: true})
	for _, h := range w.present() {
		h.troubled = w.now
		h.p.heal()
	}
	for _, c := range w.calls {
		for _, a := range c.open {
			a.mischief = NumFaults
		}
	}
}
