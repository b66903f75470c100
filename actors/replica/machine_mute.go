package replica

import (
	"time"

	"plimsoll/actors/fleet"
)

// deaf notes that an engine that served answers no probe any more. A process of ours is given up if that lasts.
func (m *machine) deaf(now time.Time) {
	giveUpAt := now.Add(m.cfg.HangGiveUp)
	m.mute = &giveUpAt
}

// muted gives up a process of ours that has answered nothing for HangGiveUp: no probe and, while it has something to do, no
// stream. Busy is not dead: under a load that lets every probe run out of time its streams go on.
func (m *machine) muted(now time.Time) {
	if m.mute == nil || now.Before(*m.mute) {
		return
	}
	if spoke := m.watch.life.Add(m.cfg.HangGiveUp); m.busy() && now.Before(spoke) {
		m.mute = &spoke
		return
	}
	m.mute = nil
	if m.state == fleet.Down {
		m.emit(giveUp{m.lastError})
	}
}
