package dst

import (
	"math/rand/v2"
	"time"

	"plimsoll/actors/fleet"
)

// recalls are orders of operators to drain replicas, which stay, and to have them serve again. They are drawn, for the whole run, by a
// generator of their own: fleet, requests and faults of a seed are what they would be without.
type recalls struct {
	rng *rand.Rand // nil: there are none
}

// drawRecalls draws them for about a third of the seeds.
func drawRecalls(seed uint64) recalls {
	rng := rand.New(rand.NewPCG(seed, 0x2545f4914f6cdd1d))
	if rng.Float64() >= 1.0/3 {
		return recalls{}
	}
	return recalls{rng}
}

func (r *recalls) between(a, b time.Duration) time.Duration {
	return a + time.Duration(r.rng.Int64N(int64(b-a)))
}

// recall has operators drain a replica for a while, or one after the other, so that an answer may be moved from each to the next.
func (w *world) recall() {
	r := &w.plan.recalls
	if r.rng == nil {
		return
	}
	for range 1 + r.rng.IntN(3) {
		hosts := w.hosts
		if r.rng.Float64() < 0.5 {
			one := r.rng.IntN(len(hosts))
			hosts = hosts[one : one+1]
		}
		at := r.between(0, w.plan.safety)
		for _, h := range hosts {
			if at >= w.plan.safety {
				break
			}
			e := w.in(at, evOrder)
			e.host, e.fault, e.leave = h, Drain, none
			if r.rng.Float64() < 0.8 {
				e.leave = r.between(0, 500*time.Millisecond)
			}
			span := r.between(20*time.Millisecond, 1500*time.Millisecond)
			back := w.in(min(at+span, w.plan.safety), evOrder)
			back.host, back.fault = h, Undrain
			at += span
			if r.rng.Float64() < 0.3 {
				at -= span / 2 // two at a time
			}
		}
	}
}

// order gives a replica an operator's order to drain and to stay, or to serve again. Who is to leave is not asked to stay.
func (w *world) order(h *host, f Fault, leave time.Duration) {
	if h.gone || f == Drain && h.drained {
		return
	}
	d := deed{fault: f, host: h.n, leave: none, keep: f == Drain}
	var what any = fleet.Undrain{}
	if f == Drain {
		drain := fleet.Drain{Keep: true}
		if d.leave = leave; leave != none {
			drain.Leave = new(w.time().Add(leave))
		}
		what = drain
	}
	w.did(d)
	w.cover(f, w.phasesOn(h))
	w.note(noteFault, h.n, uint64(f), 1)
	w.explain("order: %s %s, which stays", f, h.id)
	w.node.tell(order{h, what})
}
