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
	QueueSeconds  float64 // of prefill that it was sent: until a prompt that comes now could start, were nobody else there
	WaitSeconds   float64 // until it can start, behind those of others too
	Residents     float64 // requests that are there, others' too
	RemainingEach float64 // what one of them will produce yet, on average
	StepSeconds   float64 // of a decode step, over what is there
}

const (
	// elapsedShareMax bounds the credit for the oldest prefill's progress: a prediction that was too short must not turn
	// into a replica that seems idle.
	elapsedShareMax = 0.9
	// othersProduce is what a sequence of others is taken to produce yet: nobody tells.
	othersProduce = 256
)

// ReplicaAt is a replica as it stands at a moment.
func ReplicaAt(now time.Time, ld *ledger.Load, p Pending, rates Rates) Replica {
	var r Replica
	r.Stand(now, ld, &p, &rates)
	return r
}

// Stand makes r a replica as it stands at a moment. It is as busy with the sequences of others as with ours; those that wait in it
// stand before whatever comes, and get in one by one as those that run end.
func (r *Replica) Stand(now time.Time, ld *ledger.Load, p *Pending, rates *Rates) {
	ours := ld.Reserved + ld.Running + p.Requests
	kv := ld.DecodeKVTokens + ld.ReservedPromptTokens + p.PromptTokens + scoring.Tokens(ld.ForeignBlocks)*ld.Limits.BlockTokens
	remaining := float64(ld.RemainingOutputTokens+p.OutputTokens) + othersProduce*float64(ld.ForeignSeats)
	r.Rates = *rates
	r.Residents = float64(ours + ld.ForeignSeats)
	r.StepSeconds = rates.StepSecondsAt(ours+ld.ForeignSeats, kv)
	r.QueueSeconds = queueSeconds(now, ld, p, rates)
	r.WaitSeconds = r.QueueSeconds
	if ld.ForeignWaiting > 0 {
		r.WaitSeconds += float64(ld.ForeignWaiting) / float64(max(1, ld.Limits.Seats)) * othersProduce * r.StepSeconds
	}
	r.RemainingEach = 0
	if r.Residents > 0 {
		r.RemainingEach = remaining / r.Residents
	}
}

// queueSeconds is the prefill work ahead, less what is done of the oldest. What waits together is computed in one pass, as far as it
// goes into one.
func queueSeconds(now time.Time, ld *ledger.Load, p *Pending, rates *Rates) float64 {
	queued := rates.PrefillSecondsPerToken*float64(ld.QueuedPrefillTokens) +
		rates.PrefillSecondsPerToken2*ld.QueuedPrefillTokens2
	if ld.OldestPrefill != nil || p.PrefillTokens > 0 {
		queued += rates.PassSeconds
	}
	if ld.OldestPrefill != nil {
		oldest := rates.PassSeconds + rates.PrefillSeconds(ld.OldestPrefillTokens, 0)
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
	SlowerSeconds    float64 // of their steps, by its place in the batch and its KV
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

// OwnPrefillSeconds is the prefill of the demand where hit of its prompt is cached, beside that of its pass; the last token is always
// computed.
func (r *Replica) OwnPrefillSeconds(d *Demand, hit scoring.Tokens) float64 {
	return d.prefillSeconds(hit, &r.Rates)
}

// FirstSeconds is how long a demand's first token takes, where hit of its prompt is cached.
func (r *Replica) FirstSeconds(d *Demand, hit scoring.Tokens) float64 {
	return r.WaitSeconds + r.OwnPrefillSeconds(d, hit) + r.PassSeconds()
}

// PassSeconds is how long a pass takes there that gives a first token, however short the prompt.
func (r *Replica) PassSeconds() float64 { return r.Rates.PassSeconds + r.StepSeconds }

func (d *Demand) prefillSeconds(hit scoring.Tokens, rates *Rates) float64 {
	hit = max(0, min(hit, d.PromptTokens-1))
	return rates.PrefillSeconds(d.PromptTokens-hit, hit)
}

// Cost is what it costs to send the demand to the replica, where its first hit prompt tokens are cached.
func (r *Replica) Cost(d *Demand, hit scoring.Tokens, held Held, p *Prices, w *Weights) Breakdown {
	pass, prefill := r.Rates.PassSeconds, r.OwnPrefillSeconds(d, hit)
	output, join := float64(max(0, d.OutputTokens)), r.Rates.JoinSeconds(d.PromptTokens)
	residents := r.Residents + held.Requests
	decode := p.Others * p.Decode
	b := Breakdown{
		WaitSeconds:      w.TTFT * r.WaitSeconds,
		HeldSeconds:      w.TTFT * held.PrefillSeconds,
		PrefillSeconds:   w.TTFT * (pass + prefill),
		DecodeSeconds:    decode * output * (r.StepSeconds + r.Rates.StepSecondsPerSequence*held.Requests + join),
		StallSeconds:     p.Others * residents * (pass + prefill),
		NewBlocksSeconds: w.Reuse * p.Others * p.NewBlocks * prefill,
		QueueSeconds:     w.Reuse * p.Queue * d.prefillSeconds(hit, &p.Fleet),
	}
	b.SlowerSeconds = decode * residents * join * min(output, r.RemainingEach)
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
	rates     Rates // StepSeconds over what is there, those that wait for it included
	waiting   float64
	residents float64 // likewise
	remaining float64
}

// Offer is what a replica offers to whoever comes behind those that wait for it.
func (r *Replica) Offer(held *Held, w *Weights) Offer {
	o := Offer{
		rates: r.Rates, waiting: w.TTFT * (r.WaitSeconds + held.PrefillSeconds), residents: r.Residents + held.Requests,
		remaining: r.RemainingEach,
	}
	o.rates.StepSeconds = r.StepSeconds + r.Rates.StepSecondsPerSequence*held.Requests
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
	join := o.rates.StepSecondsPerSequence + o.rates.StepSecondsPerKVToken*q.prompt
	steps := q.output*(o.rates.StepSeconds+join) + o.residents*join*min(q.output, o.remaining)
	stopped := q.ttft + q.others*o.residents
	return p.queued + o.waiting + o.rates.PassSeconds*stopped + prefill*(stopped+q.fresh) + q.decode*steps
}

// MemorySeconds is about how long those there need until they have given back missing tokens of the kvTokens that they hold.
func (r *Replica) MemorySeconds(missing, kvTokens float64, p *Prices) float64 {
	if missing <= 0 || kvTokens <= 0 || r.Residents <= 0 {
		return 0
	}
	return missing / kvTokens * 2 * r.RemainingEach * r.StepSeconds * max(1, p.Decode)
}
