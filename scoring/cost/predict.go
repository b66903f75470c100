package cost

import (
	"time"

	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// Demand is the request as the formula sees it.
type Demand struct {
	PromptTokens scoring.Tokens
	OutputTokens scoring.Tokens // predicted
}

// Replica is one replica as the formula sees it: its last load snapshot and what the router sent it since.
type Replica struct {
	Load ledger.Load
	// Pending counts requests that were sent and are not in Load yet.
	PendingRequests      int
	PendingPrefillTokens scoring.Tokens
	// PrefillElapsed is how long the oldest prefill in Load has been under way.
	PrefillElapsed time.Duration
}

// Weights lean the sum; with the defaults no part needs tuning for a usual fleet.
type Weights struct {
	Wait      float64 // of waiting for the prefill queue
	Prefill   float64 // of the request's own prefill: higher leans to cache reuse
	Decode    float64 // of the request's own decode
	Residents float64 // of what it costs the requests already there: higher leans to even load
}

// DefaultWeights count waiting and prefill fully. Decode counts half: it is spread over a whole answer, and the
// published trial found 0.5 the best lower bound of its weight.
func DefaultWeights() Weights { return Weights{Wait: 1, Prefill: 1, Decode: 0.5, Residents: 1} }

// Breakdown is a predicted cost in weighted seconds, part by part.
type Breakdown struct {
	WaitSeconds     float64 // until its prefill can start
	PrefillSeconds  float64 // its own prefill
	DecodeSeconds   float64 // its own decode, at the batch it will join
	ResidentSeconds float64 // delay of those already there: stalled by its prefill, slowed by its KV
}

// TotalSeconds is the sum, by which replicas are ranked.
func (b Breakdown) TotalSeconds() float64 {
	return b.WaitSeconds + b.PrefillSeconds + b.DecodeSeconds + b.ResidentSeconds
}

// elapsedShareMax bounds the credit for the oldest prefill's progress: a prediction that was too short must not turn
// into a replica that seems idle.
const elapsedShareMax = 0.9

// Predict returns what it costs to send the demand to the replica, where its first hit prompt tokens are cached.
func Predict(d Demand, r Replica, hit scoring.Tokens, rates Rates, w Weights) Breakdown {
	hit = max(0, min(hit, d.PromptTokens-1))
	own := rates.PrefillSeconds(d.PromptTokens-hit, hit)
	output := float64(max(0, d.OutputTokens))
	residents := float64(r.Load.Reserved + r.Load.Running + max(0, r.PendingRequests))
	// The batch it joins: what decodes now and what is being prefilled.
	kv := r.Load.DecodeKVTokens + r.Load.QueuedPrefillTokens + max(0, r.PendingPrefillTokens)

	b := Breakdown{
		WaitSeconds:    waitSeconds(r, rates),
		PrefillSeconds: own,
		DecodeSeconds:  output * rates.StepSecondsAt(kv+d.PromptTokens),
	}
	if residents > 0 {
		together := min(output, float64(r.Load.RemainingOutputTokens)/residents)
		slower := rates.StepSecondsPerKVToken * float64(max(0, d.PromptTokens)) * together
		b.ResidentSeconds = residents * (own + w.Decode*slower)
	}
	b.WaitSeconds *= w.Wait
	b.PrefillSeconds *= w.Prefill
	b.DecodeSeconds *= w.Decode
	b.ResidentSeconds *= w.Residents
	return b
}

// waitSeconds is the prefill work ahead, less what is done of the oldest.
func waitSeconds(r Replica, rates Rates) float64 {
	ld := r.Load
	queued := rates.PrefillSecondsPerToken*float64(ld.QueuedPrefillTokens) +
		rates.PrefillSecondsPerToken2*ld.QueuedPrefillTokens2
	oldest := rates.PrefillSecondsPerToken * float64(ld.OldestPrefillTokens)
	done := min(max(0, r.PrefillElapsed.Seconds()), elapsedShareMax*oldest)
	return max(0, queued-done) + rates.PrefillSeconds(max(0, r.PendingPrefillTokens), 0)
}
