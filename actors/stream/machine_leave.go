package stream

import (
	"slices"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring"
)

// leave has the attempts on a replica go on elsewhere: as after a stall, but of a replica that is only to be emptied nothing
// bad is said. An attempt that would not get on by it stays where a replica is only silent: it may be slow.
func (m *machine) leave(now time.Time, e Leave) {
	for _, id := range sortedKeys(m.attempts) {
		a := m.attempts[id]
		here := a.place.Ref == e.Ref && a.place.Incarnation == e.Incarnation
		if !here || a.aborted || a.settled != nil || m.ended {
			continue
		}
		if e.Hung && !m.mayLeave(a, &e.Leaving) {
			continue
		}
		a.leg.only = e.Only
		stalled := &engine.Failure{Kind: engine.Stalled, Message: e.Why}
		if e.Hung {
			m.emit(toReplica{e.Ref, fleet.AttemptFailed{Attempt: a.known(), Failure: stalled}})
		} else {
			m.emit(toReplica{e.Ref, fleet.Linger{Attempt: a.known()}})
		}
		m.stop(a, !e.Hung)
		why := emptied
		switch {
		case e.Silent && !suspects(a, &e.Leaving):
			why = silenced
		case e.Hung:
			why = failed
		}
		m.reroute(now, a, stalled, why)
	}
}

// mayLeave says whether an attempt may be taken away from a replica that is silent. It may not if its answer could only fail by that.
// One that may be the cause of the silence is tried on one other replica, and if that falls silent too it puts no further one at risk:
// it waits there, until its own time is up.
func (m *machine) mayLeave(a *attempt, e *fleet.Leaving) bool {
	l, ticket := a.leg, a.place.Claim.Ticket
	if e.Tickets != nil && !slices.Contains(e.Tickets, ticket) {
		return false
	}
	suspect := suspects(a, e)
	if suspect && l.silenced > 0 {
		l.twice = l.twice || e.Try
		return false
	}
	nowhere := len(e.Only) > 0 && !slices.ContainsFunc(e.Only, func(id scoring.ReplicaID) bool {
		return !slices.ContainsFunc(l.excluded, func(x Exclusion) bool { return x.Replica == id })
	})
	how, _ := m.way(l)
	fruitless := a.produced == 0 && l.produced > 0 && l.fruitless+1 >= m.cfg.FruitlessMax
	if suspect && !e.Try || nowhere || how == nohow || l.attempts >= m.cfg.AttemptsMax || fruitless {
		return false
	}
	if suspect {
		l.silenced++
	}
	return true
}

// suspects says whether an attempt may be the cause of a replica's silence.
func suspects(a *attempt, e *fleet.Leaving) bool {
	return a.produced == 0 && slices.Contains(e.Suspects, a.place.Claim.Ticket)
}

// summary lists the answers as they are at the end; none if the prompts never became known.
func (m *machine) summary() []LegSummary {
	if len(m.prompts) == 0 {
		return nil
	}
	list := make([]LegSummary, len(m.legs))
	for i, l := range m.legs {
		p := &m.prompts[l.prompt]
		list[i] = LegSummary{PromptTokens: p.Tokens(), OutputTokens: l.produced}
		if !p.Raw && !l.wordless {
			list[i].Prompt, list[i].Answer = p.IDs, l.known()
		}
	}
	return list
}
