package dst

import (
	"math/rand/v2"
	"time"
)

// relapses are engines that die without a word and are back at once, and whose replica's actor fails a moment later: the streams of the
// life before do not know yet that they are dead when they are asked what runs there. They are drawn, for the whole run, by a generator
// of their own.
type relapses struct {
	rng *rand.Rand // nil: there are none
}

func drawRelapses(seed uint64) relapses {
	rng := rand.New(rand.NewPCG(seed, 0xff51afd7ed558ccd))
	if rng.Float64() >= 0.25 {
		return relapses{}
	}
	return relapses{rng}
}

// relapse plans them.
func (w *world) relapse() {
	rng := w.plan.relapses.rng
	if rng == nil {
		return
	}
	for range 2 + rng.IntN(3) {
		dies := w.in(time.Second+time.Duration(rng.Int64N(int64(w.plan.safety-time.Second))), evOrder)
		dies.host, dies.fault = w.hosts[rng.IntN(len(w.hosts))], Restart
	}
}

// oldest is the replica that has had an answer under way for the longest, if it is not h.
func (w *world) oldest(h *host) *host {
	var first *attempt
	for _, c := range w.calls {
		for _, a := range c.open {
			if !a.cancelled && !a.host.gone && a.host.p.alive && a.life == a.host.p.lives && (first == nil || a.began < first.began) {
				first = a
			}
		}
	}
	if first == nil {
		return h
	}
	return first.host
}

// relapsed does one half of it.
func (w *world) relapsed(h *host, f Fault) {
	if h.gone || w.healed != none {
		return
	}
	if f == Restart {
		h = w.oldest(h)
	}
	phases := w.phasesOn(h)
	d := deed{fault: f, host: h.n, silent: true}
	if f == PanicReplica {
		if h.box.suspended {
			return
		}
		h.panics, d.silent = true, false
	} else {
		if !h.p.alive {
			return
		}
		fails := w.in(100*time.Millisecond+time.Duration(w.plan.relapses.rng.Int64N(int64(900*time.Millisecond))), evOrder)
		fails.host, fails.fault = h, PanicReplica
		h.p.suffer(d)
		h.troubled = w.now
	}
	w.did(d)
	if f == Restart {
		w.share(d)
	}
	w.cover(f, phases)
	w.note(noteFault, h.n, uint64(f), 1)
	w.explain("fault: %s of %s, without a word", f, h.id)
}
