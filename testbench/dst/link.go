package dst

import (
	"time"

	"plimsoll/actors/replica"
	"plimsoll/engine"
	"plimsoll/engine/kvevents"
)

// link is one subscription: its order machine, and the connections of it to the publisher that sockets keep in production.
type link struct {
	w    *world
	feed *feed
	cfg  kvevents.Config
	sub  *replica.Subscription
	m    *kvevents.Machine
	from mailbox // names the sender of its news

	closed  bool
	ended   time.Duration // when it ended by itself; none: it has not
	conn    uint64        // number of the connection or of the try to make it
	life    *life         // the engine's at its other end
	up      bool
	heeded  *life  // whose batches it is sent
	missed  uint64 // batches of that life that were published before
	unseen  bool   // the connection has outlived a process, and nothing of the next one has come
	began   time.Duration
	turned  time.Duration // when a connection that had been there broke last, or another came after it; none: never
	retry   time.Duration
	arrives time.Duration // when the last published batch on its way comes
	asked   uint64        // attempt of the replay that is awaited
	flows   time.Duration // when the last of its answers comes
	armed   time.Duration // when the machine's tick comes; none: it does not

	applied position
	told    heardOf
	rebuilt bool          // it has described what the cache holds
	flowed  time.Duration // since when events come that are not of the past; none: they do not
	skew    uint64        // a plant's: by how much the numbers of published batches are too low
}

// position is up to where a subscription has been told of a life. life is nil where it knows nothing.
type position struct {
	life  *life
	count uint64 // the batches before this number
}

// wireKind is what comes over a link, or happens at one of its ends.
type wireKind uint8

const (
	wireOpened wireKind = iota // the connection is there
	wireBroke                  // it broke, or could not be made
	wireHeeded                 // the publisher has heard of the subscription
	wireDial                   // another connection is to be made
	wireBatch                  // a published batch comes
	wireAsk                    // a request for a replay comes to the publisher
	wireAnswer                 // a batch of a replay comes
	wireEnded                  // its end marker
	wireFailed                 // it breaks off
	wireTick                   // the machine's time has come
	wireSubEnd                 // the subscription ends by itself
)

// wire is something on its way.
type wire struct {
	kind    wireKind
	link    *link
	conn    uint64
	attempt uint64
	life    *life
	seq     uint64
	payload []byte
	err     error
}

func (l *link) in(delay time.Duration, m wire) { l.at(l.w.now+delay, m) }

func (l *link) at(at time.Duration, m wire) {
	m.link, m.conn = l, l.conn
	l.w.at(at, evFeed).msg = &m
}

// dial makes a connection.
func (l *link) dial() {
	l.conn++
	b, w := l.feed.host.p.pub, l.w
	l.began = w.now
	switch {
	case !b.answers():
		l.in(w.network(), wire{kind: wireBroke})
	case l.feed.host.p.frozen():
		b.shaking = l
		l.in(l.cfg.ConnectTimeout, wire{kind: wireBroke})
	default:
		l.shakes()
	}
}

// shakes is the answer of the other end.
func (l *link) shakes() {
	l.life = l.feed.host.p.pub.life()
	l.in(2*l.w.network(), wire{kind: wireOpened})
}

// lose has the other end gone. Of a silent end the operating system finds out by asking.
func (l *link) lose(silent bool) {
	l.heeded = nil
	if silent {
		l.in(l.w.between(10*time.Second, 30*time.Second), wire{kind: wireBroke})
		return
	}
	l.in(l.w.network(), wire{kind: wireBroke})
}

// hears says whether what is published comes here.
func (l *link) hears() bool { return l != nil && l.heeded != nil }

// send puts a published batch on its way, on which it may come to harm.
func (l *link) send(seq uint64, payload []byte) {
	w, p := l.w, l.feed.host.p
	trouble := p.trouble
	switch {
	case l.unseen: // without its first batch nothing could tell of the life
		trouble = NumFaults
	case p.pub.silent():
		return
	default:
		p.trouble = NumFaults
	}
	m := wire{kind: wireBatch, life: l.heeded, seq: seq, payload: payload}
	at := max(l.arrives, w.now+w.network())
	switch trouble {
	case KVLost:
		return
	case KVDoubled:
		l.at(at, m)
		at = max(at, w.now+w.network())
	case KVReordered:
		l.at(at+w.between(0, 200*time.Millisecond), m)
		return
	case KVGarbled:
		m.payload = garbled
	case KVDelayed:
		at += w.between(0, 2*time.Second)
	case Kill, Restart, Stop, HungCore, Slow, ServerError, Shed, Distrust, ErrorFrame, Cut, MissingFinish, PanicReplica, PanicRouter,
		ClockJump, ClientLeaves, SlowClient, Drain, Add, Undrain, RefuseOne, ForAnHour, Trailing, LongStep, NumFaults: // it comes to no harm
	}
	l.arrives = at
	l.at(at, m)
}

// answer puts the answers to a replay on their way, some at a time.
func (l *link) answer(pause time.Duration, batches []wire) {
	l.flows = max(l.flows, l.w.now+pause)
	for i := range batches {
		if i%16 == 0 {
			l.flows += l.w.network()
		}
		l.at(l.flows, batches[i])
	}
}

// comes takes what was on its way.
func (l *link) comes(m *wire) {
	if l.closed {
		return
	}
	w := l.w
	now := w.time()
	switch m.kind {
	case wireAsk:
		if m.attempt == l.asked {
			l.feed.host.p.pub.ask(request{l, m.attempt, m.seq})
		}
		return
	case wireAnswer, wireEnded, wireFailed:
		l.answered(now, m)
	case wireTick:
		if w.now < l.armed || l.armed == none {
			return
		}
		l.armed = none
		if at, ok := l.m.NextTick(); ok && !at.After(now) {
			l.m.Tick(now, l)
		}
	case wireSubEnd:
		l.closed, l.ended, l.heeded = true, w.now, nil
		l.feed.box.post(&l.from, l.sub.End(m.err))
		return
	case wireOpened, wireBroke, wireHeeded, wireDial, wireBatch:
		if m.conn != l.conn {
			return
		}
		l.connects(now, m)
	}
	l.arm()
}

func (l *link) connects(now time.Time, m *wire) {
	w := l.w
	b := l.feed.host.p.pub
	switch m.kind {
	case wireOpened:
		if l.life != b.life() || !b.answers() {
			l.broke(now) // the process has gone meanwhile
			return
		}
		if l.up = true; l.turned != none {
			l.turned = w.now
		}
		l.in(w.network(), wire{kind: wireHeeded})
		l.m.Connected(now, l)
	case wireHeeded:
		if l.life == b.life() && b.answers() {
			l.heeded, l.missed = l.life, l.life.published
		}
	case wireBroke:
		l.broke(now)
	case wireDial:
		l.dial()
	case wireBatch:
		if m.life != l.heeded { // the proxy has heard of its end
			return
		}
		l.unseen = false
		seq := m.seq
		if plant := w.cfg.Plant; plant != nil && plant.published != nil {
			seq = plant.published(l, seq)
		}
		l.m.Published(now, seq, m.payload, l)
	case wireAsk, wireAnswer, wireEnded, wireFailed, wireTick, wireSubEnd:
	}
}

// broke tells the machine, and has another connection made.
func (l *link) broke(now time.Time) {
	w := l.w
	if b := l.feed.host.p.pub; b.shaking == l {
		b.shaking = nil
	}
	was := l.up
	if was {
		l.turned = w.now
	}
	l.conn++ // what is on its way is lost
	l.up, l.heeded, l.arrives = false, nil, 0
	l.m.Broken(now, l)
	if !was && l.applied.life != nil {
		w.violate(Index, "%s: nobody listens for its engine, and its index still tells of life %d", l.feed.host.id, l.applied.life.number)
	}
	if w.now-l.began > l.cfg.ConnectMax+l.cfg.ConnectTimeout {
		l.retry = l.cfg.ConnectFirst
	}
	l.in(w.between(l.retry/2, l.retry), wire{kind: wireDial})
	l.retry = min(2*l.retry, l.cfg.ConnectMax)
}

// answered takes a part of a replay, unless who sent it is gone.
func (l *link) answered(now time.Time, m *wire) {
	if m.attempt != l.asked {
		return
	}
	b := l.feed.host.p.pub
	switch {
	case m.kind == wireFailed, m.life != b.life(), !b.answers():
		l.asked = 0
		l.m.ReplayFailed(now, m.attempt, l)
	case m.kind == wireEnded:
		l.asked = 0
		l.m.ReplayEnded(now, m.attempt, l)
	default:
		l.m.Replayed(now, m.attempt, m.seq, m.payload, l)
	}
}

// Replay implements kvevents.Replayer.
func (l *link) Replay(attempt, from uint64) {
	l.asked = attempt
	l.flows = 0
	l.w.note(noteReplay, l.feed.host.n, attempt, from)
	l.in(2*l.w.network(), wire{kind: wireAsk, attempt: attempt, seq: from})
}

// Drop implements kvevents.Replayer.
func (l *link) Drop(attempt uint64) {
	if l.asked == attempt {
		l.asked = 0
	}
}

// arm keeps one timer, which is left to ring early.
func (l *link) arm() {
	at, ok := l.m.NextTick()
	if !ok {
		return
	}
	when := l.w.since(at)
	if l.armed != none && l.armed <= when {
		return
	}
	l.armed = max(when, l.w.now)
	l.at(when, wire{kind: wireTick})
}

// sink takes a batch that is in order.
func (l *link) sink(b engine.KVBatch) {
	take := func(b engine.KVBatch) {
		if news := l.sub.Take(l.w.time(), b); news != nil {
			l.feed.box.post(&l.from, news)
		}
	}
	if b.Reset {
		l.applied = position{}
	}
	if !b.At.IsZero() {
		n := uint64(b.At.Unix()) //nolint:gosec // positive
		l.applied = position{l.feed.host.p.pub.lives[n/lifeSeconds-1], n%lifeSeconds + 1}
	}
	l.follow(b)
	if plant := l.w.cfg.Plant; plant != nil && plant.batch != nil {
		plant.batch(l, b, take)
	} else {
		take(b)
	}
	if l.rebuilt && l.flowed == none && len(b.Events) > 0 && b.State != engine.KVReplaying {
		l.flowed = l.w.now
	}
	l.rebuilt = l.rebuilt || b.State != engine.KVReplaying
	l.feed.took(l, b)
}
