package router

import "plimsoll/actors/stream"

// withdraw forgets a submission that was taken back.
func (m *machine) withdraw(w stream.Withdraw) {
	if e := m.queuedAs[w.Call]; e != nil && names(w, e.sub.Number) {
		m.leaveQueue(e)
		m.emit(tellCall{w.Call, stream.Withdrawn{Number: w.Number}})
		m.trace.Withdrawn(m.now, uint64(e.id))
		m.spare.entries.give(e)
		return
	}
	if by := m.byCall[w.Call]; by != nil && names(w, by.entry.sub.Number) {
		by.gone = true
		delete(m.byCall, w.Call)
		m.emit(tellCall{w.Call, stream.Withdrawn{Number: w.Number}})
		m.trace.Withdrawn(m.now, uint64(by.entry.id))
	}
}

// names says whether a withdrawal is about a submission; number 0 is about any.
func names(w stream.Withdraw, number uint64) bool { return w.Number == 0 || w.Number == number }
