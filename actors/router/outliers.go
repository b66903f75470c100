package router

import (
	"slices"
	"time"

	"plimsoll/scoring"
	"plimsoll/scoring/cost"
)

// outliers keeps work from replicas that have become much slower than they were. What costs more gets less by the cost
// model already; here is where it gets none.
type outliers struct {
	out map[scoring.ReplicaID]ejection
}

// ejection is a replica that is left alone.
type ejection struct {
	until time.Time
	times int // in a row
}

const (
	// ejectSlowdown is how many times as long as predicted its steps must take.
	ejectSlowdown = 4
	// An ejection lasts ejectFirst, and twice as long each time in a row, up to ejectCap.
	ejectFirst = 5 * time.Second
	ejectCap   = 80 * time.Second
	// ejectShare is the part of a model's replicas that may be out at once.
	ejectShare = 1.0 / 3
)

func (o *outliers) ejected(now time.Time, id scoring.ReplicaID) bool {
	e, ok := o.out[id]
	return ok && now.Before(e.until)
}

// barred says whether a replica gets nothing because it is ejected. Where no other one serves any more it does.
func (o *outliers) barred(now time.Time, id scoring.ReplicaID, vs []view) bool {
	return o.ejected(now, id) && slices.ContainsFunc(vs, func(v view) bool {
		return v.ref.ID != id && v.snap.State.Routable() && !v.snap.Suspect && !o.ejected(now, v.ref.ID)
	})
}

// judge ejects a replica if it has become too slow and the fleet can do without it: never more than a third of it, never
// the last one that serves. True: it is out from now on.
func (o *outliers) judge(now time.Time, id scoring.ReplicaID, learner *cost.Learner, vs []view) bool {
	if learner.Slowdown(id) < ejectSlowdown || o.ejected(now, id) {
		return false
	}
	out, others := 1, 0
	for i := range vs {
		other := vs[i].ref.ID
		switch {
		case other == id:
		case o.ejected(now, other):
			out++
		case vs[i].snap.State.Routable() && !vs[i].snap.Suspect:
			others++
		}
	}
	if others == 0 || float64(out) > ejectShare*float64(len(vs)) {
		return false
	}
	e := o.out[id]
	if now.Sub(e.until) > ejectCap { // it has done well since
		e.times = 0
	}
	rest := ejectFirst << min(e.times, 10)
	e = ejection{until: now.Add(min(rest, ejectCap)), times: e.times + 1}
	if o.out == nil {
		o.out = map[scoring.ReplicaID]ejection{}
	}
	o.out[id] = e
	learner.Forgive(id) // when it comes back it is judged by what it does then
	return true
}

// prune forgets replicas that have left the fleet.
func (o *outliers) prune(vs []view) {
	for id := range o.out {
		if find(vs, id) == nil {
			delete(o.out, id)
		}
	}
}
