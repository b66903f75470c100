package stream

import (
	"plimsoll/actors/fleet"
	"plimsoll/scoring"
)

// audit notes how much of its prompt the engine found cached, and tells the replica the first time. Answers to one prompt at
// once warm each other's cache in an order that nobody knows, and of a prompt that the engine rendered the index knows nothing.
func (m *machine) audit(a *attempt, cached int) {
	if a.cached == nil && m.req.N == 1 && !m.raw(a.leg) {
		m.emit(toReplica{a.place.Ref, fleet.Cached{
			Incarnation: a.place.Incarnation, Began: a.began,
			PredictedTokens: a.place.OverlapTokens, ReportedTokens: scoring.Tokens(cached),
		}})
	}
	a.cached = &cached
}

// promptTokens is how long the attempt's prompt is. More cannot be cached of it, whatever an engine says, and of a prompt that
// an engine rendered without saying its length nothing can be said: 0.
func (a *attempt) promptTokens() int {
	if a.told != nil {
		return *a.told
	}
	return len(a.input)
}

// fresh is how much of an attempt's sequence its engine computed: the engine's own word for what was cached goes before ours.
func (a *attempt) fresh() scoring.Tokens {
	return a.prefilled() + scoring.Tokens(a.produced)
}

// prefilled is how much of its prompt.
func (a *attempt) prefilled() scoring.Tokens {
	if a.cached != nil {
		return max(1, a.place.Claim.PromptTokens-scoring.Tokens(*a.cached))
	}
	return a.place.Claim.PrefillTokens
}
