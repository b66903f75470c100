package supervise

import "time"

// Soon is how long to set a timer for that is due in d: never 0. In the virtual time of tests (testing/synctest, Go 1.26) a
// timer that is due at once is run by whoever sets it, and one with a channel by whoever looks at that; two at a time
// share what the race detector knows of a goroutine, and it crashes.
func Soon(d time.Duration) time.Duration { return max(time.Nanosecond, d) }

// Alarm is the one timer of an actor whose machine says when it wants to be called next. The actor's goroutine owns it.
type Alarm struct {
	timer *time.Timer
	at    time.Time
}

// Set has ring called at a time, in place of what was set before; on false sets nothing. ring runs on a goroutine of the
// timer and must not block: it sends the actor a message.
func (a *Alarm) Set(at time.Time, on bool, ring func()) {
	if a.timer != nil {
		if on && at.Equal(a.at) {
			return
		}
		a.Stop()
	}
	if !on {
		return
	}
	a.at = at
	a.timer = time.AfterFunc(Soon(time.Until(at)), ring)
}

// Rung says that ring's message has come: what is set next is new, even if it is for the same time.
func (a *Alarm) Rung() { a.timer = nil }

// Stop sets nothing.
func (a *Alarm) Stop() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}
