package dst

import (
	"fmt"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/actors/replica"
	"plimsoll/engine"
	"plimsoll/engine/kvevents"
	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
)

// feed is the actor of a replica's feed, with the subscription that it has.
type feed struct {
	w    *world
	host *host
	box  *mailbox
	m    *replica.Feed
	link *link // nil: none
	cfg  kvevents.Config

	armed time.Duration
	state fleet.IndexState
	last  tuning
	born  map[uint64]uint64 // by incarnation: the life of the process that it was begun for
	subs  uint64

	shown *fleet.Place // as of the last look
	slot  slotModel
	seen  int     // counts batches, to draw prompts without chance
	sent  []*call // whose prompts were sent there

	// A plant's: the last batch of the subscription before, and of this one.
	stray, latest []prefix.Event
	latestOf      *link
}

// tuning is at what block size and capacity the feed works, for which life.
type tuning struct {
	blockTokens, capacity scoring.Tokens
	incarnation           uint64
}

// voiding says that what the feed knows counts no more.
type voiding struct{}

func newFeed(w *world, h *host) feed {
	f := feed{w: w, host: h, born: map[uint64]uint64{}, cfg: kvevents.DefaultConfig()}
	if h.p.pub.replays {
		f.cfg.ReplayEndpoint = "tcp://127.0.0.1:1" // that there is one
	}
	if w.chance(0.2) {
		f.cfg.BufferBatchesMax = 1 + w.rng.IntN(20)
	}
	return f
}

// start begins an instance of the actor.
func (f *feed) start() {
	f.box = &mailbox{w: f.w, owner: f, id: f.w.newBox()}
	f.armed = none
	f.m = replica.NewFeed(f.host.cfg, f.host.ref, f.host.memory, f.w.indexes, f.host.ref.Capabilities.KVEvents, f.w.entropyOf(f.host, 2+f.host.epoch<<8))
	f.m.Start(f.w.time(), f)
	f.after()
}

// stop ends it.
func (f *feed) stop() {
	f.box.close()
	f.m.Stop(f)
	f.after()
	f.armed = none
}

// receive implements actor.
func (f *feed) receive(message any) {
	w := f.w
	now := w.time()
	voids := f.voids(message)
	if plant := w.cfg.Plant; plant != nil && plant.toFeed != nil {
		message = plant.toFeed(f, message)
	}
	switch m := message.(type) {
	case nil:
	case tuning:
		if m != f.last {
			f.last = m
			f.slot.unlearn(w.now)
		}
		f.m.Tune(now, m.blockTokens, m.capacity, m.incarnation, f)
	case voiding:
		f.slot.unlearn(w.now)
		f.m.Void(now, f)
	case fleet.Learned:
		f.slot.learn(&m)
		f.m.Message(now, m, f)
		f.learned(&m)
	default:
		f.m.Message(now, m, f)
	}
	f.after()
	if voids {
		f.void()
	}
}

// voids says whether a message takes back all that the index knows.
func (f *feed) voids(message any) bool {
	switch m := message.(type) {
	case tuning:
		return m != f.last
	case voiding:
		return true
	}
	return false
}

func (f *feed) tick() {
	f.m.Tick(f.w.time(), f)
	f.after()
}

// after arms the timer and looks what is published.
func (f *feed) after() {
	w := f.w
	if place := f.host.ref.Place(); place != f.shown {
		f.shown = place
		f.slot.turn(w.now)
	}
	f.note()
	if f.box.closed {
		return
	}
	when := w.since(f.m.NextTick())
	if f.armed != none && f.armed <= when {
		return
	}
	f.armed = max(when, w.now)
	e := w.at(when, evTick)
	e.host, e.box = f.host, f.box
}

// note tells the model what others may see from now on.
func (f *feed) note() {
	switch {
	case f.shown == nil:
		f.slot.shows(f.w.now, shown{})
	case f.state == fleet.IndexApproximate:
		f.slot.shows(f.w.now, shown{routed: true})
	default:
		f.slot.shows(f.w.now, shown{position: f.link.applied})
	}
}

// Subscribe implements replica.FeedShell.
func (f *feed) Subscribe(s *replica.Subscription) {
	l := f.newLink()
	l.sub = s
	l.from = mailbox{w: f.w, id: f.w.newBox()}
	f.connect(l, l.sink)
}

// newLink makes a subscription, which is not connected.
func (f *feed) newLink() *link {
	return &link{w: f.w, feed: f, cfg: f.cfg, armed: none, ended: none, turned: none, flowed: none, retry: f.cfg.ConnectFirst}
}

// connect begins one, unless it is told that nothing is published.
func (f *feed) connect(l *link, sink func(engine.KVBatch)) {
	w := f.w
	f.subs++
	l.m = kvevents.NewMachine(f.cfg, w.entropyOf(f.host, 1+f.subs<<8).Uint64, sink)
	f.link = l
	switch {
	case w.healed == none && w.now < f.host.p.pub.absentBy:
		l.in(w.network(), wire{kind: wireSubEnd, err: fmt.Errorf("no: %w", engine.ErrNoKVEvents)})
		return
	case w.healed == none && w.chance(w.plan.badFeeds):
		l.in(w.between(0, 2*time.Second), wire{kind: wireSubEnd, err: errRefused})
	}
	l.dial()
}

// Unsubscribe implements replica.FeedShell.
func (f *feed) Unsubscribe() {
	f.link.closed = true
	f.link = nil
}

// Ready implements replica.FeedShell.
func (f *feed) Ready(incarnation uint64) {
	f.host.box.post(f.box, replica.FeedReady{Incarnation: incarnation})
}

// Became implements replica.FeedShell.
func (f *feed) Became(state fleet.IndexState, why string) {
	w := f.w
	if f.state == fleet.IndexApproximate && follows(state) {
		w.index.Returned++
		f.returns()
	}
	f.state = state
	w.index.Entered[state]++
	w.note(noteIndex, f.host.n, uint64(state), 0)
	w.explain("%s: index %s: %s", f.host.id, state, why)
}

// Distrusted implements replica.FeedShell.
func (f *feed) Distrusted(why string) {
	f.w.index.Distrusted++
	f.w.explain("%s: index distrusted: %s", f.host.id, why)
	if f.state == fleet.IndexApproximate {
		f.slot.unlearn(f.w.now)
	}
}

// Report implements replica.FeedShell.
func (f *feed) Report(prefix.Stats) {}

var (
	_ replica.FeedShell = (*feed)(nil)
	_ kvevents.Replayer = (*link)(nil)
)
