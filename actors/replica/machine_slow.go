package replica

import (
	"fmt"
	"slices"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// This file tells slow from hung: how much patience a prompt is worth, and whether silence may have any consequence at all.

// computed notes the first token of a ticket.
func (m *machine) computed(now time.Time, t scoring.Ticket) {
	for i := range m.watch.queue {
		if p := &m.watch.queue[i]; p.ticket == t {
			m.life.known.done(now, p.at, p.work)
			return
		}
	}
}

// over says whether a prompt is not being computed any more.
func (m *machine) over(p *prefill) bool { return m.ledger.State(p.ticket) != ledger.Reserved }

// computing lists the prompts that the engine is computing: the oldest one and those that fit in a pass with it.
func (m *machine) computing() []prefill {
	w := &m.watch
	over := func(p prefill) bool { return m.over(&p) }
	for len(w.queue) > 0 && over(w.queue[0]) {
		w.queue = w.queue[1:]
	}
	if len(w.queue) > 2*m.ledger.Tickets(ledger.Reserved)+prefillSpare {
		w.queue = slices.DeleteFunc(w.queue, over)
	}
	tokens := scoring.Tokens(0)
	for i := range w.queue {
		if over(w.queue[i]) {
			continue
		}
		if tokens += w.queue[i].work.PromptTokens; tokens >= prefillBatch {
			return w.queue[:i+1]
		}
	}
	return w.queue
}

// prefilling is how long what the engine is computing is predicted to take. False: of some of it that is not known.
func (m *machine) prefilling() (took time.Duration, known bool) {
	queue := m.computing()
	for i := range queue {
		p := &queue[i]
		if m.over(p) {
			continue
		}
		one, known := m.takes(p)
		if !known {
			return 0, false
		}
		took += one
	}
	return took, true
}

// takes is how long a prompt takes: as its router predicts it, or as long as the one before it of that length took, if that was more.
func (m *machine) takes(p *prefill) (time.Duration, bool) {
	took, known := m.life.known.takes(p.work.PromptTokens)
	if p.took != nil {
		return max(took, *p.took), true
	}
	return took, known
}

// suspects lists the prompts that were being computed when the silence began: what the engine does with one of them may be why it
// says nothing. What came later waits behind it.
func (m *machine) suspects() []prefill {
	var list []prefill
	queue := m.computing()
	for i := range queue {
		if !m.over(&queue[i]) && !queue[i].at.After(m.watch.life) {
			list = append(list, queue[i])
		}
	}
	return list
}

// worth is how long the engine may be silent for the sake of what it is computing since the silence began; 0: it computes nothing.
func (m *machine) worth() (worth time.Duration) {
	took := time.Duration(0)
	list := m.suspects()
	for i := range list {
		one, known := m.takes(&list[i])
		if !known || !m.life.known.seen.Covers(list[i].work) {
			worth = max(worth, m.unknownFor(list[i].work))
		}
		took += one
	}
	return max(worth, prefillFactor*took)
}

// unknownFor is how long the engine may be silent at work that it was never seen at: as one of which nothing is known, or for as
// long as a first token is waited for anyway, while the process lives and nobody else would be quicker.
func (m *machine) unknownFor(w fleet.Work) time.Duration {
	if m.signs.silent || m.quicker(w) {
		return m.cfg.HangBlind
	}
	return max(m.cfg.HangBlind, m.cfg.FirstTokenTimeout)
}

// quicker says whether another replica that is well has been seen at such work.
func (m *machine) quicker(w fleet.Work) bool {
	for i := range m.watch.peers {
		if p := &m.watch.peers[i]; p.Well(m.watch.life) && p.Seen.Covers(w) {
			return true
		}
	}
	return false
}

// most says whether at least half of the model's replicas are well that could serve when the silence began, this one counted. Where
// fewer are, something has happened to all of them, or they are all that slow: silence takes no part of such a fleet out.
func (m *machine) most() bool {
	could, well := 1, 0
	for i := range m.watch.peers {
		p := &m.watch.peers[i]
		if !p.CouldServe(m.watch.life) {
			continue
		}
		could++
		if p.Well(m.watch.life) {
			well++
		}
	}
	return 2*well >= could
}

// excused says whether a silence beyond the bound is not even suspicious: nothing would follow from it but that new work is turned
// away, and what the engine is at is worth more patience.
func (m *machine) excused(now time.Time) bool {
	return !m.most() && now.Before(m.watch.life.Add(m.worth()))
}

// tooLate draws the conclusion of a canary that is late.
func (m *machine) tooLate(now time.Time) {
	w := &m.watch
	if m.most() && !now.Before(w.life.Add(m.worth())) {
		m.strike(now, hangs, fmt.Sprintf("it hangs: no token in %s, nor one for a canary", now.Sub(w.life).Round(time.Millisecond)))
		return
	}
	m.scatter(now)
	w.until = now.Add(m.cfg.CanaryRetry)
}

// scatter has those leave that have another place to go to, while the engine says nothing.
func (m *machine) scatter(now time.Time) {
	w := &m.watch
	if !m.busy() {
		return
	}
	e := evict{fleet.Leaving{Incarnation: m.life.incarnation, Hung: true, Why: silent}}
	if w.phase == hung && w.kind == breaks {
		m.emit(e)
		return
	}
	e.Silent = true
	for _, p := range m.suspects() {
		e.Suspects = append(e.Suspects, p.ticket)
	}
	if m.most() {
		e.Try = !now.Before(w.life.Add(m.worth()))
		m.emit(e)
		return
	}
	room := 0
	for i := range w.peers {
		if p := &w.peers[i]; p.Gave(w.life) {
			e.Only = append(e.Only, p.ID)
			room += p.Room
		}
	}
	running := m.ledger.In(ledger.Running)
	if e.Tickets = running[:min(room, len(running))]; len(e.Tickets) > 0 {
		m.emit(e)
	}
}

// restartBy sets when a process of ours is given up whose silence began at a time: it has given nothing for so long then, and a
// canary that was sent just now has had its time too.
func (m *machine) restartBy(silence, now time.Time) {
	at := silence.Add(m.cfg.HangRestart)
	if late := now.Add(m.canaryWait()); late.After(at) {
		at = late
	}
	m.watch.giveUp = &at
}

// outlast gives a process of ours up that has said nothing for too long.
func (m *machine) outlast(now time.Time) {
	if w := &m.watch; w.giveUp != nil && !now.Before(*w.giveUp) {
		w.giveUp = nil
		m.emit(giveUp{m.silence(now)})
	}
}

// silence is why a process is given up.
func (m *machine) silence(now time.Time) string {
	if m.watch.phase == hung {
		return m.lastError
	}
	return fmt.Sprintf("it hangs: no token in %s, nor one for a canary", now.Sub(m.watch.life).Round(time.Millisecond))
}
