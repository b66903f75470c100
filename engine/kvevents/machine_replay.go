package kvevents

import (
	"time"

	"github.com/zeebo/xxh3"

	"plimsoll/engine"
)

// purpose is what a replay is asked for.
type purpose uint8

const (
	fullReplay  purpose = iota // everything the engine has: nothing is known
	gapReplay                  // the batches that are missing, on a connection that did not break
	proofReplay                // the same after it broke: is this the engine that we know?
	checkReplay                // what may have been lost although nothing shows it: the last batches before a silence
)

// attempt is one replay that is asked for.
type attempt struct {
	active   bool
	id       uint64
	purpose  purpose
	from     uint64 // the first batch asked for
	start    uint64 // next, when it was asked for
	holding  bool   // published batches wait for it; else they leave at once, and it is a second try
	flowing  bool   // its first batch came
	batches  int
	damaged  bool // batches within it were missing or garbled, the last one at damage
	damage   uint64
	deadline time.Time // of the next answer
	latest   time.Time // of the last one
}

func (a *attempt) is(id uint64) bool { return a.active && a.id == id }

// ask begins an attempt.
func (m *machine) ask(p purpose, from uint64, holding bool) {
	m.attempts++
	m.attempt = attempt{
		active: true, id: m.attempts, purpose: p, from: from, start: m.next, holding: holding,
		deadline: m.now.Add(min(m.limits.replayTimeout, m.limits.replayWhole)), latest: m.now.Add(m.limits.replayWhole),
	}
	m.retryAt = time.Time{}
	m.effects = append(m.effects, effect{kind: askReplay, attempt: m.attempts, from: from})
}

// check asks for what came after the last batch, if nothing published has come for a while. Nobody says when a publisher
// begins to heed a subscription, and what it published just before, like the last batch before a silence, would be missed
// by no later one.
func (m *machine) check() {
	m.checkAt = m.now.Add(m.limits.checkEvery)
	quiet := !m.heard
	m.heard = false
	if quiet && m.up && m.known && !m.attempt.active && m.retryAt.IsZero() {
		m.ask(checkReplay, m.last(), false)
	}
}

// drop ends the attempt, whatever it was worth.
func (m *machine) drop() {
	if m.attempt.active {
		m.effects = append(m.effects, effect{kind: dropReplay, attempt: m.attempt.id})
	}
	m.attempt = attempt{}
}

// futileMax is the longest wait for a replay that will hardly tell more than the one before: where the engine has
// published more than it keeps, each costs it as much as all that it keeps, for nothing.
const futileMax = time.Hour

// retry plans the next full replay.
func (m *machine) retry() {
	if !m.limits.replay || m.whole || !m.retryAt.IsZero() || m.attempt.active {
		return
	}
	longest := m.limits.retryMax
	if m.futile {
		longest = max(longest, futileMax)
	}
	m.retryWait = min(max(2*m.retryWait, m.limits.retryFirst), longest)
	m.retryAt = m.now.Add(jittered(m.retryWait, m.entropy()))
}

// jittered returns a time between half of d and d.
func jittered(d time.Duration, entropy uint64) time.Duration {
	const bits = 53 // of a float
	return time.Duration(float64(d) * (1 + float64(entropy>>(64-bits))/(1<<bits)) / 2)
}

// replayed takes a batch of the running replay.
func (m *machine) replayed(seq uint64, payload []byte) {
	a := &m.attempt
	a.batches++
	if a.deadline = m.now.Add(m.limits.replayTimeout); a.deadline.After(a.latest) {
		a.deadline = a.latest
	}
	if a.batches > m.limits.replayBatchesMax {
		m.fail()
		return
	}
	mark := xxh3.Hash(payload)
	if !a.flowing && !m.begin(seq, mark) {
		return
	}
	switch {
	case seq < m.next:
		if m.seen.other(seq, mark) && m.readable(payload) {
			m.contradict()
		}
	case seq > m.next && a.purpose == checkReplay:
		m.hole(seq, payload, mark)
	case seq > m.next:
		m.damaged(m.next, seq) // the engine lost it, or its socket dropped a part of the answer
		m.replayedNext(seq, payload, mark)
	default:
		// What a check brings may be lost, or as well be on its way: it is no gap.
		m.replayedNext(seq, payload, mark)
	}
}

func (m *machine) replayedNext(seq uint64, payload []byte, mark uint64) {
	if !m.apply(seq, payload, mark) {
		m.skipped[engine.KVSkipBatch]++
		m.damaged(seq, seq+1)
	}
}

// damaged: a batch is missing even from the replay, and removals may be lost with it. What is known begins anew at next.
func (m *machine) damaged(seq, next uint64) {
	m.gap = true
	m.whole = false
	m.void(m.worth())
	m.base(next)
	m.whole = false
	m.attempt.start, m.attempt.damaged, m.attempt.damage = next, true, seq
}

// begin looks at the first batch of a replay. It reports false if the replay is of no use.
func (m *machine) begin(seq, mark uint64) bool {
	a := &m.attempt
	a.flowing = true
	switch a.purpose {
	case proofReplay:
		if seq != a.from || !m.seen.same(seq, mark) {
			m.otherLife()
			return false
		}
		m.suspended = time.Time{}
	case checkReplay:
	case gapReplay:
		if seq > m.next { // the engine no longer has what is missing: what it has begins a new run
			m.futile = true
			m.void(engine.KVReplaying)
			m.base(seq)
		}
	case fullReplay:
		if !a.holding {
			if seq > 0 && m.known && seq >= m.since {
				m.futile = true
				m.drop()
				m.held.clear()
				m.retry()
				return false
			}
			a.holding = true
			m.void(engine.KVReplaying)
		}
		m.futile = seq > 0
		m.base(seq)
	}
	return true
}

// otherLife: the engine that answers is not the one that is known. It is asked for all that it has.
func (m *machine) otherLife() {
	m.drop()
	m.forgive()
	m.void(engine.KVReplaying)
	m.ask(fullReplay, 0, true)
}

// contradict: replay and publisher, or two parts of a replay, are of different lives. If everything was asked for
// already, asking again at once could go on for ever.
func (m *machine) contradict() {
	if m.attempt.purpose == fullReplay {
		m.fail()
	} else {
		m.otherLife()
	}
}

// forgive forgets what made replays useless: another process may have more.
func (m *machine) forgive() { m.futile, m.damageSeen, m.damageAt = false, false, 0 }

// replayEnded: the answer is whole.
func (m *machine) replayEnded() {
	a := m.attempt
	if !a.flowing {
		switch a.purpose {
		case proofReplay, gapReplay, checkReplay:
			if m.evident() {
				m.otherLife() // it has nothing of what it is known to have published
				return
			}
		case fullReplay:
			if m.known { // a second try found nothing
				m.futile = true
				m.attempt = attempt{}
				m.held.clear()
				m.retry()
				return
			}
			if len(m.held.batches) > 0 && m.held.batches[0].seq > 0 {
				m.fail()
				return
			}
			m.base(0)
		}
	}
	m.catchUp(a)
}

// catchUp applies what was held while the replay ran, and asks again if that leaves a hole.
func (m *machine) catchUp(a attempt) {
	for len(m.held.batches) > 0 {
		b := m.held.batches[0]
		if b.seq < m.next {
			if m.seen.other(b.seq, b.mark) {
				m.contradict()
				return
			}
			m.skipped[engine.KVSkipOldLife]++
			m.held.shift()
			continue
		}
		batch, err := m.decoder.Decode(b.payload) // only what can be read is held
		if b.seq > m.next || err != nil {
			m.holeInHeld(a)
			return
		}
		if m.older(batch) {
			m.contradict()
			return
		}
		m.accept(b.seq, b.mark, batch)
		m.held.shift()
	}
	m.settle(a)
}

// holeInHeld asks for what is missing before the first batch held.
func (m *machine) holeInHeld(a attempt) {
	m.gap = true
	if m.next == a.start && a.purpose != fullReplay {
		m.fail() // asked and answered, and still missing
		return
	}
	m.attempt = attempt{}
	m.askGap()
}

// settle: nothing is missing any more.
func (m *machine) settle(a attempt) {
	m.attempt, m.seam = attempt{}, true
	if a.purpose != checkReplay {
		m.checkAt = m.now.Add(m.limits.checkFirst)
	}
	if a.damaged {
		m.futile = m.futile || m.damageSeen && m.damageAt == a.damage // it is damaged for good
		m.damageSeen, m.damageAt = true, a.damage
	}
	if m.whole {
		m.retryWait = 0
	}
	m.retry()
	m.say(m.worth())
}

// fail gives an attempt up. If published batches waited for it, nothing that is known is proven: they begin anew.
func (m *machine) fail() {
	holding := m.attempt.holding
	m.drop()
	if !holding {
		m.held.clear()
		m.retry()
		return
	}
	m.void(engine.KVPartial)
	for len(m.held.batches) > 0 {
		b := m.held.batches[0]
		if m.known && b.seq != m.next {
			m.gap = true
			m.void(engine.KVPartial)
		}
		if !m.known {
			m.base(b.seq)
		}
		m.apply(b.seq, b.payload, b.mark) // only what can be read is held
		m.held.shift()
	}
	m.retry()
}
