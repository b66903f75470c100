package replica

import (
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// phase is how far the suspicion of a hang has come.
type phase uint8

const (
	calm    phase = iota // it progresses, or has nothing to do
	doubt                // its streams are silent: its step counter is asked
	suspect              // silent, and the counter stands still: nothing new goes there, a canary is under way
	hung                 // the canary was late, or attempts only break: its legs leave, and a canary must bring it back
)

// watch is what the machine knows of the engine's progress.
type watch struct {
	phase phase
	until time.Time // of doubt, suspicion, or of the next try to bring it back
	next  time.Time // when a suspected one is looked at again
	life  time.Time // the last sign of life while there was something to do
	// showed is when its present work began, or it showed that it lives in another way than by a token of a stream.
	showed time.Time
	// unheard is how long it had been silent when the last request that it had left it for being late: what is granted next
	// takes over from there, or one that hangs would never be found, whose requests all go away in time.
	unheard time.Duration

	pace    pace
	held    [fleet.PaceBuckets]uint32 // gaps of a suspicion: learned if it was none
	steps   *sample                   // the engine's step counter when it was told last; nil: it does not tell
	hurried time.Time                 // of which silence a probe was asked for ahead of time
	queue   []prefill                 // of the tickets without a first token, in the order of their grants

	peers     []fleet.Peer // the other replicas of the model, as of the last beats
	kind      strikeKind   // hung: why
	canary    *uint64      // the one under way
	canaries  uint64
	asked     time.Time      // when that was sent
	dropped   bool           // the one under way was cancelled
	notBefore time.Time      // hung: a strike keeps it out until then
	giveUp    *time.Time     // suspected or hung: a process of ours is given up then; nil: it was
	broken    unlikes        // requests whose attempts broke, without one that finished between them
	breaksOf  scoring.Ticket // no ticket up to this one tells of another break
}

// sample is a step counter at a time.
type sample struct {
	steps uint64
	at    time.Time
}

// prefill is what a ticket's prompt is predicted to take.
type prefill struct {
	ticket scoring.Ticket
	at     time.Time // of its grant
	work   fleet.Work
	took   *time.Duration // as the router predicts it; nil: it does not know how fast this replica is
}

const (
	// prefillBatch is how many prompt tokens an engine computes in one pass at most, as far as its default goes: prompts of
	// one pass have their first tokens at its end.
	prefillBatch = 8192
	// stepFactor and prefillFactor are how often longer than its step and its prefill a silence must be (semantics 4).
	stepFactor    = 8
	canaryFactor  = 4 // likewise, for a canary: it waits for the prefill under way and needs a step
	prefillFactor = 2
	// prefillSpare is how many tickets that are over may stand among those that are not.
	prefillSpare = 64
	// watchEvery is how often a suspected replica is looked at.
	watchEvery = 50 * time.Millisecond
)

// silent is why attempts leave a replica that hangs.
const silent = "the engine made no progress"

// busy says whether the engine has anything to do that it could be seen to do.
func (m *machine) busy() bool { return m.working() > 0 }

// working is how many tickets the engine works on.
func (m *machine) working() int {
	return m.ledger.Tickets(ledger.Reserved) + m.ledger.Tickets(ledger.Running)
}

// bound is how long the replica may be silent before it is suspected.
func (m *machine) bound() time.Duration {
	took, known := m.prefilling()
	if !known {
		return max(m.stepping(stepFactor), m.cfg.HangBlind)
	}
	return max(m.stepping(stepFactor), prefillFactor*took)
}

// stepping is how long the engine may be silent for a number of its steps.
func (m *machine) stepping(steps int) time.Duration {
	if step, ok := m.watch.pace.step(); ok {
		return max(m.cfg.HangLeast, time.Duration(steps)*step)
	}
	if m.ledger.Tickets(ledger.Running) > 0 {
		return max(m.cfg.HangLeast, m.cfg.HangBlind)
	}
	return m.cfg.HangLeast
}

// canaryWait is how long a canary may take: it waits for the prefill under way and needs a step. Behind a prefill of which nobody
// knows how long it takes it proves nothing, however long it is waited for.
func (m *machine) canaryWait() time.Duration {
	wait := m.stepping(canaryFactor)
	if took, known := m.prefilling(); known {
		wait = max(wait, prefillFactor*took)
	}
	return wait
}

// watched notes a grant. busy: there was something to do before it.
func (m *machine) watched(now time.Time, r *fleet.Reserve, busy bool) {
	if !busy {
		m.watch.showed = now
		m.watch.life = now.Add(-m.watch.unheard) // else it was silent because it had nothing to say
	}
	work := r.Work
	work.PromptTokens = r.Claim.PrefillTokens
	m.watch.queue = append(m.watch.queue, prefill{r.Claim.Ticket, now, work, r.Prefill})
}

// late notes the silence of a replica whose last request leaves it because it has brought nothing in time.
func (m *machine) late(now time.Time, t scoring.Ticket) {
	if m.working() == 1 && m.ledger.State(t) == ledger.Reserved {
		m.watch.unheard = now.Sub(m.watch.life)
	}
}

// beats takes what the streams showed.
func (m *machine) beats(now time.Time, b fleet.Beats) {
	w := &m.watch
	w.peers = b.Peers
	if w.phase < suspect {
		w.pace.add(&b.Gaps)
	} else {
		for i, n := range b.Gaps {
			w.held[i] += n
		}
	}
	if b.Last != nil {
		m.heard(*b.Last)
	}
	if b.Last != nil && b.Last.After(w.life) {
		m.alive(now, *b.Last, "its streams go on")
	}
}

// alive notes a sign of life and ends what was thought before it.
func (m *machine) alive(now, at time.Time, why string) {
	w := &m.watch
	w.life, w.unheard = at, 0
	if w.phase != calm {
		w.showed = at
	}
	switch w.phase {
	case calm:
	case doubt:
		w.phase = calm
		m.emit(publish{})
	case suspect:
		w.phase, w.giveUp = calm, nil
		w.pace.add(&w.held) // it was only slow
		m.dropCanary()
		m.emit(publish{room: true})
	case hung:
		if now.Before(w.notBefore) {
			if w.kind == hangs {
				m.restartBy(at, now)
			}
			m.emit(publish{})
			return
		}
		m.revive(now, why)
	}
	w.held = [fleet.PaceBuckets]uint32{}
}

// revive brings a replica back that hung.
func (m *machine) revive(now time.Time, why string) {
	m.watch.phase, m.watch.life, m.watch.showed, m.watch.unheard, m.failedProbes = calm, now, now, 0, 0
	m.unanswered = nil
	m.dropCanary()
	m.emit(hurryProbe{})
	if m.state == fleet.Down {
		m.warm(now, why)
		return
	}
	m.emit(publish{})
}

// counted takes the step counter of a probe that was sent at a time.
func (m *machine) counted(now, began time.Time, steps *uint64) {
	w := &m.watch
	if steps == nil {
		w.steps = nil
		return
	}
	before := w.steps
	w.steps = &sample{*steps, began}
	if before != nil && *steps > before.steps && before.at.After(m.signs.worked) {
		m.signs.worked = before.at
	}
	if before == nil || before.at.Before(w.life) {
		return // what it did since may have been before the silence
	}
	switch {
	case *steps > before.steps:
		m.alive(now, began, "its step counter goes on")
	case w.phase == doubt:
		m.suspect(now)
	}
}

// look decides what the silence means by now.
func (m *machine) look(now time.Time) {
	w := &m.watch
	switch w.phase {
	case calm:
		if !m.busy() {
			return
		}
		bound := m.bound()
		switch {
		case now.Before(w.life.Add(bound)):
			if w.steps != nil && !w.hurried.Equal(w.life) && !now.Before(w.life.Add(bound/2)) {
				w.hurried = w.life
				m.emit(hurryProbe{})
			}
		case m.excused(now):
			w.next = now.Add(m.cfg.CanaryRetry)
		case w.steps != nil:
			w.phase, w.until = doubt, now.Add(m.cfg.HangDoubt)
			m.emit(hurryProbe{})
		default:
			m.suspect(now)
		}
	case doubt:
		if !now.Before(w.until) {
			m.suspect(now) // a counter that nobody can read stands still
		}
	case suspect:
		if late := now.Sub(w.next); late > 0 {
			w.until = w.until.Add(late) // it was us who did not get to it, and maybe to its tokens
		}
		if !now.Before(w.until) {
			m.tooLate(now)
		}
		if w.phase == suspect {
			w.next = now.Add(watchEvery)
			m.sendCanary(now) // again, if the one before failed
			m.outlast(now)
		}
	case hung:
		m.tryHung(now)
	}
}

// suspect sends a canary, and nothing else.
func (m *machine) suspect(now time.Time) {
	w := &m.watch
	if !m.busy() {
		w.phase = calm
		return
	}
	w.phase, w.until, w.next = suspect, now.Add(m.canaryWait()), now.Add(watchEvery)
	m.restartBy(w.life, now)
	m.emit(suspected{})
	m.sendCanary(now)
	m.emit(publish{})
}

// strikeKind is why a replica is taken out.
type strikeKind uint8

const (
	hangs  strikeKind = iota // its canary was late too
	breaks                   // one attempt after another broke
)

// String is the word used in metrics.
func (k strikeKind) String() string { return [...]string{"hang", "breaks"}[k] }

// strike takes the replica out: its legs go elsewhere, and a canary must bring it back.
func (m *machine) strike(now time.Time, kind strikeKind, why string) {
	w := &m.watch
	m.lastError = why
	w.phase, w.kind, w.held, w.broken = hung, kind, [fleet.PaceBuckets]uint32{}, nil
	w.notBefore = now.Add(m.strikes.Strike(now, m.rng))
	w.until = w.notBefore
	if kind == breaks {
		giveUpAt := now.Add(m.cfg.HangGiveUp)
		w.giveUp = &giveUpAt
	}
	m.emit(struck{kind})
	m.emit(alarm{"it is taken out: " + why})
	if m.state == fleet.Starting || m.state == fleet.Warming || m.state == fleet.Ready || m.state == fleet.Degraded {
		m.enter(now, fleet.Down, why)
	} else {
		m.emit(publish{})
	}
	m.scatter(now)
}

// tryHung asks a replica that hung once more, and its legs to leave if they found no other place before.
func (m *machine) tryHung(now time.Time) {
	w := &m.watch
	if now.Before(w.until) {
		return
	}
	w.until = now.Add(m.cfg.CanaryRetry)
	m.outlast(now)
	if w.canary == nil {
		m.sendCanary(now)
	} else {
		m.dropCanary() // what it was sent may be lost; the next one follows when it has returned
	}
	m.scatter(now)
}

func (m *machine) sendCanary(now time.Time) {
	w := &m.watch
	if w.canary != nil {
		return
	}
	w.canaries++
	number := w.canaries
	w.canary, w.asked, w.dropped = &number, now, false
	m.emit(sendCanary{number, m.engineModel})
}

// dropCanary cancels the one under way; until it has returned there is no other.
func (m *machine) dropCanary() {
	if m.watch.canary != nil && !m.watch.dropped {
		m.watch.dropped = true
		m.emit(cancelCanary{})
	}
}

// unknown gives up a canary under way of which the engine's figures know nothing: it was sent to a process that has died without a word,
// and nobody will ever answer it. The next one follows when it has returned.
func (m *machine) unknown(p Probed) {
	w, l := &m.watch, p.Status.Load
	if w.phase != suspect || w.canary == nil || p.Began.Before(w.asked.Add(2*m.cfg.ReachWait)) {
		return
	}
	if l.RunningSequences != nil && *l.RunningSequences == 0 && (l.WaitingSequences == nil || *l.WaitingSequences == 0) {
		m.dropCanary()
	}
}

// canaryDone takes a canary's end.
func (m *machine) canaryDone(now time.Time, e canaryDone) {
	w := &m.watch
	if w.canary == nil || *w.canary != e.number {
		return
	}
	dropped := w.dropped
	w.canary, w.dropped = nil, false
	switch {
	case e.err == nil && w.phase == suspect:
		m.alive(now, now, "a canary came back")
	case e.err == nil && w.phase == hung && now.Before(w.notBefore):
		w.until = w.notBefore // it shows nothing of what is after that
	case e.err == nil && w.phase == hung:
		m.alive(now, now, "a canary came back")
	case w.phase == hung && dropped:
		m.sendCanary(now)
	case engine.KindOf(e.err) == engine.Local && w.phase == suspect:
		w.until = w.until.Add(watchEvery) // it was not asked: the time until the next one is none of its silence
	case engine.KindOf(e.err) == engine.Refused:
		m.emit(hurryProbe{})
	}
}

// broke counts an attempt that broke. Those that were granted before the last break that was counted are part of it: a
// process that dies breaks all its streams at once. One that comes again tells nothing new: it may be what breaks them. Where the
// engine only left the finish out, that goes for all that share a block with it.
func (m *machine) broke(now time.Time, e fleet.AttemptFailed) {
	w, t := &m.watch, e.Claim.Ticket
	if t.Boot == w.breaksOf.Boot && t.Number <= w.breaksOf.Number {
		return
	}
	w.breaksOf = m.answered
	alike := sameWhole
	if e.Failure.Unfinished {
		alike = sameHead
	}
	if w.broken.add(e.Of, alike); len(w.broken) >= m.cfg.BreaksMax && w.phase != hung {
		m.strike(now, breaks, "one attempt after another broke: "+e.Failure.Error())
	}
}

// nextLook is when look wants to be called.
func (m *machine) nextLook() (time.Time, bool) {
	w := &m.watch
	switch w.phase {
	case calm:
		if !m.busy() {
			return time.Time{}, false
		}
		bound := m.bound()
		switch {
		case w.next.After(w.life.Add(bound)):
			return w.next, true // it is excused for the moment
		case w.steps != nil && !w.hurried.Equal(w.life):
			return w.life.Add(bound / 2), true
		}
		return w.life.Add(bound), true
	case doubt, hung:
		return w.until, true
	case suspect:
		if w.until.Before(w.next) {
			return w.until, true
		}
		return w.next, true
	}
	return time.Time{}, false
}

// tried brings the next canary forward: a probe was answered.
func (m *machine) tried(now time.Time) {
	if w := &m.watch; w.canary == nil && !now.Before(w.notBefore) {
		m.sendCanary(now)
	}
}

// stepP99 is what is published of the pace.
func (m *machine) stepP99() *time.Duration {
	step, ok := m.watch.pace.step()
	if !ok {
		return nil
	}
	return &step
}
