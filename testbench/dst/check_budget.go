package dst

import (
	"time"

	"plimsoll/actors/stream"
	"plimsoll/engine"
)

// retrying is what the checkers know of a leg's part in the retry budget: a leg that has no token yet and tries another replica has a
// share, from when it asks for a place until its first token, its end, or its next failure. One that was shed while the budget is spent
// waits, and tries again every RetryPoll.
type retrying struct {
	asks   bool          // it is part of a submission that is not answered
	shares bool          // it has one
	parked time.Duration // since when it waits for one; none: it does not
}

// spent is how many shares there are, and how many there may be before who was shed has to wait.
func (w *world) spent() (shares, most int) {
	live := 0
	for _, c := range w.calls {
		if !c.m.Done() {
			live++
		}
		if c.ended {
			continue
		}
		if c.racing() {
			shares++
		}
		for _, l := range c.legs {
			if l.retry.shares {
				shares++
			}
		}
	}
	return shares, max(retriesMin, live*retriesPercent/100)
}

// retries looks at a submission: which legs try another replica, and whether they may.
func (c *call) retries(m *stream.Submit) {
	w := c.w
	for i := range m.Legs {
		l := c.legs[m.Legs[i].Leg]
		if l.retry.asks {
			continue // it is asked for anew, with all else
		}
		l.retry.asks = true
		if len(l.tries) == 0 || c.begun() && l.retry.parked == none {
			continue
		}
		l.retry.shares = false // that of its last attempt
		shares, most := w.spent()
		if last := l.tries[len(l.tries)-1].lost; last != nil && last.Kind == engine.Shed && shares >= most && !c.begun() {
			w.violate(Amplification, "call %d tries another replica after it was shed, and there are %d such of at most %d", c.n, shares, most)
		}
		l.retry.shares, l.retry.parked = true, none
	}
}

// parks follows every step: legs that wait for the budget.
func (c *call) parks() {
	for _, l := range c.legs {
		switch {
		case c.ended || l.finish != nil:
			l.retry = retrying{parked: none}
		case l.retry.asks || len(l.tries) == 0 || len(l.running()) > 0:
		case l.retry.parked == none:
			l.retry.shares, l.retry.parked, c.pollAt = false, c.w.now, c.w.now+c.w.plan.stream.RetryPoll
		}
	}
}

// parked is the first leg that waits for the budget; nil: none does.
func (c *call) parked() *leg {
	for _, l := range c.legs {
		if !c.ended && l.retry.parked != none {
			return l
		}
	}
	return nil
}

// polled requires of a timer's step that who waits for the budget goes on if that has room.
func (c *call) polled(step func()) {
	w := c.w
	l := c.parked()
	if l == nil || w.now < c.pollAt {
		step()
		return
	}
	c.pollAt = w.now + w.plan.stream.RetryPoll
	shares, most := w.spent()
	free := shares < most || c.begun()
	step()
	if free && (c.ended || !l.retry.asks) {
		w.violate(Hold, "call %d waits for the retry budget although it has room: %d of %d are taken", c.n, shares, most)
	}
}

// watchParked looks whether somebody waits for the budget for longer than he may.
func (c *call) watchParked() {
	w := c.w
	if l := c.parked(); l != nil && w.now-l.retry.parked > w.plan.stream.RetryWait+linePatience {
		w.violate(Hold, "call %d has waited for the retry budget for %s", c.n, w.now-l.retry.parked)
	}
}
