package dst

import (
	"time"

	"plimsoll/actors/fleet"
)

// A fault that falls at random mostly finds answers being decoded, and hardly ever one that changes engines or one whose
// replica drains. Therefore some faults lie in ambush: they wait until somebody is where they want to meet him.
const (
	ambushed   = 0.4                  // the part of faults that do
	ambushLook = 4 * time.Millisecond // between two looks
	ambushMax  = 750                  // looks; then it falls where it falls
	ambushBait = 100                  // looks after which those that have the means bring about what they wait for
)

// fall has a drawn fault happen, or lie in ambush.
func (w *world) fall(e *event) {
	if w.healed != none {
		return
	}
	f, wanted, looks := e.fault, e.phase, e.n
	if looks == 0 {
		if !w.chance(ambushed) {
			w.inject(f, nil)
			return
		}
		wanted = [...]Phase{Queued, Prefill, Resuming, Resuming, Draining, Draining}[w.rng.IntN(6)]
	}
	prey := w.prey(wanted)
	if prey != nil || looks >= ambushMax || wanted == Queued && w.phasesOn(nil)&(1<<Queued) != 0 {
		w.inject(f, prey)
		return
	}
	if looks == ambushBait {
		w.bait(wanted)
	}
	again := w.in(ambushLook, evFault)
	again.fault, again.phase, again.n = f, wanted, looks+1
}

// bait brings a phase about by a fault that the seed has.
func (w *world) bait(p Phase) {
	if p == Draining && w.plan.enabled[Drain] {
		w.inject(Drain, w.prey(Decode))
		return
	}
	for _, f := range []Fault{Cut, ErrorFrame} {
		if p == Resuming && w.plan.enabled[f] {
			w.inject(f, w.prey(Decode))
			return
		}
	}
}

// prey draws an attempt that an engine has whose leg is in a phase; nil: there is none.
func (w *world) prey(p Phase) *attempt {
	return w.draw(func(a *attempt) bool {
		if p == Draining {
			return a.host.draining()
		}
		return a.call.legs[a.place.Leg].phase() == p
	})
}

// victim draws an attempt that an engine has, on a replica.
func (w *world) victim(h *host) *attempt {
	return w.draw(func(a *attempt) bool { return a.host == h })
}

func (w *world) draw(suits func(a *attempt) bool) *attempt {
	var found *attempt
	seen := 0
	for _, c := range w.calls {
		for _, a := range c.open {
			if !a.cancelled && a.life != 0 && a.failure == nil && suits(a) {
				if seen++; w.rng.IntN(seen) == 0 {
					found = a
				}
			}
		}
	}
	return found
}

// target draws a replica, rather one that has much to lose; one with cache events, where it is about these.
func (w *world) target(f Fault) *host {
	hosts := w.present()
	if f >= KVLost && f <= KVDelayed {
		kept := hosts[:0]
		for _, h := range hosts {
			if h.feed.link.hears() {
				kept = append(kept, h)
			}
		}
		hosts = kept
	}
	if len(hosts) == 0 {
		return nil
	}
	best := hosts[w.rng.IntN(len(hosts))]
	for range 2 {
		if h := hosts[w.rng.IntN(len(hosts))]; len(h.books.live) > len(best.books.live) {
			best = h
		}
	}
	return best
}

func (h *host) draining() bool { return h.ref.Snapshot().State == fleet.Draining }

// phasesOn are those of the legs on a replica, as bits; nil is the whole fleet.
func (w *world) phasesOn(h *host) uint {
	var bits uint
	for _, c := range w.calls {
		if c.ended {
			continue
		}
		if c.queued() {
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
