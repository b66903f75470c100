package replica

import (
	"math/rand/v2"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
)

// Feed keeps its replica's part of the index, from the engine's cache events or from what was routed there, as its machine
// decides: all that the feed's actor does but for its goroutines, timer, metrics and log. The simulator drives the very same
// with a clock, a mail and engines of its own. It is the only one who publishes the replica's [fleet.Place]. One goroutine at a time
// calls it; each [Subscription] has another.
type Feed struct {
	ref     *fleet.Ref
	memory  *Memory
	indexes *Indexes
	m       *feedMachine

	sub      *Subscription // nil while none runs
	routed   *fleet.Place  // nil unless what is routed is remembered
	trusted  time.Time     // since when the index is built from what counts now: older predictions are not its own
	audit    prefix.Audit  // of predictions since then
	reportAt time.Time

	owed       []fleet.Learned // whose events have not come
	owedTokens scoring.Tokens

	reported  *fleet.Place // as of the last report
	overflows uint64       // of that place then
}

// FeedShell does what a feed asks for, in the order in which it is called.
type FeedShell interface {
	// Subscribe begins to listen to the engine's cache events. One goroutine calls what the subscription has.
	Subscribe(s *Subscription)
	// Unsubscribe ends the subscription: when it returns, nothing of it is called any more.
	Unsubscribe()
	// Ready tells the replica's actor that nothing is awaited of the feed in a life of the engine any more.
	Ready(incarnation uint64)
	// Became tells in what state the index is now and why; why is "" where the feed begins or ends.
	Became(state fleet.IndexState, why string)
	// Distrusted tells why what the index claimed is believed no more.
	Distrusted(why string)
	// Report tells what the index holds, from time to time.
	Report(stats prefix.Stats)
}

// reportEvery is how often it is told what the index holds.
const reportEvery = 2 * time.Second

// Patience that operators need not set.
const (
	feedRetryFirst  = 50 * time.Millisecond
	feedRetryCap    = 5 * time.Second
	feedAbsentRetry = time.Minute
)

// NewFeed returns a replica's feed, which begins with Start. events: there is something to subscribe to.
func NewFeed(cfg Config, ref *fleet.Ref, memory *Memory, indexes *Indexes, events bool, rng *rand.Rand) *Feed {
	return &Feed{
		ref: ref, memory: memory, indexes: indexes,
		m: newFeedMachine(feedConfig{
			Silence: cfg.FeedSilence, RetryFirst: feedRetryFirst, RetryCap: feedRetryCap, AbsentRetry: feedAbsentRetry,
		}, rng, events, memory.run.Load()),
	}
}

// Start begins where the feed before it, if there was one, has left off: what that was told nobody tells again.
func (f *Feed) Start(now time.Time, to FeedShell) {
	f.reportAt = now.Add(reportEvery)
	f.become(fleet.IndexNone, to)
	if t := f.memory.tuned.Load(); t != nil {
		f.step(now, *t, to)
	}
}

// Tune says at what index block size and capacity the feed works from now on, for which life.
func (f *Feed) Tune(now time.Time, blockTokens, capacity scoring.Tokens, incarnation uint64, to FeedShell) {
	t := tune{blockTokens: blockTokens, capacity: capacity, incarnation: incarnation}
	f.memory.tuned.Store(&t)
	f.step(now, t, to)
}

// Void says that what the feed knows counts no more.
func (f *Feed) Void(now time.Time, to FeedShell) { f.step(now, void{}, to) }

// Message takes a [fleet.Learned] or a [fleet.Cached] of the feed's replica, or news of a subscription. It takes nothing else.
func (f *Feed) Message(now time.Time, message any, to FeedShell) {
	switch m := message.(type) {
	case fleet.Learned:
		f.learn(now, m, to)
	case fleet.Cached:
		f.cached(now, m, to)
	case fed, feedEnded:
		f.step(now, m, to)
	}
}

// NextTick is when the feed wants Tick.
func (f *Feed) NextTick() time.Time {
	if wanted, ok := f.m.nextTick(); ok && wanted.Before(f.reportAt) {
		return wanted
	}
	return f.reportAt
}

// Tick says that the time has come which NextTick named, or that it has not yet.
func (f *Feed) Tick(now time.Time, to FeedShell) {
	if !now.Before(f.reportAt) {
		f.reportAt = now.Add(reportEvery)
		if f.report(to) {
			f.step(now, misled{"it held more than the engine can: removals are lost"}, to)
		}
	}
	f.step(now, feedTick{last: f.last()}, to)
}

// Stop gives all slots back.
func (f *Feed) Stop(to FeedShell) {
	if f.sub != nil {
		f.unsubscribe(to)
	}
	if f.routed != nil {
		f.forgetRouted()
	}
	f.become(fleet.IndexNone, to)
}

// step has the machine take an event and does what it asks for.
func (f *Feed) step(now time.Time, event any, to FeedShell) {
	for _, e := range f.m.step(now, event) {
		switch e := e.(type) {
		case openFeed:
			f.subscribe(now, e, to)
		case closeFeed:
			f.unsubscribe(to)
		case showFeed:
			f.show(now)
		case feedAnew:
			f.trust(now)
		case openRouted:
			f.trust(now)
			f.routed = newPlace(f.indexes, *f.m.tuned, f.m.tuned.blockTokens, prefix.Routed, prefix.Counted)
			for i := range f.owed {
				f.remember(&f.owed[i])
			}
			f.ref.SetPlace(f.routed)
		case closeRouted:
			f.forgetRouted()
		case clearRouted:
			f.trust(now)
			f.routed.Index.Void(f.routed.Slot)
		case nowIndex:
			f.ref.Figures().Become(e.state, &e.why)
			to.Became(e.state, e.why)
		case feedBegun:
			to.Ready(f.m.tuned.incarnation)
		case distrusted:
			to.Distrusted(e.why)
		}
	}
	if f.m.owed == nil {
		f.owed, f.owedTokens = nil, 0 // their events have come, or are of no more interest
	}
}

func (f *Feed) become(s fleet.IndexState, to FeedShell) {
	f.ref.Figures().Become(s, nil)
	to.Became(s, "")
}

func (f *Feed) subscribe(now time.Time, e openFeed, to FeedShell) {
	s := &Subscription{
		run: e.run, life: *f.m.tuned, indexes: f.indexes, copies: f.ref.Capabilities.KVCopies, figures: f.ref.Figures(),
	}
	s.settle(s.life.blockTokens)
	s.hidden.Store(!e.shown)
	f.sub = s
	f.memory.run.Store(s.run)
	if e.shown {
		f.show(now)
	}
	to.Subscribe(s)
}

// unsubscribe ends the subscription and gives its slots back.
func (f *Feed) unsubscribe(to FeedShell) {
	s := f.sub
	f.sub = nil
	to.Unsubscribe()
	place := s.now()
	if !s.hidden.Load() {
		f.ref.SetPlace(nil)
	}
	free(place, f.indexes)
	for _, p := range s.takeFormer() {
		free(p, f.indexes)
	}
}

// show publishes the subscription's slot.
func (f *Feed) show(now time.Time) {
	f.trust(now)
	f.sub.hidden.Store(false)
	f.ref.SetPlace(f.sub.now())
	for _, p := range f.sub.takeFormer() {
		free(p, f.indexes)
	}
}

func (f *Feed) forgetRouted() {
	f.ref.SetPlace(nil)
	free(f.routed, f.indexes)
	f.routed = nil
}

// learn notes what an engine has computed: that its events are owed or, where there are none, what it now holds.
func (f *Feed) learn(now time.Time, l fleet.Learned, to FeedShell) {
	if f.routed == nil {
		f.step(now, served{began: l.Began, freshTokens: l.FreshTokens, last: f.last()}, to)
		f.owe(l)
		return
	}
	f.remember(&l)
}

// owe keeps what was computed while its events have not come, up to what the engine's cache holds: if they never do, it is the
// first that is remembered instead.
func (f *Feed) owe(l fleet.Learned) {
	tokens := scoring.Tokens(len(l.Prompt) + len(l.Output))
	if f.m.owed != nil && tokens > 0 && f.owedTokens+tokens <= f.m.tuned.capacity {
		f.owed, f.owedTokens = append(f.owed, l), f.owedTokens+tokens
	}
}

// remember takes a sequence for cached.
func (f *Feed) remember(l *fleet.Learned) {
	ns := prefix.Namespace{Model: f.ref.Model, LoRA: l.LoRA, Salt: l.Salt}
	f.routed.Index.Routed(f.routed.Slot, keysOf(l, ns.Seed(), int(f.routed.BlockTokens)))
}

// keysOf are the block keys of prompt and output as one sequence.
func keysOf(l *fleet.Learned, seed prefix.Key, blockTokens int) []prefix.Key {
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
func (f *Feed) trust(now time.Time) {
	f.trusted = now
	f.audit.Reset()
}

// cached compares what was predicted with what the engine found.
func (f *Feed) cached(now time.Time, m fleet.Cached, to FeedShell) {
	f.ref.Figures().Compared(m.PredictedTokens, m.ReportedTokens)
	p := f.ref.Place()
	if p == nil || p.Incarnation != m.Incarnation || m.Began.Before(f.trusted) {
		return // another index predicted it
	}
	if f.audit.Request(int(m.PredictedTokens), int(m.ReportedTokens), int(p.BlockTokens)) {
		f.step(now, misled{"the engine finds less of its prompts cached than was predicted"}, to)
	}
}

// report tells what the index holds. It returns true if that was more than the engine can hold since the last report, so that
// the index began anew in the middle: removals are lost, and what it holds now is not all.
func (f *Feed) report(to FeedShell) (overflown bool) {
	p := f.ref.Place()
	if p == nil {
		to.Report(prefix.Stats{})
		return false
	}
	stats := p.Index.Stats(p.Slot)
	to.Report(stats)
	before := f.overflows
	if p != f.reported {
		before = 0
	}
	f.reported, f.overflows = p, stats.Overflows
	return stats.Overflows > before
}

// last is when a batch came last.
func (f *Feed) last() time.Time { return f.ref.Figures().Last() }
