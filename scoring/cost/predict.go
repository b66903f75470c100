package cost

import (
	"time"

	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// Demand is the request as the formula sees it.
type Demand struct {
	PromptTokens scoring.Tokens
	OutputTokens scoring.Tokens // expected
}

// Pending is what was sent to a replica and is not in its load snapshot yet.
type Pending struct {
	Requests      int
	PromptTokens  scoring.Tokens
	PrefillTokens scoring.Tokens // the part of them that is not cached there
	OutputTokens  scoring.Tokens // expected
}

// Replica is one replica as the formula sees it, whatever the request.
type Replica struct {
	Rates           Rates
	WaitSeconds     float64 // until a prompt that comes now can start
	Residents       float64 // requests that are there
	KVTokens        float64 // their prompts and what they have produced
	RemainingTokens float64 // what they will produce yet
}

// elapsedShareMax bounds the credit for the oldest prefill's progress: a prediction that was too short must not turn
// into a replica that seems idle.
const elapsedShareMax = 0.9

// ReplicaAt is a replica as it stands at a moment.
func ReplicaAt(now time.Time, ld *ledger.Load, p Pending, rates Rates) Replica {
	return Replica{
		Rates:           rates,
		WaitSeconds:     waitSeconds(now, ld, p, &rates),
		Residents:       float64(ld.Reserved + ld.Running + p.Requests),
		KVTokens:        float64(ld.DecodeKVTokens + ld.ReservedPromptTokens + p.PromptTokens),
		RemainingTokens: float64(ld.RemainingOutputTokens + p.OutputTokens),
	}
}

// waitSeconds is the prefill work ahead, less what is done of the oldest.
func waitSeconds(now time.Time, ld *ledger.Load, p Pending, rates *Rates) float64 {
	queued := rates.PrefillSecondsPerToken*float64(ld.QueuedPrefillTokens) +
		rates.PrefillSecondsPerToken2*ld.QueuedPrefillTokens2
	if ld.OldestPrefill != nil {
		oldest := rates.PrefillSeconds(ld.OldestPrefillTokens, 0)
		queued -= min(max(0, now.Sub(*ld.OldestPrefill).Seconds()), elapsedShareMax*oldest)
	}
	return max(0, queued) + rates.PrefillSeconds(p.PrefillTokens, p.PromptTokens-p.PrefillTokens)
}

// Weights lean the sum for operators; with all at 1 nothing leans.
type Weights struct {
	Reuse float64 // of the price of new cache blocks: above 1 leans to cache reuse, below to even load
	TTFT  float64 // of its own time to first token: above 1 leans to short waits for it, below to the pace of all
}

// DefaultWeights lean nowhere.
func DefaultWeights() Weights { return Weights{Reuse: 1, TTFT: 1} }

// Prices are what the parts of the sum are worth at a moment. They depend on the fleet, not on the replica.
type Prices struct {
	Decode    float64 // of a second of decode beside one of waiting: it grows with the load
	NewBlocks float64 // of a second of prefill that fills new cache blocks, over the prefill itself
	Others    float64 // of what others lose, 0 to 1: who has waited its share cares less
}

// Held is what requests that wait for a replica will bring there, as far as they stand before this one.
type Held struct {
	Requests       float64
	PrefillSeconds float64
}

// Breakdown is a predicted cost in weighted seconds, part by part.
type Breakdown struct {
	WaitSeconds      float64 // until its prefill can start
	HeldSeconds      float64 // behind those that wait for the same replica
	PrefillSeconds   float64 // its own prefill
	DecodeSeconds    float64 // its own decode, at the batch it will join
	StallSeconds     float64 // of those there, by its prefill
	SlowerSeconds    float64 // of their steps, by its KV
	NewBlocksSeconds float64 // what its new blocks push out of the cache
	MemorySeconds    float64 // until there is room for it
}

// Parts lists the parts in the order of PartNames.
func (b *Breakdown) Parts() [8]float64 {
	return [...]float64{
		b.WaitSeconds, b.HeldSeconds, b.PrefillSeconds, b.DecodeSeconds, b.StallSeconds, b.SlowerSeconds, b.NewBlocksSeconds,
		b.MemorySeconds,
	}
}

// PartNames are the words for the parts in tables.
func PartNames() [8]string {
	return [...]string{"wait", "held", "prefill", "decode", "stall", "slower", "new blocks", "memory"}
}

// TotalSeconds is the sum, by which replicas are ranked.
func (b *Breakdown) TotalSeconds() float64 {
	return b.WaitSeconds + b.HeldSeconds + b.PrefillSeconds + b.DecodeSeconds + b.StallSeconds + b.SlowerSeconds +
		b.NewBlocksSeconds + b.MemorySeconds
}

// OwnPrefillSeconds is the prefill of the demand where hit of its prompt is cached; the last token is always computed.
func (r *Replica) OwnPrefillSeconds(d *Demand, hit scoring.Tokens) float64 {
	hit = max(0, min(hit, d.PromptTokens-1))
	return r.Rates.PrefillSeconds(d.PromptTokens-hit, hit)
}

// Cost is what it costs to send the demand to the replica, where its first hit prompt tokens are cached.
func (r *Replica) Cost(d *Demand, hit scoring.Tokens, held Held, p *Prices, w *Weights) Breakdown {
	prefill := r.OwnPrefillSeconds(d, hit)
	output, prompt := float64(max(0, d.OutputTokens)), float64(max(0, d.PromptTokens))
	residents := r.Residents + held.Requests
	decode := p.Others * p.Decode
	b := Breakdown{
		WaitSeconds:      w.TTFT * r.WaitSeconds,
		HeldSeconds:      w.TTFT * held.PrefillSeconds,
		PrefillSeconds:   w.TTFT * prefill,
		DecodeSeconds:    decode * output * (r.Rates.StepSeconds + r.Rates.StepSecondsPerKVToken*(r.KVTokens+prompt)),
		StallSeconds:     p.Others * residents * prefill,
		NewBlocksSeconds: w.Reuse * p.Others * p.NewBlocks * prefill,
	}
	if r.Residents > 0 {
		together := min(output, r.RemainingTokens/r.Residents)
		b.SlowerSeconds = decode * residents * r.Rates.StepSecondsPerKVToken * prompt * together
	}
	return b
}

// MemorySeconds is about how long those there need until they have given back missing tokens of the kvTokens that they hold.
func (r *Replica) MemorySeconds(missing, kvTokens float64, p *Prices) float64 {
	if missing <= 0 || kvTokens <= 0 || r.Residents <= 0 {
		return 0
	}
	step := r.Rates.StepSeconds + r.Rates.StepSecondsPerKVToken*r.KVTokens
	return missing / kvTokens * 2 * r.RemainingTokens / r.Residents * step * max(1, p.Decode)
}
