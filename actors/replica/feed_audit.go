package replica

import "plimsoll/scoring"

// Bounds of an audit. Some over-prediction is nobody's fault: blocks are evicted between a decision and its prefill.
const (
	auditLeast  = 16   // predictions before a verdict
	auditWindow = 64   // predictions after which one counts a third of what it did
	auditOften  = 0.25 // part of the predictions that may be too high
	auditMuch   = 0.2  // part of the predicted tokens that may be missing
)

// audit holds what an index predicted against what the engine found, and says when the index claims too much too often. It is
// pure.
type audit struct {
	seen      int
	count     float64 // of predictions, older ones fading
	over      float64 // of those that were too high by a block or more
	predicted float64 // tokens
	missing   float64 // of them
}

// observe takes a request's cached prompt tokens as predicted and as found, and says whether the index is to be distrusted. It
// is if both the number of predictions that were too high and what they missed by are no exceptions.
func (a *audit) observe(predicted, found, blockTokens scoring.Tokens) bool {
	if predicted <= 0 {
		return false
	}
	const fade = 1 - 1.0/auditWindow
	a.count, a.over, a.predicted, a.missing = a.count*fade, a.over*fade, a.predicted*fade, a.missing*fade
	a.seen++
	a.count++
	a.predicted += float64(predicted)
	if missing := predicted - found; missing > 0 {
		a.missing += float64(missing)
		if missing >= blockTokens {
			a.over++
		}
	}
	return a.seen >= auditLeast && a.over > auditOften*a.count && a.missing > auditMuch*a.predicted
}
