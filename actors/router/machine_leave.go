package router

import "plimsoll/actors/stream"

// withdraw forgets a submission that was taken back, and answers in any case.
func (m *machine) withdraw(w stream.Withdraw) {
	if e := m.queuedAs[w.Call]; e != nil && names(w.Number, e.sub.Number) {
		m.leaveQueue(e)
		m.trace.Withdrawn(m.now, uint64(e.id))
		m.spare.entries.give(e)
	} else if by := m.byCall[w.Call]; by != nil && names(w.Number, by.entry.sub.Number) {
		by.gone = true
		delete(m.byCall, w.Call)
		m.trace.Withdrawn(m.now, uint64(by.entry.id))
	}
	m.emit(tellCall{w.Call, stream.Withdrawn{Number: w.Number}})
}

// inquire says whether a submission is known.
func (m *machine) inquire(q stream.Inquire) {
	if e := m.queuedAs[q.Call]; e != nil && e.sub.Number == q.Number {
		m.emit(tellCall{q.Call, stream.Known{Number: q.Number}})
		return
	}
	if by := m.byCall[q.Call]; by != nil && by.entry.sub.Number == q.Number {
		m.emit(tellCall{q.Call, stream.Known{Number: q.Number}})
		return
	}
	m.emit(tellCall{q.Call, stream.Lost{Number: q.Number}})
}

// names says whether a withdrawal is about a submission; number 0 is about any.
func names(asked, number uint64) bool { return asked == 0 || asked == number }
