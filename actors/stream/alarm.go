package stream

import (
	"time"

	"plimsoll/actors/supervise"
)

// alarm is a call's one timer. Deadlines move on with every token, so it is left to ring early and set again then, rather
// than moved each time. It is never set to ring at once, and rings through a function rather than a channel of the timer,
// for the reason that [supervise.Soon] has.
type alarm struct {
	timer *time.Timer
	ring  chan struct{} // capacity 1
	at    *time.Time    // when it rings; nil: it does not
}

func newAlarm() *alarm {
	a := &alarm{ring: make(chan struct{}, 1)}
	a.timer = time.AfterFunc(time.Hour, func() {
		select {
		case a.ring <- struct{}{}:
		default:
		}
	})
	a.timer.Stop()
	return a
}

// set has it ring at a time or before it, if wanted.
func (a *alarm) set(at time.Time, wanted bool) {
	if !wanted || a.at != nil && !at.Before(*a.at) {
		return
	}
	rings := at // a copy, so that not every call's argument escapes
	a.at = &rings
	a.timer.Reset(supervise.Soon(time.Until(at)))
}

// rings is the channel on which it rings; who receives calls rung.
func (a *alarm) rings() <-chan struct{} { return a.ring }

// rung notes that it has rung.
func (a *alarm) rung() { a.at = nil }

func (a *alarm) stop() { a.timer.Stop() }
