package dst

import (
	"math/rand/v2"
	"slices"
	"time"

	"plimsoll/actors/stream"
)

// drawHedging draws whether a run hedges, and when. It has a generator of its own: what it draws changes nothing else.
func drawHedging(seed uint64) float64 {
	rng := rand.New(rand.NewPCG(seed, 0xd1b54a32d192ed03))
	if rng.Float64() >= 0.3 {
		return 0
	}
	return []float64{1, 1, 1.5, 3}[rng.IntN(4)]
}

// race is what the checkers know of a call's hedge.
type race struct {
	number  uint64        // of the submission that asks for it; 0: none does
	taken   time.Duration // when the router heard of it
	attempt *attempt      // that came of it; nil: none
	placing bool          // the message in hand places it
	over    bool          // something has come
}

// asksHedge looks whether a second attempt may be asked for.
func (c *call) asksHedge(m *stream.Submit) {
	w := c.w
	if w.plan.stream.HedgeAfter == 0 || c.race.number != 0 || len(c.legs) != 1 || c.begun() || len(m.Legs) != 1 {
		w.violate(Amplification, "call %d may not hedge, or not again", c.n)
	}
	if n := len(c.legs[0].running()); n != 1 {
		w.violate(Amplification, "call %d asks for a hedge while it has %d attempts", c.n, n)
	}
	c.race.number = m.Number
	racing, live := 0, 0
	for _, o := range w.calls {
		if !o.m.Done() {
			live++
		}
		if o.racing() {
			racing++
		}
	}
	if most := max(retriesMin, live*retriesPercent/100); racing > most {
		w.violate(Amplification, "call %d asks for hedge %d at once, and %d may be where %d requests live", c.n, racing, most, live)
	}
}

// The retry budget of semantics 4.
const (
	retriesMin     = 3
	retriesPercent = 20
)

// racing says whether a hedge of the call is asked for or runs, and nothing has come yet.
func (c *call) racing() bool {
	if c.race.number == 0 || c.ended || c.begun() {
		return false
	}
	a := c.race.attempt
	return c.hedgeAsked() || a != nil && !a.returned && !a.cancelled
}

// hedgeAsked says whether the router owes an answer to the hedge.
func (c *call) hedgeAsked() bool { return c.asked != 0 && c.asked == c.race.number }

// queued says whether the call asks for a place that it needs.
func (c *call) queued() bool { return c.asked != 0 && c.asked != c.race.number }

// running are the attempts of a leg that count.
func (l *leg) running() []*attempt {
	var out []*attempt
	for _, a := range l.tries {
		if !a.returned && !a.cancelled {
			out = append(out, a)
		}
	}
	return out
}

// current is the last attempt of a leg that counts, or the last one; nil if it has had none.
func (l *leg) current() *attempt {
	for _, a := range slices.Backward(l.tries) {
		if !a.returned && !a.cancelled {
			return a
		}
	}
	if n := len(l.tries); n > 0 {
		return l.tries[n-1]
	}
	return nil
}

// checkRivals looks at the attempts of a leg beside one that begins.
func (w *world) checkRivals(a *attempt, l *leg) {
	c := a.call
	rivals := slices.DeleteFunc(l.running(), func(o *attempt) bool { return o == a })
	hedge := c.race.placing && c.race.attempt == nil
	if hedge {
		c.race.attempt = a
		w.hedges++
	}
	for _, o := range rivals {
		switch {
		case !hedge || len(l.got) > 0 || len(rivals) > 1:
			w.violate(Amplification, "call %d: leg %d begins an attempt while its attempt %d runs", c.n, a.place.Leg, o.nth)
		case (&failedOn{o.host, o.place.Incarnation, true}).keeps(w, a.host, a.place.Incarnation):
			w.violate(Exclusion, "call %d: its hedge goes to %s, which its attempt %d waits for", c.n, a.host.id, o.nth)
		}
	}
}

// checkHedgePlaced looks whether the router has thought of a hedge once, when it heard of it.
func (w *world) checkHedgePlaced(c *call, m stream.Placed) {
	if m.Number != c.race.number {
		return
	}
	for i := range m.Placements {
		if at := w.ticket(m.Placements[i].Claim.Ticket.Number).reserved; at != c.race.taken {
			w.violate(Hold, "call %d is given a place for its hedge that was looked for %s after it was asked for", c.n, at-c.race.taken)
		}
	}
}

// checkRace requires that an answer which has begun, or is over, goes on alone.
func (w *world) checkRace(c *call) {
	if c.race.attempt == nil || c.race.over {
		return
	}
	l := c.legs[0]
	if len(l.got) == 0 && l.finish == nil {
		return
	}
	c.race.over = true
	running := l.running()
	if len(running) > 1 {
		w.violate(Amplification, "call %d: attempts %d and %d go on after the first token", c.n, running[0].id, running[1].id)
	}
	if len(c.race.attempt.got) > 0 {
		w.hedgesWon++
	}
}

// hedgePatience is how long the router may think of a hedge: a replica's answer, and what is late on its way.
const hedgePatience = 2 * time.Second

// watchHedge looks whether a hedge is made to wait.
func (w *world) watchHedge(c *call) {
	if bound := w.plan.router.ReserveWait + hedgePatience; c.hedgeAsked() && w.now-c.waited > bound {
		w.violate(Hold, "call %d has waited %s for its hedge, which is placed at once or not at all", c.n, w.now-c.waited)
	}
}
