package replica

import (
	"errors"
	"math/rand/v2"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring"
)

// A feedEffect is something the feed's shell does after a step, in order.
type feedEffect interface{ isFeedEffect() }

type (
	// openFeed subscribes to the engine's events as run, into a slot of its own; a shown one is published at once.
	openFeed struct {
		run   uint64
		shown bool
	}
	// closeFeed ends the subscription and gives its slot back, published or not.
	closeFeed struct{}
	// showFeed publishes the subscription's slot in the place of the approximate one, or of its own former one.
	showFeed struct{}
	// feedAnew says that the published slot holds nothing of what it held before.
	feedAnew struct{}
	// openRouted publishes an empty slot for what is routed.
	openRouted struct{}
	// closeRouted gives that slot back.
	closeRouted struct{}
	// clearRouted forgets what was routed.
	clearRouted struct{}
	// nowIndex tells others the state.
	nowIndex struct {
		state fleet.IndexState
		why   string
	}
	// feedBegun tells the replica's actor that nothing is awaited of the feed in this life any more.
	feedBegun struct{}
	// distrusted reports why what the index claimed is believed no more.
	distrusted struct{ why string }
)

func (openFeed) isFeedEffect()    {}
func (closeFeed) isFeedEffect()   {}
func (showFeed) isFeedEffect()    {}
func (feedAnew) isFeedEffect()    {}
func (openRouted) isFeedEffect()  {}
func (closeRouted) isFeedEffect() {}
func (clearRouted) isFeedEffect() {}
func (nowIndex) isFeedEffect()    {}
func (feedBegun) isFeedEffect()   {}
func (distrusted) isFeedEffect()  {}

// Events of the feed, beside tune and void.
type (
	// fed: a subscription's batch said something new. From its goroutine.
	fed struct {
		run    uint64
		state  engine.KVState
		events bool // it carried some
		anew   bool // what was known before it is void
		moved  bool // its blocks are of another size than was known: the subscription writes to another slot now
	}
	// feedEnded: a subscription has ended by itself. From its goroutine.
	feedEnded struct {
		run uint64
		err error
	}
	// served: an engine computed FreshTokens of a sequence. last is when a batch came last, the zero time if none has.
	served struct {
		began       time.Time // of the attempt
		freshTokens scoring.Tokens
		last        time.Time
	}
	// misled: the engine does not hold what the index claims.
	misled struct{ why string }
	// feedTick: the time that nextTick named has come. last as in served.
	feedTick struct{ last time.Time }
)

// word is why the subscription has ended.
func (e feedEnded) word() string {
	if e.err == nil {
		return "it ended"
	}
	return e.err.Error()
}

// feedConfig is a feed's patience.
type feedConfig struct {
	// Silence is how long after the end of work that changed the cache a feed may say nothing, and how long subscriptions
	// may fail in a row, before the index is approximate.
	Silence time.Duration
	// A broken subscription is begun again after RetryFirst, which doubles to RetryCap.
	RetryFirst, RetryCap time.Duration
	// AbsentRetry is after how long an engine is asked again that has said that it publishes no events.
	AbsentRetry time.Duration
}

// lapse is why an index is approximate.
type lapse uint8

const (
	lapseSource  lapse = iota // the adapter knows of no events
	lapseAbsent               // the engine publishes none
	lapseSilent               // they do not come
	lapseFailing              // they cannot be subscribed to
)

// feedMachine decides where a replica's part of the index comes from. It is pure: time and chance are arguments, what is to
// be done is returned. Batches themselves do not pass through it.
//
//	          tune                       first batch        gap           replayed
//	none ──▶ void ─────────────────────▶ live, partial ──▶ replaying ──▶ live, partial
//	          ▲ broken, void, distrusted ──┘        └─ silent, absent, failing ──▶ approximate
//	          live, partial ◀── events flow again ──────────────────────────────┘
type feedMachine struct {
	cfg    feedConfig
	rng    *rand.Rand
	source bool // there are events to subscribe to

	tuned *tune // nil before the engine has told its limits
	state fleet.IndexState
	begun bool // the replica's actor knows that nothing is awaited in this life
	lapse lapse

	run     uint64 // numbers subscriptions, so that the word of an old one is told from the present one's
	open    bool   // the subscription runs
	rebuilt bool   // it has described what the cache holds
	opened  time.Time

	retry        time.Duration
	retryAt      *time.Time // nil: no new subscription is planned
	failingSince *time.Time
	owed         *debt

	out []feedEffect
}

// debt is work whose events have not come.
type debt struct{ began, since time.Time }

// newFeedMachine returns a machine that has seen nothing. lastRun is the last subscription's number of the one before it.
func newFeedMachine(cfg feedConfig, rng *rand.Rand, source bool, lastRun uint64) *feedMachine {
	return &feedMachine{cfg: cfg, rng: rng, source: source, run: lastRun, retry: cfg.RetryFirst}
}

// step takes one event and returns what is to be done, in order.
func (m *feedMachine) step(now time.Time, event any) []feedEffect {
	m.out = nil
	switch e := event.(type) {
	case tune:
		m.tune(now, e)
	case void:
		m.voided(now)
	case fed:
		m.fed(e)
	case feedEnded:
		m.ended(now, e)
	case served:
		m.served(now, e)
	case misled:
		m.misled(now, e)
	case feedTick:
		m.tick(now, e)
	}
	return m.out
}

func (m *feedMachine) emit(e feedEffect) { m.out = append(m.out, e) }

// tune begins a life of the engine, or another size of its cache. The same once more asks only whether the feed has begun:
// the replica's actor was restarted.
func (m *feedMachine) tune(now time.Time, t tune) {
	if m.tuned != nil && *m.tuned == t {
		if m.begun {
			m.emit(feedBegun{})
		}
		return
	}
	m.close(now)
	if m.state == fleet.IndexApproximate {
		m.emit(closeRouted{})
	}
	m.tuned, m.begun, m.retry, m.failingSince = &t, false, m.cfg.RetryFirst, nil
	if !m.source {
		m.approximate(lapseSource, "the engine reports no cache events")
		return
	}
	m.become(fleet.IndexVoid, "a life of the engine begins")
	m.subscribe(now)
}

// voided forgets what is known: the engine is down, or another one serves.
func (m *feedMachine) voided(now time.Time) {
	switch {
	case m.tuned == nil:
	case m.state == fleet.IndexApproximate:
		m.emit(clearRouted{})
	default:
		m.begun = false // it will be told when somebody is there again
		m.close(now)
		m.become(fleet.IndexVoid, "the engine is down")
		m.resubscribe(now)
	}
}

func (m *feedMachine) subscribe(now time.Time) {
	m.run++
	m.open, m.rebuilt, m.opened, m.retryAt = true, false, now, nil
	m.emit(openFeed{run: m.run, shown: m.state != fleet.IndexApproximate})
}

// resubscribe plans the next subscription.
func (m *feedMachine) resubscribe(now time.Time) {
	at := now.Add(m.retry + time.Duration(0.2*m.rng.Float64()*float64(m.retry)))
	m.retryAt = &at
	m.retry = min(2*m.retry, m.cfg.RetryCap)
}

// close ends the subscription and all that was planned of it. One that lasted shows that the next need not wait long.
func (m *feedMachine) close(now time.Time) {
	if m.open {
		m.emit(closeFeed{})
		if now.Sub(m.opened) > m.cfg.RetryCap {
			m.retry, m.failingSince = m.cfg.RetryFirst, nil
		}
	}
	m.open, m.retryAt, m.owed = false, nil, nil
}

func (m *feedMachine) become(s fleet.IndexState, why string) {
	if m.state != s {
		m.state = s
		m.emit(nowIndex{s, why})
	}
}

// begin tells the replica's actor, once a life.
func (m *feedMachine) begin() {
	if !m.begun {
		m.begun = true
		m.emit(feedBegun{})
	}
}

// approximate goes on without events.
func (m *feedMachine) approximate(l lapse, why string) {
	m.lapse = l
	m.emit(openRouted{})
	m.become(fleet.IndexApproximate, why)
	m.begin()
}

func (m *feedMachine) fed(e fed) {
	if !m.open || e.run != m.run {
		return
	}
	if m.state == fleet.IndexApproximate {
		if m.convinces(e) {
			m.emit(closeRouted{})
			m.emit(showFeed{})
			m.become(indexState(e.state), "the engine's events flow again")
		}
	} else {
		switch {
		case e.moved:
			m.emit(showFeed{})
		case e.anew:
			m.emit(feedAnew{})
		}
		m.become(indexState(e.state), worth(e.state))
		if e.state != engine.KVReplaying {
			m.begin()
		}
	}
	m.rebuilt = m.rebuilt || e.state != engine.KVReplaying
}

// convinces says whether a batch ends the approximation. After silence the past alone, which any replay can tell, does not.
func (m *feedMachine) convinces(e fed) bool {
	if m.lapse == lapseSilent {
		return m.rebuilt && e.events
	}
	return e.state == engine.KVLive || e.events && e.state != engine.KVReplaying
}

// worth says in words what a feed's word is worth.
func worth(s engine.KVState) string {
	switch s {
	case engine.KVLive:
		return "every event was seen"
	case engine.KVReplaying:
		return "events are missing and asked for again"
	case engine.KVPartial, engine.NumKVStates:
	}
	return "what came before is not known"
}

func indexState(s engine.KVState) fleet.IndexState {
	switch s {
	case engine.KVLive:
		return fleet.IndexLive
	case engine.KVReplaying:
		return fleet.IndexReplaying
	case engine.KVPartial, engine.NumKVStates:
	}
	return fleet.IndexPartial
}

func (m *feedMachine) ended(now time.Time, e feedEnded) {
	if !m.open || e.run != m.run {
		return
	}
	m.close(now)
	if errors.Is(e.err, engine.ErrNoKVEvents) {
		if m.state != fleet.IndexApproximate {
			m.approximate(lapseAbsent, "the engine publishes no cache events")
		}
		m.lapse = lapseAbsent
		at := now.Add(m.cfg.AbsentRetry)
		m.retryAt = &at
		return
	}
	m.resubscribe(now)
	if m.state == fleet.IndexApproximate {
		return
	}
	if m.failingSince == nil {
		m.failingSince = &now
	}
	if now.Sub(*m.failingSince) >= m.cfg.Silence {
		m.approximate(lapseFailing, "the engine's events cannot be subscribed to: "+e.word())
		return
	}
	m.become(fleet.IndexVoid, "the feed has broken: "+e.word())
}

// served notes work that must have changed the engine's cache: at least one whole block of a sequence is new. Its last
// token may not be computed yet.
func (m *feedMachine) served(now time.Time, e served) {
	if !m.open || m.state == fleet.IndexApproximate || m.owed != nil || e.freshTokens <= m.tuned.blockTokens {
		return
	}
	if e.last.Before(e.began) {
		m.owed = &debt{began: e.began, since: now}
	}
}

// misled forgets what the engine disproves.
func (m *feedMachine) misled(now time.Time, e misled) {
	switch m.state {
	case fleet.IndexApproximate:
		m.emit(distrusted(e))
		m.emit(clearRouted{})
	case fleet.IndexLive, fleet.IndexReplaying, fleet.IndexPartial:
		m.emit(distrusted(e))
		m.close(now)
		m.become(fleet.IndexVoid, e.why)
		m.resubscribe(now)
	case fleet.IndexNone, fleet.IndexVoid, fleet.NumIndexStates:
	}
}

func (m *feedMachine) tick(now time.Time, e feedTick) {
	if m.owed != nil && !e.last.Before(m.owed.began) {
		m.owed = nil
	}
	if m.owed != nil && !now.Before(m.owed.since.Add(m.cfg.Silence)) {
		m.close(now)
		m.approximate(lapseSilent, "the engine works and its feed says nothing")
		m.resubscribe(now)
	}
	if m.retryAt != nil && !now.Before(*m.retryAt) {
		m.subscribe(now)
	}
}

// nextTick is when the machine wants a tick, if at all.
func (m *feedMachine) nextTick() (time.Time, bool) {
	var at time.Time
	ok := false
	if m.retryAt != nil {
		at, ok = *m.retryAt, true
	}
	if m.owed != nil {
		if due := m.owed.since.Add(m.cfg.Silence); !ok || due.Before(at) {
			at, ok = due, true
		}
	}
	return at, ok
}
