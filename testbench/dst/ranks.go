package dst

import (
	"fmt"
	"math/rand/v2"

	"plimsoll/engine"
)

// Some engines have several data-parallel ranks: each is a replica of its own, with a cache of its own, and they live and die together.

// drawRanks says, by their numbers from 0 on, which of the first replicas share a process: as many as it returns, the first ones; 1: none.
// It has a generator of its own.
func drawRanks(seed uint64) int {
	rng := rand.New(rand.NewPCG(seed, 0xbf58476d1ce4e5b9))
	if rng.Float64() >= 0.25 {
		return 1
	}
	return 2 + rng.IntN(2)
}

// settleIn gives a new replica its process.
func (w *world) settleIn(h *host) {
	if h.n <= w.plan.ranks {
		h.cfg.Process = "ranks"
	}
	h.ref.Process = h.cfg.Process
}

// mates are the other ranks of a replica's process.
func (w *world) mates(h *host) (mates []*host) {
	for _, o := range w.present() {
		if o != h && o.ref.Process == h.ref.Process {
			mates = append(mates, o)
		}
	}
	return mates
}

// together says whether a fault meets all ranks of a process.
func together(f Fault) bool { return f == Kill || f == Restart || f == Stop }

// share has the other ranks suffer what one of them does.
func (w *world) share(d deed) {
	if !together(d.fault) {
		return
	}
	for _, o := range w.mates(w.hosts[d.host-1]) {
		d.host = o.n
		w.did(d)
		o.troubled = w.now
		o.p.suffer(d)
	}
}

// kept says whether what a leg has failed on keeps it from a replica at the life that it is known to have: that very life, or any of a
// rank of the same process as long as the failed one is not known to live again.
func (f *failedOn) keeps(w *world, h *host, incarnation uint64) bool {
	if f.host == h {
		return f.incarnation == incarnation
	}
	return f.process && f.host.ref.Process == h.ref.Process && w.inFleet(f.host) && f.host.ref.Snapshot().Incarnation == f.incarnation
}

// ofProcess says whether a failure is one of the whole process.
func ofProcess(f *engine.Failure) bool {
	return f.Kind == engine.Refused || f.Kind == engine.Broken || f.Kind == engine.Stalled || f.Kind == engine.Operator
}

// String names the life.
func (f *failedOn) String() string { return fmt.Sprintf("life %d of %s", f.incarnation, f.host.id) }
