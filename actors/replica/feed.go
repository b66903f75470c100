package replica

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"plimsoll/actors/meter"
	"plimsoll/actors/supervise"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
)

// feed keeps its replica's part of the index, from the engine's cache events or from what was routed there, as its machine
// decides. Subscriptions run in goroutines that end with the actor.
type feed struct {
	deps   Deps
	parent *actor.PID
	source engine.KVSource // nil: the engine reports nothing
	m      *feedMachine
	meter  *meter.Feed
	alarm  supervise.Alarm
	log    *slog.Logger // names the replica
	states stateLog

	sub      *subscription // nil while none runs
	routed   *Place        // nil unless what is routed is remembered
	trusted  time.Time     // since when the index is built from what counts now: older predictions are not its own
	audit    prefix.Audit  // of predictions since then
	reportAt time.Time

	owed       []Learned // whose events have not come
	owedTokens scoring.Tokens

	reported  *Place // as of the last report
	overflows uint64 // of that place then
}

// reportEvery is how often the metrics are told what the index holds.
const reportEvery = 2 * time.Second

// Patience that operators need not set.
const (
	feedRetryFirst  = 50 * time.Millisecond
	feedRetryCap    = 5 * time.Second
	feedAbsentRetry = time.Minute
)

func newFeed(cfg Config, deps Deps, parent *actor.PID) *feed {
	f := &feed{
		deps: deps, parent: parent, meter: deps.Meter.Feed(string(deps.Ref.ID)),
		log: deps.Log.With(slog.String("replica", string(deps.Ref.ID))),
	}
	if deps.Ref.Capabilities.KVEvents {
		f.source, _ = deps.Ref.Engine.(engine.KVSource)
	}
	f.m = newFeedMachine(feedConfig{
		Silence: cfg.FeedSilence, RetryFirst: feedRetryFirst, RetryCap: feedRetryCap, AbsentRetry: feedAbsentRetry,
	}, rand.New(rand.NewPCG(deps.Seed, 2)), f.source != nil, deps.Ref.feed.run.Load())
	return f
}

// Receive implements actor.Actor.
func (f *feed) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		f.reportAt = time.Now().Add(reportEvery)
		f.become(IndexNone)
		if t := f.deps.Ref.feed.tuned.Load(); t != nil { // an instance before this one was told, and nobody tells again
			f.step(c, *t)
		}
	case *actor.Stopping, *actor.Restarting:
		f.stop()
		return
	case tune:
		f.deps.Ref.feed.tuned.Store(&m)
		f.step(c, m)
	case Learned:
		f.learn(c, m)
	case Cached:
		f.cached(c, m)
	case feedTick:
		f.alarm.Rung()
		f.tick(c)
	case fed:
		f.step(c, m)
	case feedEnded:
		f.step(c, m)
	case void:
		f.step(c, m)
	default:
		return
	}
	f.arm(c)
}

// step has the machine take an event and does what it asks for.
func (f *feed) step(c actor.Context, event any) {
	for _, e := range f.m.step(time.Now(), event) {
		switch e := e.(type) {
		case openFeed:
			f.subscribe(c, e)
		case closeFeed:
			f.unsubscribe()
		case showFeed:
			f.show()
		case feedAnew:
			f.trust()
		case openRouted:
			f.trust()
			f.routed = newPlace(f.deps.Indexes, *f.m.tuned, f.m.tuned.blockTokens, prefix.Routed, prefix.Counted)
			for i := range f.owed {
				f.remember(&f.owed[i])
			}
			f.deps.Ref.place.Store(f.routed)
		case closeRouted:
			f.forgetRouted()
		case clearRouted:
			f.trust()
			f.routed.Index.Void(f.routed.Slot)
		case nowIndex:
			f.become(e.state)
			f.deps.Ref.feed.why.Store(&e.why)
			f.states.now(time.Now(), f.log, e)
		case feedBegun:
			c.Send(f.parent, FeedReady{f.m.tuned.incarnation})
		case distrusted:
			f.meter.Distrusted()
			f.log.Warn("replica index built anew", slog.String("why", e.why))
		}
	}
	if f.m.owed == nil {
		f.owed, f.owedTokens = nil, 0 // their events have come, or are of no more interest
	}
}

func (f *feed) become(s IndexState) {
	f.deps.Ref.feed.state.Store(uint32(s))
	f.meter.State(s.String(), IndexStates())
}

func (f *feed) subscribe(c actor.Context, e openFeed) {
	ctx, cancel := context.WithCancel(context.Background())
	self, root := c.Self(), c.ActorSystem().Root
	s := &subscription{
		run: e.run, life: *f.m.tuned, indexes: f.deps.Indexes, copies: f.deps.Ref.Capabilities.KVCopies, meter: f.meter,
		tell: func(message any) { root.Send(self, message) }, cancel: cancel, ended: make(chan struct{}),
		figures: &f.deps.Ref.feed,
	}
	s.settle(s.life.blockTokens)
	s.hidden.Store(!e.shown)
	f.sub = s
	f.deps.Ref.feed.run.Store(s.run)
	if e.shown {
		f.show()
	}
	source := f.source
	supervise.Go(f.deps.Log, "cache feed", func() {
		err := source.Subscribe(ctx, func(b engine.KVBatch) { s.take(time.Now(), b) })
		s.tell(feedEnded{s.run, err})
	}, func(value any) {
		s.tell(feedEnded{s.run, &supervise.PanicError{Value: value}})
	}, func() { close(s.ended) })
}

// unsubscribe ends the subscription and gives its slots back.
func (f *feed) unsubscribe() {
	s := f.sub
	f.sub = nil
	s.cancel()
	<-s.ended // the source promises to return when its context ends
	place := s.now()
	if !s.hidden.Load() {
		f.deps.Ref.place.Store(nil)
	}
	place.free(f.deps.Indexes)
	for _, p := range s.takeFormer() {
		p.free(f.deps.Indexes)
	}
}

// show publishes the subscription's slot.
func (f *feed) show() {
	f.trust()
	f.sub.hidden.Store(false)
	f.deps.Ref.place.Store(f.sub.now())
	for _, p := range f.sub.takeFormer() {
		p.free(f.deps.Indexes)
	}
}

func (f *feed) forgetRouted() {
	f.deps.Ref.place.Store(nil)
	f.routed.free(f.deps.Indexes)
	f.routed = nil
}

func (f *feed) stop() {
	f.alarm.Stop()
	if f.sub != nil {
		f.unsubscribe()
	}
	if f.routed != nil {
		f.forgetRouted()
	}
	f.become(IndexNone)
}

// learn notes what an engine has computed: that its events are owed or, where there are none, what it now holds.
func (f *feed) learn(c actor.Context, l Learned) {
	if f.routed == nil {
		f.step(c, served{began: l.Began, freshTokens: l.FreshTokens, last: f.last()})
		f.owe(l)
		return
	}
	f.remember(&l)
}

// owe keeps what was computed while its events have not come, up to what the engine's cache holds: if they never do, it is the
// first that is remembered instead.
func (f *feed) owe(l Learned) {
	tokens := scoring.Tokens(len(l.Prompt) + len(l.Output))
	if f.m.owed != nil && tokens > 0 && f.owedTokens+tokens <= f.m.tuned.capacity {
		f.owed, f.owedTokens = append(f.owed, l), f.owedTokens+tokens
	}
}

// remember takes a sequence for cached.
func (f *feed) remember(l *Learned) {
	ns := prefix.Namespace{Model: f.deps.Ref.Model, LoRA: l.LoRA, Salt: l.Salt}
	f.routed.Index.Routed(f.routed.Slot, l.keys(ns.Seed(), int(f.routed.BlockTokens)))
}

// keys are the block keys of prompt and output as one sequence.
func (l *Learned) keys(seed prefix.Key, blockTokens int) []prefix.Key {
	whole := len(l.Prompt) / blockTokens * blockTokens
	keys := make([]prefix.Key, 0, (len(l.Prompt)+len(l.Output))/blockTokens)
	keys = prefix.AppendKeys(keys, seed, l.Prompt[:whole], blockTokens)
	if len(l.Output) == 0 {
		return keys
	}
	if len(keys) > 0 {
		seed = keys[len(keys)-1]
	}
	rest := make([]uint32, 0, len(l.Prompt)-whole+len(l.Output))
	return prefix.AppendKeys(keys, seed, append(append(rest, l.Prompt[whole:]...), l.Output...), blockTokens)
}

// trust begins the audit anew: the index is.
func (f *feed) trust() {
	f.trusted = time.Now()
	f.audit.Reset()
}

// cached compares what was predicted with what the engine found.
func (f *feed) cached(c actor.Context, m Cached) {
	f.meter.Cached(int(m.PredictedTokens), int(m.ReportedTokens))
	figures := &f.deps.Ref.feed
	figures.predicted.Add(uint64(max(0, m.PredictedTokens))) //nolint:gosec // not negative
	figures.reported.Add(uint64(max(0, m.ReportedTokens)))   //nolint:gosec // not negative
	p := f.deps.Ref.Place()
	if p == nil || p.Incarnation != m.Incarnation || m.Began.Before(f.trusted) {
		return // another index predicted it
	}
	if f.audit.Request(int(m.PredictedTokens), int(m.ReportedTokens), int(p.BlockTokens)) {
		f.step(c, misled{"the engine finds less of its prompts cached than was predicted"})
	}
}

func (f *feed) tick(c actor.Context) {
	now := time.Now()
	if !now.Before(f.reportAt) {
		f.reportAt = now.Add(reportEvery)
		f.states.catchUp(now, f.log)
		if f.report() {
			f.step(c, misled{"it held more than the engine can: removals are lost"})
		}
	}
	f.step(c, feedTick{last: f.last()})
}

// report tells the metrics what the index holds. It returns true if that was more than the engine can hold since the last
// report, so that the index began anew in the middle: removals are lost, and what it holds now is not all.
func (f *feed) report() (overflown bool) {
	p := f.deps.Ref.Place()
	if p == nil {
		f.meter.Index(prefix.Stats{})
		return false
	}
	stats := p.Index.Stats(p.Slot)
	f.meter.Index(stats)
	before := f.overflows
	if p != f.reported {
		before = 0
	}
	f.reported, f.overflows = p, stats.Overflows
	return stats.Overflows > before
}

// last is when a batch came last.
func (f *feed) last() time.Time { return f.deps.Ref.feed.last() }

// arm keeps the one timer at the time that the machine or the report wants.
func (f *feed) arm(c actor.Context) {
	at := f.reportAt
	if wanted, ok := f.m.nextTick(); ok && wanted.Before(at) {
		at = wanted
	}
	self, root := c.Self(), c.ActorSystem().Root
	f.alarm.Set(at, true, func() { root.Send(self, feedTick{}) })
}
