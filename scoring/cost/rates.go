package cost

import (
	"time"

	"plimsoll/scoring"
)

// Rates say how fast a replica works. They follow a roofline: prefill is bound by arithmetic, a decode step by reading
// the weights and the KV of its batch, and by what is done for each of its sequences.
type Rates struct {
	// PrefillSecondsPerToken is for each uncached prompt token.
	PrefillSecondsPerToken float64
	// PrefillSecondsPerToken2 is for each uncached prompt token and token of context before it (attention).
	PrefillSecondsPerToken2 float64
	// PassSeconds is for each pass that computes prompts, however many and however short, beside a decode step.
	PassSeconds float64
	// StepSeconds is a decode step of an empty batch.
	StepSeconds float64
	// StepSecondsPerKVToken is added to a step for each KV token of the batch.
	StepSecondsPerKVToken float64
	// StepSecondsPerSequence is added to a step for each sequence of the batch: nothing where a step is bound by reading the
	// weights, a good part of it where a device computes slowly or the host does much for each sequence.
	StepSecondsPerSequence float64
}

// DefaultRates are those of an 8-billion-parameter model on one H100: 20,000 prompt tokens a second; a step of 10 ms
// alone and of 16 ms over 100,000 KV tokens. The quadratic part is 4*d_model*layers/(2*parameters) of the linear one.
func DefaultRates() Rates {
	const perToken = 1.0 / 20000
	return Rates{
		PrefillSecondsPerToken:  perToken,
		PrefillSecondsPerToken2: perToken * 3.27e-5,
		StepSeconds:             0.010,
		StepSecondsPerKVToken:   0.006 / 100_000,
	}
}

// PrefillSeconds is the time to compute tokens uncached prompt tokens behind hit cached ones, beside that of the pass.
func (r Rates) PrefillSeconds(tokens, hit scoring.Tokens) float64 {
	u := float64(max(0, tokens))
	return r.PrefillSecondsPerToken*u + r.PrefillSecondsPerToken2*u*(float64(max(0, hit))+u/2)
}

// StepSecondsAt is the time of a decode step of so many sequences over kv tokens.
func (r Rates) StepSecondsAt(sequences int, kv scoring.Tokens) float64 {
	return r.StepSeconds + r.StepSecondsPerSequence*float64(max(0, sequences)) + r.StepSecondsPerKVToken*float64(max(0, kv))
}

// JoinSeconds is what a sequence with so many tokens adds to each step of a batch that it joins.
func (r Rates) JoinSeconds(tokens scoring.Tokens) float64 {
	return r.StepSecondsPerSequence + r.StepSecondsPerKVToken*float64(max(0, tokens))
}

// at returns the rates of a replica with that pace.
func (r Rates) at(p pace) Rates {
	r.PrefillSecondsPerToken *= p.factor
	r.PrefillSecondsPerToken2 *= p.factor
	r.PassSeconds = p.pass
	return r
}

// Estimator says what to expect: of replicas and of answers. [Learner] is one.
type Estimator interface {
	// At returns a replica's rates, of one never seen those of its fleet, and the share of its time that it has spent on prefill in
	// the last half minute or so, below 1.
	At(now time.Time, id scoring.ReplicaID) (Rates, float64)
	// KnowsPrefill says whether the replica itself has shown how fast it prefills so many uncached tokens behind hit cached ones.
	KnowsPrefill(id scoring.ReplicaID, tokens, hit scoring.Tokens) bool
	// Answer predicts how long an answer becomes that may have maxTokens.
	Answer(prompt, maxTokens scoring.Tokens) Forecast
}
