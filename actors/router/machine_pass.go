package router

import (
	"slices"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/scoring"
	"plimsoll/scoring/cost"
	"plimsoll/scoring/policy"
)

// pass is what the decisions of one moment share.
type pass struct {
	pass  policy.Pass
	begun bool // in this step
	// generation changes whenever what the indexes know of the fleet must be looked up anew; places is what it stands for.
	generation uint64
	places     []*fleet.Place
	// standing is what decides whether a request can ever be served; changed: it is not what the last scan of the queue saw.
	standing []standing
	changed  bool
	longest  scoring.Tokens // sequence that any configured replica takes
	quotas   bool           // some replica ramps up
	spots    []spot         // one a replica
	kinds    []scoring.Limits
	bases    []basis // one a replica
}

// spot is what looking a prompt up needs of a replica.
type spot struct {
	indexed, shares bool
	blockTokens     scoring.Tokens // of its index
}

// basis is what fitting a prompt to a replica needs of it.
type basis struct {
	kind   int            // which of the kinds of limits it has; the one past all: they are not known
	pinned scoring.Blocks // that others may ride on
}

// standing is what of a replica decides whether waiting for it helps.
type standing struct {
	incarnation uint64
	limits      scoring.Limits
	state       fleet.State
	told        bool
}

// look begins a pass: what of the fleet every decision of this moment needs.
func (m *machine) look(now time.Time, vs []view) {
	p := &m.pass
	m.fleet = slices.Grow(m.fleet[:0], len(vs))[:len(vs)]
	if len(p.places) != len(vs) {
		p.changed = true
		p.places, p.generation = make([]*fleet.Place, len(vs)), p.generation+1
		p.standing = make([]standing, len(vs))
	}
	for i := range vs {
		v := &vs[i]
		if v.place != p.places[i] {
			p.places[i] = v.place
			p.generation++
		}
		if s := (standing{v.snap.Incarnation, v.snap.Load.Limits, v.snap.State, v.snap.Told}); s != p.standing[i] {
			p.standing[i], p.changed = s, true
		}
		m.fleet[i].KeptBlocks, m.fleet[i].KeptSeats = 0, 0
	}
	m.lay(now, vs)
	m.visit(vs)
	m.trace.Look()
	p.longest, p.begun = longest(vs), true
	p.pass.Begin(now, m.fleet, policy.Queue{Requests: m.waiting.Len(), PrefillSeconds: m.queued.PrefillSeconds})
	m.policy.Begin(&p.pass)
}

// visit notes of each replica what every look-up of a prompt needs.
func (m *machine) visit(vs []view) {
	p := &m.pass
	p.spots, p.kinds, p.bases = slices.Grow(p.spots[:0], len(vs))[:len(vs)], p.kinds[:0], p.bases[:0]
	for i := range vs {
		v := &vs[i]
		at := &p.spots[i]
		*at = spot{indexed: v.indexed(), shares: v.shares()}
		if v.place != nil {
			at.blockTokens = v.place.BlockTokens
		}
		b := basis{kind: -1}
		if v.snap.Told {
			if b.kind = slices.Index(p.kinds, v.snap.Load.Limits); b.kind < 0 {
				b.kind = len(p.kinds)
				p.kinds = append(p.kinds, v.snap.Load.Limits)
			}
		}
		if at.shares {
			b.pinned = v.snap.Load.SharedBlocks
		}
		p.bases = append(p.bases, b)
	}
	for i := range p.bases {
		if b := &p.bases[i]; b.kind < 0 {
			b.kind = len(p.kinds)
		}
	}
}

// ready begins a pass unless this step has.
func (m *machine) ready(now time.Time, vs []view) {
	if !m.pass.begun {
		m.look(now, vs)
	}
}

// lay fills in the fleet, but for what is kept in this pass.
func (m *machine) lay(now time.Time, vs []view) {
	ramps := m.ramps(vs)
	m.pass.quotas = false
	for i := range vs {
		v := &vs[i]
		c := &m.fleet[i] // each field is set: a copy of a candidate takes longer than all else
		c.ID, c.Incarnation, c.State, c.Void = v.ref.ID, v.snap.Incarnation, stateOf(v.snap.State), v.snap.Recovering
		c.LimitsUnknown, c.WarmingSeats, c.Suspect = !v.snap.Told, 0, v.snap.Suspect
		if v.snap.Silent {
			c.State, c.Suspect = policy.Ready, true
		}
		c.Ejected = m.outliers.barred(now, v.ref.ID, vs)
		c.Load = v.snap.Load
		c.Pending, c.PendingBlocks, c.PendingSeats = cost.Pending{}, 0, 0
		if b := m.booked[v.ref.ID]; b != nil {
			c.Pending, c.PendingBlocks, c.PendingSeats = b.pending, b.blocks, b.seats
		}
		c.Rates, c.Busy = m.estimator.At(now, v.ref.ID)
		c.New = !m.estimator.KnowsPrefill(v.ref.ID, 1, 0)
		c.CoolingUntil = nil
		if quota := v.snap.QuotaSeats; quota != nil && v.snap.State == fleet.Ready {
			m.pass.quotas = true
			if ramps {
				c.State, c.WarmingSeats = policy.Warming, *quota
			}
		}
		if !v.snap.CoolingUntil.IsZero() {
			c.CoolingUntil = &v.snap.CoolingUntil
		}
	}
}

// rebooked tells the pass that what is booked on a replica has changed.
func (m *machine) rebooked(now time.Time, i int, vs []view) {
	if !m.pass.quotas {
		b := m.pending(vs[i].ref.ID)
		c := &m.fleet[i]
		c.Pending, c.PendingBlocks, c.PendingSeats = b.pending, b.blocks, b.seats
		m.pass.pass.Booked(i)
		m.trace.Changed(i, c)
		return
	}
	m.lay(now, vs) // whether quotas count depends on what is booked everywhere
	m.trace.Look()
	for j := range m.fleet {
		m.pass.pass.Booked(j)
	}
}

// ramps says whether replicas that ramp up are held to their quotas: not where all have theirs, because then there is nobody
// to take the rest meanwhile.
func (m *machine) ramps(vs []view) bool {
	return slices.ContainsFunc(vs, func(v view) bool {
		quota := v.snap.QuotaSeats
		return v.snap.State.Routable() && (quota == nil || v.snap.Load.SeatsBooked+m.pending(v.ref.ID).seats < *quota)
	})
}

// stateOf maps a replica's state to what policies know. A replica that waits for its feed takes nothing yet: its quota is 0.
// One that ramps up is Ready to its actor and Warming, with its quota, to policies.
func stateOf(s fleet.State) policy.State {
	switch s {
	case fleet.Starting:
		return policy.Starting
	case fleet.Warming:
		return policy.Warming
	case fleet.Ready:
		return policy.Ready
	case fleet.Degraded:
		return policy.Degraded
	case fleet.Draining:
		return policy.Draining
	case fleet.Down:
		return policy.Down
	case fleet.Gone, fleet.NumStates:
	}
	return policy.Gone
}
