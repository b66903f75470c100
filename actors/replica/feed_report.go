package replica

import (
	"sync/atomic"
	"time"

	"plimsoll/scoring"
)

// feedFigures are what a feed shows to others; they outlive its actor.
type feedFigures struct {
	tuned     atomic.Pointer[tune] // what the feed was told last
	state     atomic.Uint32        // an IndexState
	why       atomic.Pointer[string]
	run       atomic.Uint64 // the last subscription's number
	base      time.Time     // since when lastBatch counts
	lastBatch atomic.Int64  // nanoseconds; 0: none has come
	predicted atomic.Uint64 // cached prompt tokens
	reported  atomic.Uint64
}

// came notes a batch.
func (f *feedFigures) came(now time.Time) { f.lastBatch.Store(max(1, int64(now.Sub(f.base)))) }

func (f *feedFigures) last() time.Time {
	if nano := f.lastBatch.Load(); nano != 0 {
		return f.base.Add(time.Duration(nano)) // on the monotonic clock
	}
	return time.Time{}
}

// FeedReport says how a replica's feed does.
type FeedReport struct {
	State     IndexState
	Why       string    // it is in this state
	LastBatch time.Time // when events came last; the zero time if none have
	// PredictedTokens are the prompt tokens that the index said are cached, ReportedTokens those that the engine found,
	// over the requests whose engine told.
	PredictedTokens, ReportedTokens scoring.Tokens
}

// Feed returns how the replica's part of the index does.
func (r *Ref) Feed() FeedReport {
	f := &r.feed
	report := FeedReport{
		State: IndexState(f.state.Load()), LastBatch: f.last(), //nolint:gosec // a state
		PredictedTokens: scoring.Tokens(f.predicted.Load()), ReportedTokens: scoring.Tokens(f.reported.Load()), //nolint:gosec // counts
	}
	if why := f.why.Load(); why != nil {
		report.Why = *why
	}
	return report
}
