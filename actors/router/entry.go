package router

import (
	"cmp"
	"slices"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/scoring/cost"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/policy"
	"plimsoll/scoring/prefix"
	"plimsoll/scoring/queue"
	"plimsoll/scoring/slo"
)

// entry is a submission whose prompts are known.
type entry struct {
	id  queue.ID
	sub *stream.Submit
	// patience is when its time in the queue is up; deadline when it is to be looked at, which is sooner if it has an SLO.
	patience, deadline time.Time
	came               time.Time // to this router
	supposed           bool      // there is no such request: nothing is to be learned from it
	due                int       // place among the deadlines, -1 outside
	reranks            int       // since it was last queued
	rests              time.Time // it is not tried before that
	// As of the first look (known): what its prompts take where that takes the least, together and each; the service that it comes
	// to; what a fleet that serves whoever comes first would make it wait; and until when it may be held for a better replica.
	known                        bool
	prefillSeconds, leastPrefill float64
	chargeSeconds, fcfs          float64
	bound                        time.Time
	needBlocks                   scoring.Blocks // what all legs take where that is the least
	// predicted is, in seconds from predictedAt, when its first token comes; 0: nobody has asked.
	predictedAt time.Time
	predicted   float64
	bars        []bar
	// What the indexes hold of its prompt, as of matched, in that generation of the fleet.
	overlaps   overlaps
	matched    time.Time
	generation uint64
	// keys are the prompts' block keys, by block size, made when first needed.
	keys []blockKeys
	// kept is where room was kept for its legs last.
	kept []keptOn
	// noted is what was noted last of the legs' decisions, where notes are taken; nil: nothing.
	noted *noted
}

type blockKeys struct {
	blockTokens scoring.Tokens
	byPrompt    [][]prefix.Key
}

// bar is a refused reservation: the replica's ledger knows better than its snapshot shows how much of a cached prefix can
// be shared, so it is asked again only when it has more room than it had, or after a while.
type bar struct {
	replica            scoring.ReplicaID
	epoch, incarnation uint64
	blocks             scoring.Blocks // free then
	seats              int            // likewise
	until              time.Time
}

func newEntry(id queue.ID, sub *stream.Submit) *entry {
	e := &entry{}
	e.begin(id, sub)
	return e
}

// begin makes an entry that is empty that of a submission.
func (e *entry) begin(id queue.ID, sub *stream.Submit) {
	e.id, e.sub, e.due = id, sub, -1
	if len(sub.Legs) > 1 {
		// Long prompts first: they find a place while there is the most room. Where each is placed as it can, short ones first.
		legs := slices.Clone(sub.Legs)
		slices.SortStableFunc(legs, func(a, b stream.Ask) int {
			if sub.Begun {
				a, b = b, a
			}
			return cmp.Compare(e.promptTokens(b), e.promptTokens(a))
		})
		own := *sub
		own.Legs = legs
		e.sub = &own
	}
}

// reset empties an entry, and keeps its memory.
func (e *entry) reset() {
	for i := range e.keys {
		clear(e.keys[i].byPrompt)
	}
	*e = entry{bars: e.bars[:0], overlaps: overlaps{held: e.overlaps.held[:0], holders: e.overlaps.holders[:0]}, keys: e.keys[:0], kept: e.kept[:0]}
}

// legs are what is asked for, the longest prompt first, or the shortest if the request has begun.
func (e *entry) legs() []stream.Ask { return e.sub.Legs }

func (e *entry) tokens() scoring.Tokens {
	var n scoring.Tokens
	for _, a := range e.sub.Legs {
		n += e.promptTokens(a)
	}
	return n
}

func (e *entry) prompt(a stream.Ask) *stream.Prompt { return &e.sub.Prompts[a.Prompt] }

func (e *entry) promptTokens(a stream.Ask) scoring.Tokens {
	return scoring.Tokens(e.prompt(a).Tokens())
}

// leastSequence is the shortest sequence that answers a leg.
func (e *entry) leastSequence(a stream.Ask) scoring.Tokens {
	return e.promptTokens(a) + scoring.Tokens(max(1, e.sub.Call.Request.MinTokens-a.Produced))
}

// began is when it began to look for a place.
func (e *entry) began() time.Time {
	if e.sub.Begun {
		return since(e.sub)
	}
	return e.sub.Arrival
}

// weigh adds a leg to what the entry takes: its prefill where that is shortest, its blocks where they are the fewest, and its
// answer. A token of an answer counts as two of a prompt, the weights of Sheng et al., "Fairness in Serving Large Language Models"
// (OSDI 2024).
func (e *entry) weigh(leastPrefill float64, leastBlocks scoring.Blocks, rates cost.Rates, plan *ledger.Plan) {
	e.prefillSeconds += leastPrefill
	e.needBlocks += leastBlocks
	e.chargeSeconds += leastPrefill + 2*rates.PrefillSecondsPerToken*float64(plan.OutputTokens)
}

// takes is what the entry means for those behind it in the queue.
func (e *entry) takes() slo.Ahead {
	return slo.Ahead{PrefillSeconds: e.prefillSeconds, Blocks: float64(e.needBlocks), Seats: float64(len(e.legs()))}
}

// leastBlocks is what a leg takes where that is the least, of those replicas whose limits are known.
func leastBlocks(fits []policy.Fit) scoring.Blocks {
	least := scoring.Blocks(0)
	for i := range fits {
		if n := fits[i].NeedBlocks; n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// stale says whether what is known of its prompt was not looked up at this moment.
func (e *entry) stale(now time.Time) bool { return len(e.legs()) == 1 && !e.matched.Equal(now) }

// queued is the entry as the queue sees it.
func (e *entry) queued(weights map[string]float64) queue.Entry[*entry] {
	req := e.sub.Call.Request
	weight, ok := weights[req.Tenant]
	if !ok {
		weight = 1
	}
	return queue.Entry[*entry]{
		ID: e.id, Item: e, Tokens: e.tokens(), Arrival: e.sub.Arrival, Class: req.Class, Tenant: req.Tenant, Weight: weight,
		PrefillSeconds: e.prefillSeconds, ChargeSeconds: e.chargeSeconds,
	}
}

// place is where an entry stands among those at the head of its class.
func (e *entry) place() time.Time {
	at := e.began()
	if e.sub.Begun {
		at = at.Add(time.Duration(e.tokens()) * resumeCostPerToken)
	}
	return at
}

// keysFor returns a prompt's block keys, hashed once a block size; a raw prompt has none.
func (e *entry) keysFor(model string, prompt int, blockTokens scoring.Tokens) []prefix.Key {
	at := slices.IndexFunc(e.keys, func(k blockKeys) bool { return k.blockTokens == blockTokens })
	if at < 0 {
		at = len(e.keys)
		e.keys = slices.Grow(e.keys, 1)[:at+1]
		k := &e.keys[at]
		k.blockTokens, k.byPrompt = blockTokens, slices.Grow(k.byPrompt[:0], len(e.sub.Prompts))[:len(e.sub.Prompts)]
	}
	keys := &e.keys[at].byPrompt[prompt]
	if *keys == nil {
		ns := prefix.Namespace{Model: model, LoRA: e.sub.Call.Request.LoRA, Salt: e.sub.Call.Request.CacheSalt}
		ids := e.sub.Prompts[prompt].IDs
		*keys = prefix.AppendKeys(make([]prefix.Key, 0, len(ids)/int(blockTokens)), ns.Seed(), ids, int(blockTokens))
	}
	return *keys
}

// sharesAny says whether a prompt begins with one of the blocks.
func (e *entry) sharesAny(first map[prefix.Key]struct{}) bool {
	if len(first) == 0 {
		return false
	}
	for _, k := range e.keys {
		for _, keys := range k.byPrompt {
			if len(keys) == 0 {
				continue
			}
			if _, ok := first[keys[0]]; ok {
				return true
			}
		}
	}
	return false
}

// bar notes a refusal.
func (e *entry) bar(now time.Time, r *fleet.Refused) {
	e.bars = slices.DeleteFunc(e.bars, func(b bar) bool { return b.replica == r.Replica })
	e.bars = append(e.bars, bar{
		replica: r.Replica, epoch: r.Snapshot.Epoch, incarnation: r.Snapshot.Incarnation,
		blocks: r.Snapshot.Load.FreeBlocks(), seats: r.Snapshot.Load.FreeSeats(), until: now.Add(recheck),
	})
}

// barred says whether a replica has refused this entry and nothing has changed there since.
func (e *entry) barred(now time.Time, v view) bool {
	for _, b := range e.bars {
		if b.replica == v.ref.ID {
			return now.Before(b.until) && b.epoch == v.snap.Epoch && b.incarnation == v.snap.Incarnation &&
				v.snap.Load.FreeBlocks() <= b.blocks && v.snap.Load.FreeSeats() <= b.seats
		}
	}
	return false
}
