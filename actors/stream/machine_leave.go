package stream

import (
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
)

// leave has the attempts on a replica go on elsewhere: as after a stall, but of a replica that is only to be emptied nothing
// bad is said.
func (m *machine) leave(now time.Time, e Leave) {
	for _, id := range sortedKeys(m.attempts) {
		a := m.attempts[id]
		here := a.place.Ref == e.Ref && a.place.Incarnation == e.Incarnation
		if !here || a.aborted || a.settled != nil || m.ended {
			continue
		}
		stalled := &engine.Failure{Kind: engine.Stalled, Message: e.Why}
		if e.Hung {
			m.emit(toReplica{e.Ref, fleet.AttemptFailed{Attempt: a.known(), Failure: stalled}})
		} else {
			m.emit(toReplica{e.Ref, fleet.Linger{Attempt: a.known()}})
		}
		m.stop(a, !e.Hung)
		why := emptied
		if e.Hung {
			why = failed
		}
		m.reroute(now, a, stalled, why)
	}
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
