package router

import (
	"slices"
	"time"

	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/scoring/policy"
	"plimsoll/scoring/queue"
)

// aim is for which replica, by its place in the fleet, a leg waits that others could take; at is nowhere if no leg of the entry does.
type aim struct{ leg, at int }

const nowhere = -1

// keep has the pass keep the room that an entry needs which was not placed, against those that stand in a lower class than it came
// with: on the replica that it waits for, its aim, or, where no replica has room, where the least was missing when room was
// kept for it first. Several legs with one prompt are counted as if each had its blocks for itself. Against those of its own class
// nothing is kept, however long they have waited.
func (m *machine) keep(now time.Time, e *entry, on aim, vs []view) {
	p := &m.pass.pass
	for _, ask := range e.legs() {
		_, d, fits := m.prepare(now, e, ask, vs, nil)
		at, ok := on.at, on.at != nowhere && on.leg == ask.Leg
		if !ok {
			at, ok = m.nearest(e, ask.Leg, d, fits)
		}
		if ok {
			p.Keep(e.sub.Call.Request.Class, d, &fits[at], at)
		}
	}
}

// keptOn is the replica on which room was kept for a leg, because the least was missing there.
type keptOn struct {
	leg int
	id  scoring.ReplicaID
}

// nearest is where the least is missing for a leg or, as long as it could have room there, was when that was asked first: what is not
// kept is taken by others, so that whoever goes from one to the next waits for the end of what has just begun, again and again.
func (m *machine) nearest(e *entry, leg int, d *policy.Demand, fits []policy.Fit) (at int, ok bool) {
	p := &m.pass.pass
	on := slices.IndexFunc(e.kept, func(k keptOn) bool { return k.leg == leg })
	if on >= 0 {
		for i := range m.fleet {
			if m.fleet[i].ID == e.kept[on].id && p.HasRoom(d, fits, i) {
				return i, true
			}
		}
		e.kept = slices.Delete(e.kept, on, on+1)
	}
	if at, ok = p.Nearest(d, fits); ok {
		e.kept = append(e.kept, keptOn{leg, m.fleet[at].ID})
	}
	return at, ok
}

// serve tells the pass and the policy whom the next decisions are for, where room is kept for anybody.
func (m *machine) serve(now time.Time, e *entry) {
	p := &m.pass.pass
	if !p.Keeps() {
		return
	}
	for _, i := range p.Serve(m.standing(now, e)) {
		m.policy.Look(i)
		m.trace.Changed(i, &m.fleet[i])
	}
}

// standing is the class in which an entry is tried. An answer that has begun leaves room to nobody: who waits for room has not begun.
func (m *machine) standing(now time.Time, e *entry) queue.Class {
	if e.sub.Begun {
		return queue.Priority
	}
	return m.cfg.Queue.Standing(e.sub.Call.Request.Class, e.sub.Arrival, now)
}

// leaves says whether anybody waits to whom an entry leaves room.
func (m *machine) leaves(now time.Time, e *entry) bool {
	first, _ := m.waiting.Span()
	return first < m.standing(now, e)
}

// keepBefore has the pass keep what those need, or would be given now, to whom an entry leaves room that does not wait.
func (m *machine) keepBefore(now time.Time, e *entry, vs []view) {
	if !m.leaves(now, e) {
		return
	}
	class := m.standing(now, e)
	m.waiting.Scan(now, m.cfg.ScanMax, func(q queue.Entry[*entry]) queue.Visit {
		other := q.Item
		if q.Class >= class {
			return queue.Keep
		}
		m.serve(now, other)
		on := aim{at: nowhere}
		if ask := other.legs()[0]; !now.Before(other.rests) && len(other.legs()) == 1 {
			on = m.wants(now, other, ask, vs)
		}
		m.keep(now, other, on, vs)
		return queue.Keep
	})
}

// wants is where a leg would go, or waits for a better replica.
func (m *machine) wants(now time.Time, e *entry, ask stream.Ask, vs []view) aim {
	_, d, fits := m.prepare(now, e, ask, vs, nil)
	if at, ok := m.policy.Decide(d, fits).Aim(); ok {
		return aim{ask.Leg, at}
	}
	return aim{at: nowhere}
}
