package replica

import (
	"time"

	"plimsoll/actors/fleet"
)

// deaf notes that an engine that served answers no probe any more. A process of ours is given up if that lasts: for as long as one
// that hangs where it was only silent.
func (m *machine) deaf(now time.Time, silent bool) {
	m.muteFor = m.cfg.HangGiveUp
	if silent {
		m.muteFor = m.cfg.HangRestart
	}
	giveUpAt := now.Add(m.muteFor)
	m.mute = &giveUpAt
}

// muted gives up a process of ours that has answered nothing for so long: no probe and, while it has something to do, no
// stream. Busy is not dead: under a load that lets every probe run out of time its streams go on.
func (m *machine) muted(now time.Time) {
	if m.mute == nil || now.Before(*m.mute) {
		return
	}
	if spoke := m.watch.life.Add(m.muteFor); m.busy() && now.Before(spoke) {
		m.mute = &spoke
		return
	}
	m.mute = nil
	if m.state == fleet.Down {
		m.emit(giveUp{m.lastError})
	}
}
