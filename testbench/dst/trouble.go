package dst

import (
	"time"

	"plimsoll/actors/replica"
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
	for range 2 * int(NumFaults) {
		if f := Fault(w.rng.IntN(int(NumFaults))); w.plan.enabled[f] { //nolint:gosec // an enum
			return f, true
		}
	}
	return 0, false
}

// target draws a replica, rather one that drains or has much to lose.
func (w *world) target() *host {
	hosts := w.present()
	if len(hosts) == 0 {
		return nil
	}
	best := hosts[w.rng.IntN(len(hosts))]
	if w.chance(0.5) {
		for _, h := range hosts {
			if h.draining() && len(h.books.live) > 0 {
				return h
			}
		}
	}
	for range 2 {
		if h := hosts[w.rng.IntN(len(hosts))]; len(h.books.live) > len(best.books.live) {
			best = h
		}
	}
	return best
}

// victim draws an attempt that an engine has, on a replica if there is one.
func (w *world) victim(h *host) *attempt {
	var found *attempt
	seen := 0
	for _, c := range w.calls {
		for _, a := range c.open {
			if a.host == h && !a.cancelled && a.life != 0 && a.failure == nil {
				if c.legs[a.place.Leg].phase() == Resuming && w.chance(0.7) {
					return a // there are few of them
				}
				if seen++; w.rng.IntN(seen) == 0 {
					found = a
				}
			}
		}
	}
	return found
}

func (h *host) draining() bool { return h.ref.Snapshot().State == replica.Draining }

// phasesOn are those of the legs on a replica, as bits; nil is the whole fleet.
func (w *world) phasesOn(h *host) uint {
	var bits uint
	for _, c := range w.calls {
		if c.ended {
			continue
		}
		if c.asked != 0 {
			bits |= 1 << Queued
			for _, l := range c.legs {
				if len(l.got) > 0 && l.finish == nil && l.phase() == Resuming {
					bits |= 1 << Resuming
				}
			}
		}
		for _, a := range c.open {
			if a.cancelled || h != nil && a.host != h {
				continue
			}
			bits |= 1 << c.legs[a.place.Leg].phase()
			if a.host.draining() {
				bits |= 1 << Draining
			}
		}
	}
	return bits
}

// cover counts a fault in phases.
func (w *world) cover(f Fault, phases uint) {
	for p := range NumPhases {
		if phases&(1<<p) != 0 {
			w.coverage[f][p]++
		}
	}
}

// inject has a fault happen.
func (w *world) inject(f Fault) {
	if w.healed != none {
		return
	}
	h := w.target()
	if h == nil {
		return
	}
	switch f {
	case ClientLeaves, SlowClient:
		w.meddle(f)
		return
	case PanicRouter:
		if w.panics++; w.panics > routerPanicsMax {
			return
		}
		w.router.panics = true
	case PanicReplica:
		h.panics = !h.box.suspended
	case ErrorFrame, MissingFinish, Cut:
		w.spoil(f, h)
		return
	case Drain:
		if !w.drain(h) {
			return
		}
	case Add:
		if len(w.present()) > 7 {
			return
		}
		w.cover(f, w.phasesOn(nil))
		h = w.join()
		w.note(noteFault, h.n, uint64(f), 0)
		return
	case ClockJump:
		w.wall += w.between(-time.Hour, time.Hour)
	default:
		w.harm(f, h)
	}
	if f == PanicRouter || f == ClockJump {
		h = nil
	}
	w.cover(f, w.phasesOn(h))
	n := 0
	if h != nil {
		n = h.n
	}
	w.note(noteFault, n, uint64(f), 0)
	w.explain("fault: %s", f)
}

// harm does something to a replica's engine. It counts the phases itself where nothing of them is left afterwards.
func (w *world) harm(f Fault, h *host) {
	p := h.p
	h.troubled = w.now
	switch f {
	case Kill, Restart:
		if !p.alive {
			return
		}
		p.kill(w.chance(0.25))
		if f == Restart {
			p.start()
		}
	case Stop, HungCore:
		p.freeze(f == HungCore)
	case Slow:
		p.slow = time.Duration(3 + w.rng.IntN(15))
	case ServerError, Shed, Distrust:
		p.refuses = f
		h.distrusted = h.distrusted || f == Distrust
	case KVLost, KVDoubled, KVReordered, KVGarbled, KVDelayed:
		p.trouble = f
	default:
	}
	if span, ok := lasting[f]; ok {
		e := w.in(w.between(span[0], span[1]), evRecover)
		e.host, e.fault = h, f
	}
}

// recovers ends a lasting fault.
func (w *world) recovers(f Fault, h *host) {
	if f == Drain {
		w.left(h)
		return
	}
	if h.gone {
		return
	}
	h.troubled = w.now
	switch f {
	case Kill:
		h.p.start()
	case Stop, HungCore:
		h.p.thaw()
	case Slow:
		h.p.slow = 1
	default:
		h.p.refuses = NumFaults
	}
}

// spoil does something to one stream.
func (w *world) spoil(f Fault, h *host) {
	a := w.victim(h)
	if a == nil {
		return
	}
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
	if f == Cut {
		w.cut(a)
		return
	}
	a.mischief, a.after = f, a.emitted+1+w.rng.IntN(12)
}

// meddle has a client leave, or stop reading.
func (w *world) meddle(f Fault) {
	var found *call
	seen := 0
	for _, c := range w.calls {
		if !c.ended && !c.left {
			if seen++; w.rng.IntN(seen) == 0 {
				found = c
			}
		}
	}
	if found == nil {
		return
	}
	w.note(noteFault, 0, uint64(f), uint64(found.n))
	if f == ClientLeaves {
		found.leave()
		return
	}
	found.slow = true
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
	order := replica.Drain{}
	if w.chance(0.7) {
		leave := w.time().Add(w.between(0, 3*time.Second))
		order.Leave = &leave
	}
	h.box.post(&h.box, order)
	return true
}

// heal ends all faults.
func (w *world) heal() {
	w.healed = w.now
	w.note(noteHeal, 0, 0, 0)
	for _, h := range w.present() {
		h.troubled = w.now
		h.p.slow, h.p.refuses, h.p.trouble = 1, NumFaults, NumFaults
		h.p.start()
		h.p.thaw()
	}
	for _, c := range w.calls {
		for _, a := range c.open {
			a.mischief = NumFaults
		}
	}
}
