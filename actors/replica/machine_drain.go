package replica

import (
	"slices"
	"time"

	"plimsoll/actors/fleet"
)

// leaveAgain is how long after its legs were told to leave a draining replica tells those that are still there: there was
// no other place for them.
const leaveAgain = time.Second

// successorEvery is how often a drain that waits for a successor looks for it.
const successorEvery = 100 * time.Millisecond

// putOff is a drain that waits for a successor.
type putOff struct {
	order fleet.Drain
	again time.Time // when it is looked for
}

// remember has the actor's next instance know of an order that is not carried out; nil: there is none.
type remember struct{ order any }

func (remember) isEffect() {}

// ordered takes what an operator wants. It takes the place of a drain that waits.
func (m *machine) ordered(now time.Time, order any) {
	if m.putOff != nil {
		m.putOff = nil
		m.emit(remember{})
	}
	switch e := order.(type) {
	case fleet.Drain:
		if m.waitsFor(now, e) {
			m.putOff = &putOff{e, now.Add(successorEvery)}
			m.emit(remember{e})
			return
		}
		m.drain(now, e)
	case fleet.Undrain:
		m.undrain(now)
	}
}

// waitsFor says whether a drain is put off: while this is the last replica that serves, or is about to, and another one is on
// its way. A fleet whose replicas are replaced one by one always has one. It waits until the time at which what runs is to be
// moved, at most.
func (m *machine) waitsFor(now time.Time, e fleet.Drain) bool {
	late := e.Leave != nil && !now.Before(*e.Leave)
	if late || !m.state.Routable() && m.state != fleet.Warming {
		return false
	}
	serves := func(p fleet.Peer) bool { return p.Serves }
	rises := func(p fleet.Peer) bool { return p.Rises }
	return !slices.ContainsFunc(m.watch.peers, serves) && slices.ContainsFunc(m.watch.peers, rises)
}

// orderAgain looks again at a drain that waits.
func (m *machine) orderAgain(now time.Time) {
	if m.putOff != nil && !now.Before(m.putOff.again) {
		m.ordered(now, m.putOff.order)
	}
}

// drain takes nothing new. A second order may set another time, or let a replica go that was to stay.
func (m *machine) drain(now time.Time, e fleet.Drain) {
	switch m.state {
	case fleet.Gone:
		return
	case fleet.Starting, fleet.Down:
		if !e.Keep && !m.busy() { // who was left on a silent one, because he has no other place to go to, stays
			m.enter(now, fleet.Gone, "drained while down")
			return
		}
	case fleet.Warming, fleet.Ready, fleet.Degraded, fleet.Draining, fleet.NumStates:
	}
	m.leaveBy, m.keep = e.Leave, e.Keep
	m.enter(now, fleet.Draining, "asked to drain")
	m.drained(now)
}

// undrain takes a drain back. Whatever the replica was before, it must show anew that it serves.
func (m *machine) undrain(now time.Time) {
	if m.state != fleet.Draining || !m.keep {
		return
	}
	m.leaveBy, m.keep = nil, false
	if m.watch.phase == hung || m.failedProbes > 0 || !m.told {
		m.enter(now, fleet.Down, "asked back")
		m.emit(hurryProbe{})
		return
	}
	m.warm(now, "asked back")
}

// leave has what still runs on a draining replica go on elsewhere once its time is up.
func (m *machine) leave(now time.Time) {
	if at, wanted := m.nextLeave(); !wanted || now.Before(at) {
		return
	}
	again := now.Add(leaveAgain)
	m.leaveBy = &again
	m.emit(publish{})
	m.emit(evict{fleet.Leaving{Incarnation: m.life.incarnation, Why: "the replica is being drained"}})
}

func (m *machine) nextLeave() (time.Time, bool) {
	if m.state != fleet.Draining || m.leaveBy == nil || !m.busy() {
		return time.Time{}, false
	}
	return *m.leaveBy, true
}
