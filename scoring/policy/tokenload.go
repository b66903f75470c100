package policy

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"plimsoll/scoring"
	"plimsoll/scoring/cost"
)

const tokenLoadName = "token-load"

// TokenLoadConfig sets token-load. README.md says what each does and how sensitive it is.
type TokenLoadConfig struct {
	// GateSeconds is the prefill queue below which a replica takes a prompt.
	GateSeconds float64
	// Who has waited for FCFSShare of the wait that a first-come-first-served fleet would have made it wait, plus OwnShare of its own
	// prefill, plus GraceSeconds, counts the harm to others half, and soon hardly at all.
	FCFSShare, OwnShare, GraceSeconds float64
	// DecodeMin and DecodeMax bound the price of a second of decode.
	DecodeMin, DecodeMax float64
	// ReuseShare of the hit odds, ReuseMax at most, is the price of new cache blocks.
	ReuseShare, ReuseMax float64
	// BoundFactor is how many times that wait a request may be held for a better replica.
	BoundFactor float64
	// AlikeShare of the least cost, AlikeSeconds at most, is what learned rates cannot tell apart. Between idle replicas it is all of
	// the share: the order among those is nobody's harm, and whoever is never asked is never known.
	AlikeShare, AlikeSeconds float64
	// QueueShare of the delay that a prefill means for those that wait in the router is its price.
	QueueShare float64
}

// DefaultTokenLoad has the constants of the published trial, but for FCFSShare, QueueShare and AlikeSeconds: README.md says why.
func DefaultTokenLoad() TokenLoadConfig {
	return TokenLoadConfig{
		GateSeconds: 0.15, FCFSShare: 1.5, OwnShare: 0.1, GraceSeconds: 0.25, DecodeMin: 0.5, DecodeMax: 6,
		ReuseShare: 0.5, ReuseMax: 6, BoundFactor: 4, AlikeShare: 0.05, AlikeSeconds: 0.02, QueueShare: 1,
	}
}

const (
	// hitKeep is what the running hit rate keeps with one more request: some 500 are remembered.
	hitKeep = 0.998
	// A held request is decided again after wakeSoonest to wakeLatest.
	wakeSoonest, wakeLatest = 10 * time.Millisecond, time.Second
)

// tokenLoad sends a request where its predicted cost in seconds is least, its effect on others included, and lets it wait for
// that replica while its prefill queue is too long or its memory too full. Overlap is a discount on prefill, never a goal.
type tokenLoad struct {
	cfg     TokenLoadConfig
	weights cost.Weights
	rng     *rand.Rand

	// The running token hit rate of what was dispatched.
	hit, prompts float64

	// Of this pass, one a candidate.
	pass     *Pass
	prices   cost.Prices
	replicas []target
	totals   []float64
	// Scratch: those that cost nearly the least, and the best of them so far.
	close, tied []int

	// When a replica was last taken, as the number of that dispatch.
	turns map[scoring.ReplicaID]uint64
	turn  uint64

	wakeAt time.Time // when the first gate may open; zero: it is not worked out yet
}

// target is a candidate in a pass.
type target struct {
	// What every decision reads stands together.
	offer cost.Offer // behind those that are held
	free  float64    // blocks
	// How long a request waits there for each block that is missing, and at least, because seats are or its overdraft is not covered.
	blockSeconds, leastSeconds float64
	open                       bool

	held cost.Held // for it, in this pass
	cost.Replica
}

func newTokenLoad(cfg TokenLoadConfig, w cost.Weights, rng *rand.Rand) *tokenLoad {
	return &tokenLoad{cfg: cfg, weights: w, rng: rng, turns: map[scoring.ReplicaID]uint64{}}
}

// Name implements [Policy].
func (*tokenLoad) Name() string { return tokenLoadName }

// Begin implements [Policy].
func (p *tokenLoad) Begin(pass *Pass) {
	p.pass = pass
	busy := pass.BusyShare()
	p.prices.Decode = min(max(busy/(1-busy), p.cfg.DecodeMin), p.cfg.DecodeMax)
	p.prices.NewBlocks = 0
	p.prices.Queue = p.cfg.QueueShare * float64(pass.Queue.Requests) / float64(max(1, pass.serving))
	p.prices.Fleet = pass.meanRates()
	if p.hit > 0 {
		p.prices.NewBlocks = min(p.cfg.ReuseMax, p.cfg.ReuseShare*p.hit/max(1e-9, p.prompts-p.hit))
	}
	p.replicas = slices.Grow(p.replicas[:0], len(pass.Fleet))[:len(pass.Fleet)]
	p.totals = slices.Grow(p.totals[:0], len(pass.Fleet))[:len(pass.Fleet)]
	p.close = slices.Grow(p.close[:0], len(pass.Fleet))
	for i := range pass.Fleet {
		p.replicas[i].held = cost.Held{}
		p.Look(i)
	}
}

// Look implements [Policy]: it works out what a candidate is to whatever request.
func (p *tokenLoad) Look(i int) {
	c, t, stand := &p.pass.Fleet[i], &p.replicas[i], &p.pass.stands[i]
	t.Stand(p.pass.Now, &c.Load, &c.Pending, &c.Rates)
	t.offer = t.Offer(&t.held, &p.weights)
	t.open = t.QueueSeconds < p.cfg.GateSeconds
	booked := float64(c.Load.BookedBlocks + c.PendingBlocks)
	t.free = float64(stand.free - stand.kept)
	t.blockSeconds, t.leastSeconds = t.MemorySeconds(1, booked, &p.prices), 0
	if stand.freeSeat-stand.keptSeat < 1 {
		t.leastSeconds = t.MemorySeconds(1, t.Residents, &p.prices)
	}
	if stand.full {
		overdrawn := float64(c.Load.BookedBlocks + c.Load.OverdraftBlocks - c.Load.UsableBlocks())
		t.leastSeconds = max(t.leastSeconds, overdrawn*t.blockSeconds)
	}
	p.wakeAt = time.Time{}
}

// limit is how long a request waits, in seconds, until it counts the harm to others half.
func (p *tokenLoad) limit(d *Demand) float64 {
	return p.cfg.FCFSShare*d.FCFSSeconds + p.cfg.OwnShare*d.LeastPrefillSeconds + p.cfg.GraceSeconds
}

// Bound implements [Policy].
func (p *tokenLoad) Bound(d *Demand) time.Time {
	if d.Urgent || d.Following {
		return d.Arrival
	}
	return d.Arrival.Add(time.Duration(p.cfg.BoundFactor * p.limit(d) * float64(time.Second)))
}

// Idle implements [Policy]: no prompt goes where the prefill queue is too long.
func (p *tokenLoad) Idle() (time.Time, bool) {
	if !p.pass.AnyRoom() {
		return p.pass.Now.Add(wakeLatest), true
	}
	for i := range p.replicas {
		if p.replicas[i].open {
			return p.wake(), false
		}
	}
	return p.wake(), true
}

// wake is when the first gate may open though nothing is heard.
func (p *tokenLoad) wake() time.Time {
	if !p.wakeAt.IsZero() {
		return p.wakeAt
	}
	first := wakeLatest.Seconds()
	for i := range p.replicas {
		if t := &p.replicas[i]; !t.open && p.pass.stands[i].lasting == OK {
			first = min(first, t.QueueSeconds-p.cfg.GateSeconds)
		}
	}
	p.wakeAt = p.pass.Now.Add(max(wakeSoonest, time.Duration(first*float64(time.Second))))
	return p.wakeAt
}

// relief is what the harm to others counts for a request.
func (p *tokenLoad) relief(d *Demand) float64 {
	ratio := p.pass.Now.Sub(d.Arrival).Seconds() / p.limit(d)
	ratio *= ratio
	return 1 / (1 + ratio*ratio)
}

// Decide implements [Policy]. It considers all that can take the request or will have room for it; past its bound, if anybody can
// take it, only those. Of those that cost nearly the least, one that takes it now comes before one that it would wait for, then
// the one with the most of the prompt in its cache, then the cheapest; exact ties are broken at random, each of k with chance 1/k.
func (p *tokenLoad) Decide(d *Demand, fits []Fit) Decision {
	demand := cost.Demand{PromptTokens: d.PromptTokens, OutputTokens: d.OutputTokens}
	prices := p.prices
	prices.Others = p.relief(d)
	quote := cost.NewQuote(&demand, &prices, &p.weights)
	least, able := p.total(d, &quote, fits)
	can := !math.IsInf(able, 1)
	switch {
	case math.IsInf(least, 1):
		return p.pass.notNow(p.pass.reasons)
	case can && !p.pass.Now.Before(p.Bound(d)):
		return Decision{Verdict: Dispatch, Index: p.choose(fits, able, true)}
	}
	best := p.choose(fits, least, false)
	if p.takes(best) {
		return Decision{Verdict: Dispatch, Index: best}
	}
	return p.hold(&demand, fits, best, can)
}

// total works out for each candidate whether it can take a request and what that costs, in reasons and totals, and the least cost of
// all that the request may wait for and of those that can take it; infinite if there are none.
func (p *tokenLoad) total(d *Demand, quote *cost.Quote, fits []Fit) (least, able float64) {
	n := len(p.replicas)
	replicas, stands, reasons, totals := p.replicas, p.pass.stands[:n], p.pass.reasons[:n], p.totals[:n]
	fits = fits[:n]
	single := d.Seats == 1 && len(d.Excluded) == 0
	hit, part := scoring.Tokens(0), quote.Part(0) // of the candidate before
	least, able = math.Inf(1), math.Inf(1)
	for i := range replicas {
		t, f := &replicas[i], &fits[i]
		var why Reason
		if single && !f.LacksLoRA && !f.LacksChat {
			why = stands[i].takes(d.MinSequenceTokens, f)
		} else {
			why = stands[i].eligible(d, &p.pass.Fleet[i], f)
		}
		reasons[i] = why
		if !waitable(why, f) {
			totals[i] = math.Inf(1)
			continue
		}
		if f.OverlapTokens != hit {
			hit = f.OverlapTokens
			part = quote.Part(hit)
		}
		price := quote.TotalSeconds(&t.offer, part)
		if why != OK {
			price += t.memory(f)
		} else if price < able {
			able = price
		}
		if price < least {
			least = price
		}
		totals[i] = price
	}
	return least, able
}

// waitable says whether a candidate can take a request, or will as soon as some of what it has ends.
func waitable(why Reason, f *Fit) bool {
	return why == OK || !f.Barred && (why == NoBlocks || why == NoSeats || why == Overdrawn || why == Kept)
}

// memory is the wait for room on a candidate: for blocks, for a seat, or for its overdraft to be covered.
func (t *target) memory(f *Fit) float64 {
	wait := (float64(f.NeedBlocks) - t.free) * t.blockSeconds
	if wait <= t.leastSeconds { // max looks for numbers that are none
		return t.leastSeconds
	}
	return wait
}

// takes says whether a candidate takes the request that is decided for, now, in this pass.
func (p *tokenLoad) takes(i int) bool { return p.pass.reasons[i] == OK && p.replicas[i].open }

// alike is up to which cost a candidate counts as equal to the least.
func (p *tokenLoad) alike(least float64) float64 {
	return least + min(p.cfg.AlikeShare*least, p.cfg.AlikeSeconds)
}

// choose picks among those that cost nearly the least or, of them, those that can take the request.
func (p *tokenLoad) choose(fits []Fit, least float64, able bool) int {
	var first merits // of the best so far
	tied := p.tied[:0]
	for _, i := range p.near(p.alike(least)) {
		if able && p.pass.reasons[i] != OK {
			continue
		}
		x := merits{p.takes(i), fits[i].OverlapTokens, p.totals[i]}
		switch {
		case len(tied) == 0 || x.beat(&first):
			first, tied = x, append(tied[:0], i)
		case x == first:
			tied = append(tied, i)
		}
	}
	if p.replicas[tied[0]].idle() {
		tied = p.inTurn(fits, least, &first, tied[:0])
	}
	p.tied = tied
	if len(tied) == 1 {
		return tied[0]
	}
	return tied[p.rng.IntN(len(tied))]
}

// idle says whether nothing is done there and nothing is held for it.
func (t *target) idle() bool { return t.Residents == 0 && t.WaitSeconds == 0 && t.held.Requests == 0 }

// newShare of the least cost, newSeconds at most, is how much dearer an idle replica may seem that is new: what it seems is what its
// fleet is like, or its first pass, which took a cold engine many times as long. It would never be asked again.
const newShare, newSeconds = 1, 0.25

// inTurn lists, of the idle candidates that are equal to the best one, itself included, those that were taken longest ago.
func (p *tokenLoad) inTurn(fits []Fit, least float64, best *merits, tied []int) []int {
	var oldest uint64
	equal := max(best.total, least*(1+p.cfg.AlikeShare))
	for _, i := range p.near(max(equal, least+min(least*newShare, newSeconds))) {
		if p.totals[i] > equal && !p.pass.Fleet[i].New || !p.replicas[i].idle() || p.takes(i) != best.takes || fits[i].OverlapTokens != best.overlap {
			continue
		}
		turn := p.turns[p.pass.Fleet[i].ID]
		if len(tied) == 0 || turn < oldest {
			oldest, tied = turn, tied[:0]
		}
		if turn == oldest {
			tied = append(tied, i)
		}
	}
	return tied
}

// near lists those that cost at most so much. Who does is hard to guess for a processor, which need not here.
func (p *tokenLoad) near(most float64) []int {
	n, list := 0, p.close[:len(p.totals)]
	for i, total := range p.totals {
		list[n] = i
		if total <= most {
			n++
		}
	}
	return list[:n]
}

// merits decide between candidates that cost about the same.
type merits struct {
	takes   bool // the request, now
	overlap scoring.Tokens
	total   float64 // cost
}

// beat says whether x goes before y: they are not equal then.
func (x *merits) beat(y *merits) bool {
	switch {
	case x.takes != y.takes:
		return x.takes
	case x.overlap != y.overlap:
		return x.overlap > y.overlap
	}
	return x.total < y.total
}

// hold lets a request wait for a candidate, which counts as load there for those behind it.
func (p *tokenLoad) hold(demand *cost.Demand, fits []Fit, i int, can bool) Decision {
	t := &p.replicas[i]
	dec := Decision{Verdict: Hold, Index: i, Cause: BetterBusy, Until: p.wake()}
	if p.pass.reasons[i] != OK {
		dec.Cause = BetterFull
	}
	if !can {
		dec.Cause = NoRoom
	}
	t.held.PrefillSeconds += t.OwnPrefillSeconds(demand, fits[i].OverlapTokens)
	t.held.Requests++
	t.offer = t.Offer(&t.held, &p.weights)
	return dec
}

// Terms implements [Policy].
func (*tokenLoad) Terms() []string {
	parts := cost.PartNames()
	return append(parts[:], "total")
}

// Explain implements [Policy].
func (p *tokenLoad) Explain(d *Demand, fits []Fit, i int, dst []float64) []float64 {
	t := &p.replicas[i]
	demand := cost.Demand{PromptTokens: d.PromptTokens, OutputTokens: d.OutputTokens}
	prices := p.prices
	prices.Others = p.relief(d)
	b := t.Cost(&demand, fits[i].OverlapTokens, t.held, &prices, &p.weights)
	b.MemorySeconds = t.memory(&fits[i])
	parts := b.Parts()
	return append(append(dst, parts[:]...), b.TotalSeconds())
}

// OnDispatch implements [Policy].
func (p *tokenLoad) OnDispatch(d *Demand, fits []Fit, i int) {
	p.hit = hitKeep*p.hit + float64(max(0, min(fits[i].OverlapTokens, d.PromptTokens-1)))
	p.prompts = hitKeep*p.prompts + float64(d.PromptTokens)
	p.taken(p.pass.Fleet[i].ID)
	p.Look(i)
}

// taken notes whose turn it was, and forgets those that have left.
func (p *tokenLoad) taken(id scoring.ReplicaID) {
	p.turn++
	p.turns[id] = p.turn
	if len(p.turns) <= len(p.pass.Fleet) {
		return
	}
	maps.DeleteFunc(p.turns, func(id scoring.ReplicaID, _ uint64) bool {
		return !slices.ContainsFunc(p.pass.Fleet, func(c Candidate) bool { return c.ID == id })
	})
}

// OnFirstToken implements [Policy].
func (*tokenLoad) OnFirstToken(scoring.ReplicaID) {}

// OnEnd implements [Policy].
func (*tokenLoad) OnEnd(scoring.ReplicaID) {}
