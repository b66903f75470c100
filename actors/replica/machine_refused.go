package replica

import (
	"fmt"
	"slices"
	"time"

	"plimsoll/actors/fleet"
)

// refusalsMax is how many requests that have nothing in common an engine must refuse in a row, as if it refused us, before it counts as
// one that does.
const refusalsMax = 3

// refused takes an engine's 401, 403, 404, 405, 501 or redirect. It may be that request's alone: a filter before the engine dislikes
// its text, an adapter is gone. The probe, which has our key, tells whether it holds for all; so do refusals of requests that have
// nothing in common, because a probe may ask what needs no key.
func (m *machine) refused(now time.Time, e fleet.AttemptFailed) {
	if e.Failure.Missing && e.Of.LoRA != "" {
		m.lacks(now, e.Of.LoRA)
		return
	}
	m.refusals.add(e.Of, sameHead)
	if len(m.refusals) >= refusalsMax && m.refusals.spread() {
		n := len(m.refusals)
		m.refusals = nil
		m.distrust(now, fmt.Sprintf("it refused %d requests in a row that have nothing in common: %s", n, e.Failure))
		return
	}
	m.emit(hurryProbe{})
}

// distrust takes the replica out of service because it refuses us. Its probes may succeed all the same, so it is tried
// again after a time that doubles.
func (m *machine) distrust(now time.Time, why string) {
	m.lastError = why
	if m.state != fleet.Ready && m.state != fleet.Warming {
		return
	}
	m.distrusts++
	m.distrustedTo = now.Add(doubled(m.cfg.DegradedFirst, m.cfg.DegradedCap, m.distrusts))
	m.enter(now, fleet.Degraded, why)
}

// served takes a sign that the engine takes requests.
func (m *machine) served() { m.sheds, m.distrusts, m.refusals = 0, 0, nil }

// lack is an adapter that the engine lists and does not have.
type lack struct {
	times int
	until time.Time // it is offered again then
	off   bool      // it is not offered
}

// lacks takes an adapter off the list: the engine knows none of that name, whatever it lists. It is put back once the engine has
// stopped listing it, for what is listed afterwards is another one; else after a time that doubles.
func (m *machine) lacks(now time.Time, adapter string) {
	l := m.lacking[adapter]
	switch {
	case l.off:
		return // it was asked before
	case now.Sub(l.until) > m.cfg.DegradedCap:
		l.times = 0
	}
	l.times++
	l.off, l.until = true, now.Add(doubled(m.cfg.DegradedFirst, m.cfg.DegradedCap, l.times))
	if m.lacking == nil {
		m.lacking = map[string]lack{}
	}
	m.lacking[adapter] = l
	m.emit(alarm{fmt.Sprintf("its engine lists the adapter %q, and does not know it when it is asked for it", adapter)})
	m.offer()
	m.emit(publish{})
}

// listed takes the adapters that the engine lists.
func (m *machine) listed(adapters []string) {
	m.listing = adapters
	for adapter := range m.lacking {
		if !slices.Contains(adapters, adapter) {
			delete(m.lacking, adapter)
		}
	}
	m.offer()
}

// offer works out which adapters requests may name.
func (m *machine) offer() {
	m.adapters = m.listing
	if len(m.lacking) > 0 {
		m.adapters = slices.DeleteFunc(slices.Clone(m.listing), func(adapter string) bool { return m.lacking[adapter].off })
	}
}

// offerAgain puts adapters back on the list whose time has come.
func (m *machine) offerAgain(now time.Time) {
	back := false
	for adapter, l := range m.lacking {
		if l.off && !now.Before(l.until) {
			l.off, back = false, true
			m.lacking[adapter] = l
		}
	}
	if back {
		m.offer()
		m.emit(publish{room: true})
	}
}

// nextOffer is when an adapter is put back on the list.
func (m *machine) nextOffer() (at time.Time, ok bool) {
	for _, l := range m.lacking {
		if l.off && (!ok || l.until.Before(at)) {
			at, ok = l.until, true
		}
	}
	return at, ok
}

// shed lets the replica cool down: as long as it asks for, within bounds, else longer each time. What it sheds while it cools was on
// its way before and tells nothing new.
func (m *machine) shed(now time.Time, e fleet.AttemptFailed) {
	if !now.Before(m.coolingUntil) {
		m.sheds++
	}
	wait, why := e.Failure.RetryAfter, e.Failure.Error()
	switch {
	case wait == 0:
		wait = doubled(m.cfg.ShedFirst, m.cfg.ShedCap, m.sheds)
	case wait > m.cfg.ShedMost:
		why += fmt.Sprintf(", and asked to be left alone for %s: %s is the most", wait, m.cfg.ShedMost)
		wait = m.cfg.ShedMost
	}
	if until := now.Add(wait); until.After(m.coolingUntil) {
		m.coolingUntil, m.coolingWhy = until, why
	}
}

// cooled forgets that it shed a request.
func (m *machine) cooled() { m.coolingUntil, m.coolingWhy = time.Time{}, "" }

// doubled is the n-th of a row of times, the first of which is first and each the double of the one before, up to most.
func doubled(first, most time.Duration, n int) time.Duration {
	for ; n > 1 && first < most; n-- {
		first *= 2
	}
	return min(first, most)
}
