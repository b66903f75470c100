package dst

import (
	"math"
	"slices"

	"plimsoll/actors/stream"
)

// shares are the checkers' account of what tenants were given while several of them waited in a class.
//
// In start-time fair queueing a tenant has a tag, what it has had in seconds ÷ weight, and the least tag goes first. As long as
// both wait without a break their tags move by what they are given, so the difference of the tags is what it was when the account
// began, less what one was given more than the other since. What it was then nobody tells; but whoever is taken first although the
// other could have taken the same place has no higher a tag, so every such turn bounds it from one side. Turns that leave nothing between
// the bounds were not fair. That the two differ by at most the sum of their largest charges ÷ weight, wherever nobody is passed
// over because he does not fit, follows from it.
type shares struct {
	pairs map[pairing]*balance
	lines map[standing][]standee // who waited after the last turn there
}

// standing is a tenant in a class.
type standing struct {
	rank   int
	tenant string
}

// standee is who waits, with what.
type standee struct {
	call *call
	sub  *stream.Submit
}

// pairing is two tenants in a class, in the order of their names.
type pairing struct {
	rank     int
	one, two string
}

// balance is what one of two tenants was given more than the other, in seconds ÷ weight, since both wait.
type balance struct {
	more     float64
	low, top float64 // what it was at most when the other's turn came, and at least when one's did
}

func newBalance() *balance { return &balance{low: math.Inf(-1), top: math.Inf(1)} }

// rounding is what sums of seconds in another order may differ by.
const rounding = 1e-6

// forget forgets what was counted of a tenant in a class.
func (s *shares) forget(rank int, tenant string) {
	for p := range s.pairs {
		if p.rank == rank && (p.one == tenant || p.two == tenant) {
			delete(s.pairs, p)
		}
	}
}

// take looks at a call that is taken from its tenant's line while others wait.
func (s *shares) take(w *world, c *call, rank int, at *offer) {
	if len(w.plan.tiers.tenants) < 2 {
		return
	}
	if s.pairs == nil {
		s.pairs, s.lines = map[pairing]*balance{}, map[standing][]standee{}
	}
	now := map[string][]standee{}
	for _, o := range w.calls {
		if o.inLine() && o.rank() == rank {
			now[o.req.Tenant] = append(now[o.req.Tenant], standee{o, o.turn.sub})
		}
	}
	for _, tenant := range w.plan.tiers.tenants {
		before := s.lines[standing{rank, tenant}]
		if !slices.ContainsFunc(now[tenant], func(o standee) bool { return slices.Contains(before, o) }) {
			s.forget(rank, tenant) // there may have been a break
		}
	}
	charge, known := w.router.m.Charge(c.handle)
	if !known {
		s.forget(rank, c.req.Tenant)
	} else {
		s.charge(w, c, rank, at, charge, now)
	}
	for _, tenant := range w.plan.tiers.tenants {
		s.lines[standing{rank, tenant}] = slices.DeleteFunc(now[tenant], func(o standee) bool { return o.call == c })
	}
}

func (s *shares) charge(w *world, c *call, rank int, at *offer, charge float64, now map[string][]standee) {
	weight, ok := w.plan.router.TenantWeights[c.req.Tenant]
	if !ok {
		weight = 1
	}
	for _, tenant := range w.plan.tiers.tenants {
		line := now[tenant]
		if tenant == c.req.Tenant || len(line) == 0 {
			continue
		}
		p, sign := pairing{rank, c.req.Tenant, tenant}, 1.0
		if tenant < c.req.Tenant {
			p.one, p.two, sign = tenant, c.req.Tenant, -1
		}
		b := s.pairs[p]
		if b == nil {
			b = newBalance()
			s.pairs[p] = b
		}
		if !slices.ContainsFunc(line, func(o standee) bool { return !at.suits(o.call) }) {
			w.queue.Turns++
			if sign > 0 {
				b.low = max(b.low, b.more)
			} else {
				b.top = min(b.top, b.more)
			}
			if b.low > b.top+rounding {
				w.violate(Share, "call %d of %s is taken before %s in class %d, which is not its turn: %g s ÷ weight apart", c.n, c.req.Tenant, tenant, rank, b.low-b.top)
			}
		}
		b.more += sign * charge / weight
	}
}
