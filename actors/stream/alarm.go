package stream

import "time"

// alarm is a call's one timer. Deadlines move on with every token, so it is left to ring early and set again then, rather
// than moved each time.
type alarm struct {
	timer *time.Timer
	at    *time.Time // when it rings; nil: it does not
}

func newAlarm() *alarm {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &alarm{timer: timer}
}

// set has it ring at a time or before it, if wanted.
func (a *alarm) set(at time.Time, wanted bool) {
	if !wanted || a.at != nil && !at.Before(*a.at) {
		return
	}
	rings := at // a copy, so that not every call's argument escapes
	a.at = &rings
	a.timer.Reset(max(0, time.Until(at)))
}

// rings is the channel on which it rings; who receives calls rung.
func (a *alarm) rings() <-chan time.Time { return a.timer.C }

// rung notes that it has rung.
func (a *alarm) rung() { a.at = nil }

func (a *alarm) stop() { a.timer.Stop() }
