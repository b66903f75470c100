package fleet

import (
	"sync/atomic"
	"time"

	"plimsoll/scoring"
)

// FeedFigures are what a replica's feed shows to others. They outlive its actor, which alone writes them; all may read.
type FeedFigures struct {
	state     atomic.Uint32 // an IndexState
	why       atomic.Pointer[string]
	base      time.Time    // since when lastBatch counts
	lastBatch atomic.Int64 // nanoseconds; 0: none has come
	predicted atomic.Uint64
	reported  atomic.Uint64
}

// Start begins without a batch. It is called before the figures are shared.
func (f *FeedFigures) Start(now time.Time) { f.base = now }

// Came notes a batch.
func (f *FeedFigures) Came(now time.Time) { f.lastBatch.Store(max(1, int64(now.Sub(f.base)))) }

// Last is when a batch came last; the zero time if none has.
func (f *FeedFigures) Last() time.Time {
	if nano := f.lastBatch.Load(); nano != 0 {
		return f.base.Add(time.Duration(nano)) // on the monotonic clock
	}
	return time.Time{}
}

// Become notes the index's state; why says why it came about, nil leaves what was said of the one before.
func (f *FeedFigures) Become(s IndexState, why *string) {
	f.state.Store(uint32(s))
	if why != nil {
		f.why.Store(why)
	}
}

// Compared adds what the index predicted of a prompt and what the engine reported.
func (f *FeedFigures) Compared(predicted, reported scoring.Tokens) {
	f.predicted.Add(uint64(max(0, predicted))) //nolint:gosec // not negative
	f.reported.Add(uint64(max(0, reported)))   //nolint:gosec // not negative
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

func (f *FeedFigures) report() FeedReport {
	report := FeedReport{
		State: IndexState(f.state.Load()), LastBatch: f.Last(), //nolint:gosec // a state
		PredictedTokens: scoring.Tokens(f.predicted.Load()), ReportedTokens: scoring.Tokens(f.reported.Load()), //nolint:gosec // counts
	}
	if why := f.why.Load(); why != nil {
		report.Why = *why
	}
	return report
}
