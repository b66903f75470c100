package router

import (
	"slices"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/scoring/cost"
	"plimsoll/scoring/policy"
	"plimsoll/scoring/queue"
	"plimsoll/scoring/slo"
)

// codeSLO is the error code of a request that would not be answered as fast as it has to be.
const codeSLO = "slo_not_met"

// expectedMax bounds how many first tokens that were predicted are waited for.
const expectedMax = 4096

// expected is a first token that was predicted.
type expected struct {
	at      time.Time // of the prediction
	seconds float64   // until it comes
}

// aims is what the router knows of the SLOs of requests: it predicts their first tokens and hears when they come.
type aims struct {
	errors   slo.Errors
	expected map[scoring.Ticket]expected
	replicas []slo.Replica // scratch
}

// aims says whether an entry is refused, or shed while it waits, because of an SLO: not one that was let in before and whose
// attempt failed.
func (e *entry) aims() bool { return e.ttft() != nil && e.fresh() }

// fresh says whether nothing of its request was let in before.
func (e *entry) fresh() bool { return !e.sub.Again && !e.sub.Begun && !e.sub.Hedge }

func (e *entry) ttft() *time.Duration { return e.sub.Call.Request.SLO.TTFT }

// lastCall is when no first token can come in time any more, if all goes as fast as it can.
func (e *entry) lastCall(least float64) time.Time {
	return e.sub.Arrival.Add(*e.ttft() - seconds(least))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// asStanding lists the replicas that can take an entry now, or when there is room.
func (m *machine) asStanding(now time.Time, e *entry, vs []view) []slo.Replica {
	m.ready(now, vs)
	list := slices.Grow(m.aims.replicas[:0], len(vs))
	places := make([]int, len(vs)) // in the list, and one more
	for n, ask := range e.legs() {
		_, d, fits := m.prepare(now, e, ask, vs, nil)
		for i := range m.fleet {
			if n == 0 && m.pass.pass.Eligible(d, fits, i).LacksOnlyRoom() {
				list = append(list, standingOf(now, &m.fleet[i], d))
				places[i] = len(list)
			}
			if places[i] == 0 {
				continue
			}
			r := &list[places[i]-1]
			r.Blocks.Need += float64(fits[i].NeedBlocks)
			r.Seats.Need++
			hit := max(0, min(fits[i].OverlapTokens, d.PromptTokens-1))
			if n == 0 || ask.Prompt != e.legs()[n-1].Prompt {
				r.PrefillSeconds += m.fleet[i].Rates.PrefillSeconds(d.PromptTokens-hit, hit)
			}
		}
	}
	m.aims.replicas = list
	return list
}

// standingOf is a candidate as the prediction sees it, without what a request needs there but for a step.
func standingOf(now time.Time, c *policy.Candidate, d *policy.Demand) slo.Replica {
	at := cost.ReplicaAt(now, &c.Load, c.Pending, c.Rates)
	step := at.StepSeconds
	seats := c.Load.UsableSeats()
	if c.State == policy.Warming {
		seats = min(seats, c.WarmingSeats)
	}
	usable, booked := c.Load.UsableBlocks(), c.Load.BookedBlocks+c.PendingBlocks
	if c.Load.Overdrawn() {
		booked += c.Load.OverdraftBlocks
	}
	// Those there are at half of their answers, on average, unless they have outgrown what was expected; while prompts are
	// computed they get on by that much slower.
	tokens := float64(d.OutputTokens)
	if at.Residents > 0 {
		tokens = max(tokens/2, 2*at.RemainingEach)
	}
	return slo.Replica{
		WaitSeconds: at.WaitSeconds, PrefillSeconds: at.PassSeconds(),
		Blocks:      slo.Stock{Usable: float64(usable), Free: float64(usable - booked)},
		Seats:       slo.Stock{Usable: float64(seats), Free: float64(seats - c.Load.SeatsBooked - c.PendingSeats)},
		LifeSeconds: tokens * step / (1 - min(c.Busy, busyMost)),
	}
}

// busyMost bounds how much slower answers are taken to get on for the prompts among them.
const busyMost = 0.9

// ahead is what stands before an entry that waits.
func (m *machine) ahead(now time.Time, e *entry) slo.Ahead {
	var sum slo.Ahead
	m.waiting.Scan(now, m.waiting.Len()+1, func(q queue.Entry[*entry]) queue.Visit {
		if q.ID == e.id {
			return queue.Stop
		}
		sum = sum.Plus(q.Item.takes())
		return queue.Keep
	})
	return sum
}

// hopeless predicts the first token of an entry that comes now, and turns one away that would get it too late on every replica.
func (m *machine) hopeless(now time.Time, e *entry, ahead slo.Ahead, vs []view) *turned {
	p, ok := slo.Predict(m.asStanding(now, e, vs), ahead)
	if !ok {
		return nil // nobody serves it now: the policy says what that means
	}
	e.predictedAt, e.predicted = now, p.FirstSeconds
	first := seconds(p.FirstSeconds * m.aims.errors.Factor(now, p.FirstSeconds))
	first += now.Sub(e.sub.Arrival)
	if first <= *e.ttft() {
		return nil
	}
	away := m.missed(fault.SLOFirstToken, p.RoomSeconds, "the first token is expected after %s (8 of 10 come by then), but it has to come within %s; try again later",
		rounded(first), *e.ttft())
	m.traceTurned(now, e, policy.TooLate, away.fault.RetryAfter, vs)
	return away
}

// tooSlow turns an entry away whose answer would come too slowly on every replica that serves.
func (m *machine) tooSlow(now time.Time, e *entry, vs []view) *turned {
	most := e.sub.Call.Request.SLO.TPOT
	if most == nil || !e.fresh() {
		return nil
	}
	m.ready(now, vs)
	_, d, fits := m.prepare(now, e, e.legs()[0], vs, nil)
	least, life := time.Duration(-1), 0.0
	for i := range m.fleet {
		c := &m.fleet[i]
		if !m.pass.pass.Eligible(d, fits, i).LacksOnlyRoom() {
			continue
		}
		at := cost.ReplicaAt(now, &c.Load, c.Pending, c.Rates)
		step := seconds((at.StepSeconds + c.Rates.JoinSeconds(d.PromptTokens)) / (1 - min(c.Busy, busyMost)))
		if least < 0 || step < least {
			least, life = step, standingOf(now, c, d).LifeSeconds
		}
	}
	if least <= *most {
		return nil
	}
	away := m.missed(fault.SLOPace, life, "a token is expected every %s, but one has to come every %s; try again later", rounded(least), *most)
	m.traceTurned(now, e, policy.TooSlow, away.fault.RetryAfter, vs)
	return away
}

// tooLate turns an entry away that goes to a replica, or waits on, but would get its first token too late by what is predicted of
// those that are there alone. least is that, in seconds.
func (m *machine) tooLate(now time.Time, e *entry, least float64, vs []view) *turned {
	first := now.Sub(e.sub.Arrival) + seconds(least)
	if first <= *e.ttft() {
		return nil
	}
	if e.predicted > 0 && !e.supposed {
		m.aims.errors.Observe(now, e.predicted, now.Sub(e.predictedAt).Seconds()+least)
	}
	cause := fault.SLOFirstToken
	if now.After(e.came) {
		cause = fault.SLOShed
	}
	away := m.missed(cause, m.roomSeconds(now, e, vs), "it has waited for %s and its first token would come after %s, but has to come within %s; try again later",
		rounded(now.Sub(e.sub.Arrival)), rounded(first), *e.ttft())
	m.traceTurned(now, e, policy.TooLate, away.fault.RetryAfter, vs)
	return away
}

// missed turns a request away whose SLO cannot be met.
func (m *machine) missed(cause fault.Cause, room float64, format string, args ...any) *turned {
	f := contended(m.jittered(room), format, args...)
	f.Code = codeSLO
	return &turned{cause, f}
}

// firstIn is how long an entry's first token takes, in seconds, if it goes to the replica with that place in the fleet now.
func (m *machine) firstIn(now time.Time, d *policy.Demand, i int) float64 {
	c := &m.fleet[i]
	at := cost.ReplicaAt(now, &c.Load, c.Pending, c.Rates)
	return at.FirstSeconds(&cost.Demand{PromptTokens: d.PromptTokens}, m.scratch.fits[i].OverlapTokens)
}

// leastFirst is how long a waiting entry's first token takes at least, wherever it goes.
func (m *machine) leastFirst(now time.Time, e *entry, vs []view) float64 {
	least, found := 0.0, false
	for _, r := range m.asStanding(now, e, vs) {
		if first := r.WaitSeconds + r.PrefillSeconds; !found || first < least {
			least, found = first, true
		}
	}
	return least
}

// recheckSLO is how long an entry waits at least until it is looked at again whether it can still be in time.
const recheckSLO = 10 * time.Millisecond

// shed turns a waiting entry away that cannot be in time any more, or sets when it is looked at again.
func (m *machine) shed(now time.Time, e *entry, vs []view) {
	least := m.leastFirst(now, e, vs)
	away := m.tooLate(now, e, least, vs)
	if away == nil {
		m.deadlines.remove(e.due)
		e.deadline = m.until(e, least)
		if soonest := now.Add(recheckSLO); e.deadline.Before(soonest) {
			e.deadline = soonest
		}
		m.deadlines.push(e)
		return
	}
	m.leaveQueue(e)
	m.reject(e, away)
}

// until is when an entry's place in the queue is to be looked at: when its time is up, or it may be too late for its SLO.
func (m *machine) until(e *entry, least float64) time.Time {
	if last := e.lastCall(least); last.Before(e.patience) {
		return last
	}
	return e.patience
}

// expect notes what was predicted of a request that was placed.
func (m *machine) expect(e *entry, t scoring.Ticket, now time.Time) {
	if e.predicted <= 0 || e.sub.Again {
		return
	}
	if len(m.aims.expected) >= expectedMax { // tickets of which nothing was heard
		for t, x := range m.aims.expected {
			if now.Sub(x.at) > expectedWait {
				delete(m.aims.expected, t)
			}
		}
	}
	if len(m.aims.expected) < expectedMax {
		m.aims.expected[t] = expected{e.predictedAt, e.predicted}
	}
}

// expectedWait is how long a first token is waited for before its ticket counts as lost.
const expectedWait = 2 * time.Minute

// came learns from a first token.
func (m *machine) came(now time.Time, f *stream.FirstToken) {
	if x, ok := m.aims.expected[f.Ticket]; ok {
		delete(m.aims.expected, f.Ticket)
		m.aims.errors.Observe(now, x.seconds, now.Sub(x.at).Seconds())
	}
}

// roomSeconds is how long it takes until there is room for an entry behind all that waits.
func (m *machine) roomSeconds(now time.Time, e *entry, vs []view) float64 {
	p, _ := slo.Predict(m.asStanding(now, e, vs), m.queued)
	return p.RoomSeconds
}

// rounded is a time as it is said.
func rounded(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(10 * time.Millisecond)
}
