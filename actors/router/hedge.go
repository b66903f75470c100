package router

import (
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
)

// hedge places a second attempt beside one that is slow, or declines it at once: it never waits, and as long as somebody does
// the room is theirs. What it takes is asked for once.
func (m *machine) hedge(now time.Time, e *entry, vs []view) {
	m.pump(now, vs)
	if m.waiting.Len() > 0 || !m.place(now, e, vs) {
		m.decline(e)
	}
}

// decline tells a call that it gets no hedge. That is no refusal of a request, and does not count as one.
func (m *machine) decline(e *entry) {
	m.emit(tellCall{e.sub.Call, stream.Rejected{
		Number: e.sub.Number, Fault: fault.New(fault.Contended, "nobody can take a second attempt at once"),
	}})
	m.trace.Rejected(m.now, subjectOf(e, e.sub.Legs[0].Leg), e.tokens(), "declined")
	m.spare.entries.give(e)
}
