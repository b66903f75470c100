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
	Rates         Rates
	WaitSeconds   float64 // until a prompt that comes now can start
	Residents     float64 // requests that are there
	RemainingEach float64 // what one of them will produce yet, on average
	StepSeconds   float64 // of a decode step, over what is there
}

// elapsedShareMax bounds the credit for the oldest prefill's progress: a prediction that was too short must not turn
// into a replica that seems idle.
const elapsedShareMax = 0.9

// ReplicaAt is a replica as it stands at a moment.
func ReplicaAt(now time.Time, ld *ledger.Load, p Pending, rates Rates) Replica {
	var r Replica
	r.Stand(now, ld, &p, &rates)
	return r
}

// Stand makes r a replica as it stands at a moment.
func (r *Replica) Stand(now time.Time, ld *ledger.Load, p *Pending, rates *Rates) {
	r.Rates = *rates
	r.WaitSeconds = waitSeconds(now, ld, p, rates)
	r.Residents = float64(ld.Reserved + ld.Running + p.Requests)
	r.StepSeconds = rates.StepSecondsAt(ld.DecodeKVTokens + ld.ReservedPromptTokens + p.PromptTokens)
	r.RemainingEach = 0
	if r.Residents > 0 {
		r.RemainingEach = float64(ld.RemainingOutputTokens+p.OutputTokens) / r.Residents
	}
}

// waitSeconds is the prefill work ahead, less what is done of the oldest.
func waitSeconds(now time.Time, ld *ledger.Load, p *Pending, rates *Rates) float64 {
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
	Queue     float64 // of a second of prefill at the speed of Fleet, for those that wait in the router
	Fleet     Rates   // a usual replica: the same work counts the same wherever it is done
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
	QueueSeconds     float64 // of those that wait in the router, by the work that it brings to the fleet
	MemorySeconds    float64 // until there is room for it
}

// Parts lists the parts in the order of PartNames.
func (b *Breakdown) Parts() [9]float64 {
	return [...]float64{
		b.WaitSeconds, b.HeldSeconds, b.PrefillSeconds, b.DecodeSeconds, b.StallSeconds, b.SlowerSeconds, b.NewBlocksSeconds,
		b.QueueSeconds, b.MemorySeconds,
	}
}

// PartNames are the words for the parts in tables.
func PartNames() [9]string {
	return [...]string{"wait", "held", "prefill", "decode", "stall", "slower", "new blocks", "queue", "memory"}
}

// TotalSeconds is the sum, by which replicas are ranked.
func (b *Breakdown) TotalSeconds() float64 {
	return b.WaitSeconds + b.HeldSeconds + b.PrefillSeconds + b.DecodeSeconds + b.StallSeconds + b.SlowerSeconds +
		b.NewBlocksSeconds + b.QueueSeconds + b.MemorySeconds
}

// OwnPrefillSeconds is the prefill of the demand where hit of its prompt is cached; the last token is always computed.
func (r *Replica) OwnPrefillSeconds(d *Demand, hit scoring.Tokens) float64 {
	return d.prefillSeconds(hit, &r.Rates)
}

func (d *Demand) prefillSeconds(hit scoring.Tokens, rates *Rates) float64 {
	hit = max(0, min(hit, d.PromptTokens-1))
	return rates.PrefillSeconds(d.PromptTokens-hit, hit)
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
		DecodeSeconds:    decode * output * (r.StepSeconds + r.Rates.StepSecondsPerKVToken*prompt),
		StallSeconds:     p.Others * residents * prefill,
		NewBlocksSeconds: w.Reuse * p.Others * p.NewBlocks * prefill,
		QueueSeconds:     w.Reuse * p.Queue * d.prefillSeconds(hit, &p.Fleet),
	}
	b.SlowerSeconds = decode * residents * r.Rates.StepSecondsPerKVToken * prompt * min(output, r.RemainingEach)
	return b
}

// Quote is what of a request's cost is the same on every replica. It sums up many of them fast; [Replica.Cost] says what the sum is
// made of.
type Quote struct {
	promptTokens   scoring.Tokens
	prompt, output float64
	ttft           float64 // of its own time to first token
	others         float64 // of a second that a resident stands still
	decode         float64 // of a second of decode
	fresh          float64 // of a second of prefill, for the blocks that it fills
	// Of each uncached token, and of each and every one before it, for those that wait in the router.
	queue, queue2 float64
}

// Offer is what of a replica's cost is the same for every request.
type Offer struct {
	rates     Rates // StepSeconds over what is there
	waiting   float64
	residents float64 // those that wait for it included
	remaining float64
}

// Offer is what a replica offers to whoever comes behind those that wait for it.
func (r *Replica) Offer(held *Held, w *Weights) Offer {
	o := Offer{
		rates: r.Rates, waiting: w.TTFT * (r.WaitSeconds + held.PrefillSeconds), residents: r.Residents + held.Requests,
		remaining: r.RemainingEach,
	}
	o.rates.StepSeconds = r.StepSeconds
	return o
}

// NewQuote prices a demand.
func NewQuote(d *Demand, p *Prices, w *Weights) Quote {
	return Quote{
		promptTokens: d.PromptTokens, prompt: float64(max(0, d.PromptTokens)), output: float64(max(0, d.OutputTokens)),
		ttft: w.TTFT, others: p.Others, decode: p.Others * p.Decode, fresh: w.Reuse * p.Others * p.NewBlocks,
		queue:  w.Reuse * p.Queue * p.Fleet.PrefillSecondsPerToken,
		queue2: w.Reuse * p.Queue * p.Fleet.PrefillSecondsPerToken2,
	}
}

// Part is the part of a prompt that is to be computed.
type Part struct {
	tokens  float64
	context float64 // tokens before one of them, on average
	queued  float64 // what it costs those that wait in the router
}

// Part is what is left of the prompt where its first hit tokens are cached.
func (q *Quote) Part(hit scoring.Tokens) Part {
	cached := float64(max(0, min(hit, q.promptTokens-1)))
	fresh := q.prompt - cached
	context := cached + fresh/2
	return Part{fresh, context, fresh * (q.queue + q.queue2*context)}
}

// TotalSeconds is the sum of [Replica.Cost], the wait for memory left out.
func (q *Quote) TotalSeconds(o *Offer, p Part) float64 {
	prefill := p.tokens * (o.rates.PrefillSecondsPerToken + o.rates.PrefillSecondsPerToken2*p.context)
	perPrompt := o.rates.StepSecondsPerKVToken * q.prompt
	steps := q.output*(o.rates.StepSeconds+perPrompt) + o.residents*perPrompt*min(q.output, o.remaining)
	return p.queued + o.waiting + prefill*(q.ttft+q.others*o.residents+q.fresh) + q.decode*steps
}

// MemorySeconds is about how long those there need until they have given back missing tokens of the kvTokens that they hold.
func (r *Replica) MemorySeconds(missing, kvTokens float64, p *Prices) float64 {
	if missing <= 0 || kvTokens <= 0 || r.Residents <= 0 {
		return 0
	}
	return missing / kvTokens * 2 * r.RemainingEach * r.StepSeconds * max(1, p.Decode)
}
