package kvevents

import (
	"time"

	"github.com/zeebo/xxh3"

	"plimsoll/engine"
	"plimsoll/scoring/prefix"
)

// inputKind is what the order machine hears.
type inputKind uint8

const (
	connected    inputKind = iota // the engine's publisher is there, as it was or as another process
	broken                        // its connection broke, or none could be made
	live                          // a published batch: seq, payload
	junk                          // something published that is no batch message
	stale                         // a batch published by a process that was replaced
	replayed                      // a batch of a replay: attempt, seq, payload
	replayEnded                   // the replay's end marker: attempt
	replayFailed                  // the replay broke off: attempt
	tick                          // the time that deadline named has come
)

// input is one thing the machine hears. payload is read during the step only; what is kept is copied.
type input struct {
	kind    inputKind
	attempt uint64
	seq     uint64
	payload []byte
}

// effectKind is what the machine wants done.
type effectKind uint8

const (
	askReplay  effectKind = iota // ask for every batch from a sequence number on; answers carry the attempt
	dropReplay                   // the answers to an attempt are of no more use
)

type effect struct {
	kind    effectKind
	attempt uint64
	from    uint64
}

// limits are the bounds and times of a machine, see [Config].
type limits struct {
	replay                      bool // the engine can be asked for what it published before
	replayTimeout, replayWhole  time.Duration
	retryFirst, retryMax        time.Duration
	checkFirst, checkEvery      time.Duration
	replayBatchesMax            int
	bufferBatchesMax, bytesHeld int
}

// machine puts the batches of one feed into order and knows what its word is worth (doc.go has the picture). It is pure:
// no clock, no goroutine, no I/O; batches leave through sink, during a step and in order, other effects as its result.
type machine struct {
	limits  limits
	sink    func(engine.KVBatch)
	entropy func() uint64
	decoder Decoder

	// What was said, and what it rests on.
	now   time.Time
	state engine.KVState
	said  bool   // a first batch has left
	known bool   // every batch from since to next-1 was applied to a cache that nothing was known of before
	whole bool   // ... and it was empty then, or was emptied since
	since uint64 // the first batch of that run
	next  uint64 // the batch that comes next in order
	seen  recent
	made  time.Time // when the engine made the last batch
	seam  bool      // ... which came by a replay

	// Where it stands towards the engine.
	up        bool
	suspended time.Time // what is known waits until then for proof that it is of this life; zero: it does not
	attempt   attempt
	attempts  uint64
	held      held
	lifeAt    time.Time // when the last new life was noticed
	futile    bool      // the engine, so its last answer, no longer has what a full replay would need
	// Where the replay before was damaged, if damageSeen: what is damaged twice at the same place stays so.
	damageSeen bool
	damageAt   uint64
	retryAt    time.Time
	retryWait  time.Duration
	checkAt    time.Time
	heard      bool // something published came since the last check, or since the connection was made

	// What the next batch that leaves has to tell beside its events.
	gap     bool
	skipped [engine.NumKVSkips]int

	effects []effect
}

func newMachine(l limits, entropy func() uint64, sink func(engine.KVBatch)) *machine {
	return &machine{
		limits: l, entropy: entropy, sink: sink, state: engine.KVReplaying,
		held: held{batchesMax: l.bufferBatchesMax, bytesMax: l.bytesHeld},
	}
}

// Step takes one input at a time that never goes back. The effects are valid until the next step.
func (m *machine) Step(now time.Time, in input) []effect {
	m.now, m.effects = now, m.effects[:0]
	switch in.kind {
	case connected:
		m.connected()
	case broken:
		m.broken()
	case live:
		m.live(in.seq, in.payload)
	case junk:
		m.skipped[engine.KVSkipFrames]++
	case stale:
		m.skipped[engine.KVSkipOldLife]++
	case replayed:
		if m.attempt.is(in.attempt) {
			m.replayed(in.seq, in.payload)
		}
	case replayEnded:
		if m.attempt.is(in.attempt) {
			m.replayEnded()
		}
	case replayFailed:
		if m.attempt.is(in.attempt) {
			m.fail()
		}
	case tick:
		m.tick()
	}
	return m.effects
}

// deadline is when the machine wants to hear a tick; zero: never.
func (m *machine) deadline() time.Time {
	var at time.Time
	for _, t := range [...]time.Time{m.attempt.deadline, m.suspended, m.retryAt, m.checkAt} {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	return at
}

func (m *machine) tick() {
	if m.attempt.active && !m.now.Before(m.attempt.deadline) {
		m.fail()
	}
	if !m.suspended.IsZero() && !m.now.Before(m.suspended) {
		m.suspended = time.Time{}
		if !m.attempt.active { // an attempt has a time limit of its own
			m.void(engine.KVPartial)
		}
	}
	if !m.retryAt.IsZero() && !m.now.Before(m.retryAt) {
		m.retryAt = time.Time{}
		if m.up {
			m.drop()
			m.ask(fullReplay, 0, false)
		}
	}
	if !m.checkAt.IsZero() && !m.now.Before(m.checkAt) {
		m.check()
	}
}

// connected: a connection does not tell whose it is. What is known counts again once a replay has shown the last batch
// that was seen, byte for byte.
func (m *machine) connected() {
	m.up, m.heard = true, false
	switch {
	case !m.limits.replay:
		if !m.said {
			m.void(engine.KVPartial)
		}
	case m.evident():
		m.ask(proofReplay, m.last(), true)
	default:
		m.forgive()
		if m.known || !m.said || m.state != engine.KVReplaying {
			m.void(engine.KVReplaying)
		}
		m.ask(fullReplay, 0, true)
	}
}

// evident says whether there is a batch by which a life can be recognised.
func (m *machine) evident() bool { return m.known && m.next > m.since }

// broken: what is known may still be of the engine's present life. If nobody listens any more it hardly is.
func (m *machine) broken() {
	hope := m.up && m.evident() && m.limits.replay
	m.up = false
	m.drop()
	m.held.clear()
	m.retryAt, m.checkAt = time.Time{}, time.Time{}
	switch {
	case hope:
		if m.suspended.IsZero() {
			m.suspended = m.now.Add(m.limits.replayTimeout)
		}
		m.say(engine.KVReplaying)
	case m.known || !m.said || m.state != engine.KVPartial:
		m.void(engine.KVPartial)
	}
}

// live takes a published batch.
func (m *machine) live(seq uint64, payload []byte) {
	m.heard = true
	mark := xxh3.Hash(payload)
	if m.attempt.active && m.attempt.holding {
		m.hold(seq, payload, mark)
		return
	}
	if !m.known {
		m.base(seq)
	}
	switch {
	case seq < m.next && m.seen.same(seq, mark):
		m.skipped[engine.KVSkipOldLife]++
	case seq == m.next:
		m.inOrder(seq, payload, mark)
	case seq < m.next && !m.readable(payload):
		m.skipped[engine.KVSkipBatch]++
	case seq < m.next:
		m.newLife(seq, payload, mark)
	case !m.readable(payload):
		m.hole(seq, nil, 0)
	default:
		m.hole(seq, payload, mark)
	}
}

// readable says whether a payload is a batch at all. One that came garbled is another than was seen before, and yet
// shows no other life.
func (m *machine) readable(payload []byte) bool {
	_, err := m.decoder.Decode(payload)
	return err == nil
}

// inOrder takes the published batch that comes next.
func (m *machine) inOrder(seq uint64, payload []byte, mark uint64) {
	batch, err := m.decoder.Decode(payload)
	switch {
	case err != nil:
		m.hole(seq, nil, 0)
	case m.seam && m.older(batch):
		m.newLife(seq, payload, mark)
	default:
		m.seam = false
		m.accept(seq, mark, batch)
		// A replay that has not begun may have been taken before this batch: it may be needed once more.
		if m.attempt.active && m.attempt.purpose == fullReplay && !m.held.add(seq, payload, mark) {
			m.fail()
		}
	}
}

// older says that a batch whose number fits was made before the last one. Where a life ends without its connection, behind
// a proxy, while a replay runs, the numbers of what was on its way may fit to those of the next life: nothing but the time
// tells.
func (m *machine) older(b Batch) bool { return m.evident() && !b.At.IsZero() && b.At.Before(m.made) }

// hold keeps a published batch until the replay has caught up with it.
func (m *machine) hold(seq uint64, payload []byte, mark uint64) {
	if !m.readable(payload) {
		m.skipped[engine.KVSkipBatch]++
		return
	}
	kept, same := m.held.find(seq, mark)
	switch {
	case kept && !same, m.seen.other(seq, mark), !kept && seq == 0 && len(m.held.batches) > 0:
		m.newLife(seq, payload, mark)
	case kept, seq < m.next:
		// Replays overtake what was published at the same time; beyond what is remembered that is taken for granted until
		// the replay has ended.
		m.skipped[engine.KVSkipOldLife]++
	case !m.held.add(seq, payload, mark):
		m.fail()
		m.live(seq, payload)
	}
}

// hole: the batches from next on are missing, up to seq; if payload is nil, seq itself came garbled.
func (m *machine) hole(seq uint64, payload []byte, mark uint64) {
	m.gap = true
	if payload == nil {
		m.skipped[engine.KVSkipBatch]++
	}
	if m.attempt.purpose == checkReplay {
		m.drop()
	}
	if m.limits.replay && m.up && !m.attempt.active && m.retryAt.IsZero() {
		m.askGap()
		if payload != nil {
			m.hold(seq, payload, mark)
		}
		return
	}
	m.void(engine.KVPartial)
	if payload == nil {
		m.base(seq + 1)
	} else {
		m.base(seq)
		m.live(seq, payload)
	}
	m.retry()
}

// askGap asks for what is missing, and for the last good batch with it, by which the life is recognised.
func (m *machine) askGap() {
	m.ask(gapReplay, m.last(), true)
	m.say(engine.KVReplaying)
}

// last is the batch to ask from for what comes after it.
func (m *machine) last() uint64 { return max(m.next, 1) - 1 }

// newLife: the sequence went back, so another process publishes. What is known and what is held is of the old one.
func (m *machine) newLife(seq uint64, payload []byte, mark uint64) {
	m.drop()
	m.skipped[engine.KVSkipOldLife] += len(m.held.batches)
	m.held.clear()
	m.retryAt, m.gap = time.Time{}, false
	m.forgive()
	often := !m.lifeAt.IsZero() && m.now.Sub(m.lifeAt) < m.limits.retryFirst // several publishers mixed up, perhaps
	m.lifeAt = m.now
	if m.limits.replay && m.up && !often {
		m.void(engine.KVReplaying)
		m.ask(fullReplay, 0, true)
		m.hold(seq, payload, mark)
		return
	}
	m.void(engine.KVPartial)
	m.live(seq, payload)
	m.retry()
}

// base begins a run of batches of which nothing before is known. A life's first batch finds an empty cache.
func (m *machine) base(seq uint64) {
	m.known, m.whole = true, seq == 0
	m.since, m.next = seq, seq
}

// apply decodes the batch that is next and lets it leave. It reports false if that cannot be read.
func (m *machine) apply(seq uint64, payload []byte, mark uint64) bool {
	batch, err := m.decoder.Decode(payload)
	if err != nil {
		return false
	}
	m.accept(seq, mark, batch)
	return true
}

// accept lets the batch that is next leave.
func (m *machine) accept(seq, mark uint64, batch Batch) {
	if batch.LostRemoval {
		m.whole = false
		m.void(m.worth())
		m.base(seq)
		m.whole = false
	}
	for i := range batch.Events {
		if batch.Events[i].Kind == prefix.Cleared {
			m.whole, m.retryAt = true, time.Time{}
		}
	}
	m.seen.add(seq, mark)
	m.next = seq + 1
	for reason, n := range batch.Skipped {
		m.skipped[reason] += n
	}
	m.state, m.made = m.worth(), batch.At
	m.emit(engine.KVBatch{Seq: seq, At: batch.At, Events: batch.Events})
}

// worth is the state that batches leave with.
func (m *machine) worth() engine.KVState {
	switch {
	case !m.suspended.IsZero(), m.attempt.active && m.attempt.holding:
		return engine.KVReplaying
	case m.whole:
		return engine.KVLive
	default:
		return engine.KVPartial
	}
}

// void takes back all that was said. What comes after has to begin a new run.
func (m *machine) void(s engine.KVState) {
	m.known, m.whole, m.next = false, false, 0
	m.suspended = time.Time{}
	m.seen.clear()
	m.state = s
	m.emit(engine.KVBatch{Reset: true})
}

// say tells a change of state, if it is one, or that batches are missing.
func (m *machine) say(s engine.KVState) {
	if m.state == s && m.said && !m.gap {
		return
	}
	m.state = s
	m.emit(engine.KVBatch{Seq: m.last()})
}

func (m *machine) emit(b engine.KVBatch) {
	b.State, b.Gap, b.Skipped = m.state, m.gap, m.skipped
	m.said, m.gap, m.skipped = true, false, [engine.NumKVSkips]int{}
	m.sink(b)
}
