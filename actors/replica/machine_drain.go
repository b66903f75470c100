package replica

import (
	"time"

	"plimsoll/actors/fleet"
)

// leaveAgain is how long after its legs were told to leave a draining replica tells those that are still there: there was
// no other place for them.
const leaveAgain = time.Second

// drain takes nothing new. A second order may set another time, or let a replica go that was to stay.
func (m *machine) drain(now time.Time, e fleet.Drain) {
	switch m.state {
	case fleet.Gone:
		return
	case fleet.Starting, fleet.Down:
		if !e.Keep {
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
