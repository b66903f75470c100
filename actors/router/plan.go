package router

import (
	"fmt"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/replica"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/policy"
	"plimsoll/scoring/prefix"
	"plimsoll/scoring/queue"
)

// view is one replica as a step sees it.
type view struct {
	ref   *replica.Ref
	snap  *replica.Snapshot
	place *replica.Place // nil while it has no slot in an index
}

// views reads what the replicas have published.
func views(refs []*replica.Ref) []view {
	vs := make([]view, len(refs))
	for i, ref := range refs {
		vs[i] = view{ref: ref, snap: ref.Snapshot(), place: ref.Place()}
	}
	return vs
}

// entry is a submission whose prompts are known.
type entry struct {
	id       queue.ID
	sub      *stream.Submit
	deadline time.Time
	ranks    int // refused reservations since it was last queued
	// keys are the prompts' block keys, by block size, made when first needed.
	keys map[scoring.Tokens][][]prefix.Key
}

func (e *entry) tokens() scoring.Tokens {
	var n scoring.Tokens
	for _, a := range e.sub.Legs {
		n += e.promptTokens(a)
	}
	return n
}

func (e *entry) promptTokens(a stream.Ask) scoring.Tokens {
	return scoring.Tokens(len(e.sub.Prompts[a.Prompt].IDs))
}

// keysFor returns a prompt's block keys, hashed once a block size.
func (e *entry) keysFor(model string, prompt int, blockTokens scoring.Tokens) []prefix.Key {
	all := e.keys[blockTokens]
	if all == nil {
		all = make([][]prefix.Key, len(e.sub.Prompts))
		e.keys[blockTokens] = all
	}
	if all[prompt] == nil {
		ns := prefix.Namespace{Model: model, Salt: e.sub.Call.Request.CacheSalt}
		all[prompt] = prefix.AppendKeys([]prefix.Key{}, ns.Seed(), e.sub.Prompts[prompt].IDs, int(blockTokens))
	}
	return all[prompt]
}

// leastSequence is the shortest sequence that answers a leg.
func (e *entry) leastSequence(a stream.Ask) scoring.Tokens {
	return e.promptTokens(a) + scoring.Tokens(max(1, e.sub.Call.Request.MinTokens))
}

// plan is what a leg needs, before it is fitted to a replica.
func (m *machine) plan(e *entry, a stream.Ask, vs []view) ledger.Plan {
	req := e.sub.Call.Request
	prompt := e.promptTokens(a)
	most := max(1, longest(vs)-prompt)
	if req.MaxTokens != nil {
		most = min(most, scoring.Tokens(*req.MaxTokens))
	}
	p := ledger.Plan{PromptTokens: prompt, MaxOutputTokens: most}
	if m.cfg.Admission == Strict {
		if req.MaxTokens == nil {
			p.MaxOutputTokens = min(most, m.cfg.DefaultMaxTokens)
		}
		p.OutputTokens = p.MaxOutputTokens
		return p
	}
	p.OutputTokens, p.MarginBlocks = m.learner.OutputTokens(most), 1
	return p
}

// longest is the longest sequence that any configured replica takes.
func longest(vs []view) scoring.Tokens {
	var n scoring.Tokens
	for _, v := range vs {
		if v.snap.Told {
			n = max(n, v.snap.Load.Limits.SequenceTokens)
		}
	}
	return n
}

// candidates lays the fleet out for one leg, with the claim that each replica would be asked for.
func (m *machine) candidates(now time.Time, e *entry, a stream.Ask, vs []view) ([]policy.Candidate, []ledger.Claim) {
	cs, claims := make([]policy.Candidate, len(vs)), make([]ledger.Claim, len(vs))
	base := m.plan(e, a, vs)
	held := map[*prefix.Index][]scoring.Blocks{}
	for i, v := range vs {
		plan := base
		overlap := scoring.Blocks(0)
		if v.place != nil && v.snap.State.IndexValid() {
			keys := e.keysFor(m.cfg.Model, a.Prompt, v.place.BlockTokens)
			blocks, ok := held[v.place.Index]
			if !ok {
				blocks = v.place.Index.Match(now, keys, nil)
				held[v.place.Index] = blocks
			}
			// The prompt's last token is always computed, so its block is never a hit.
			overlap = min(blocks[v.place.Slot], scoring.Blocks(max(0, plan.PromptTokens-1)/v.place.BlockTokens))
			plan.OverlapTokens = scoring.Tokens(overlap) * v.place.BlockTokens
			if v.place.BlockTokens == v.snap.Load.Limits.BlockTokens {
				plan.Keys = keys
				plan.Shares = v.ref.Capabilities.Sharing == engine.SharingFromDispatch
			}
		}
		if v.snap.Told {
			claims[i] = plan.Claim(v.snap.Load.Limits)
		}
		b := m.booked[v.ref.ID]
		cs[i] = policy.Candidate{
			ID: v.ref.ID, Incarnation: v.snap.Incarnation, State: stateOf(v.snap.State), Void: v.snap.Recovering,
			LimitsUnknown: !v.snap.Told, Load: v.snap.Load,
			PendingRequests: b.requests, PendingBlocks: b.blocks, PendingSeats: b.seats, PendingPrefillTokens: b.prefill,
			OverlapTokens: plan.OverlapTokens, NeedBlocks: policy.NeedBlocks(claims[i], overlap),
			Rates: m.learner.Rates(v.ref.ID),
		}
		if !v.snap.CoolingUntil.IsZero() {
			cs[i].CoolingUntil = &v.snap.CoolingUntil
		}
	}
	return cs, claims
}

func (m *machine) demand(e *entry, a stream.Ask, vs []view) policy.Demand {
	d := policy.Demand{
		PromptTokens: e.promptTokens(a), OutputTokens: m.plan(e, a, vs).OutputTokens,
		MinSequenceTokens: e.leastSequence(a), Arrival: e.sub.Arrival, Seats: 1,
	}
	for _, x := range a.Excluded {
		d.Excluded = append(d.Excluded, policy.Exclusion{ID: x.Replica, Incarnation: x.Incarnation})
	}
	return d
}

// stateOf maps a replica's state to what policies know. A warming replica takes nothing yet: its quota is 0.
func stateOf(s replica.State) policy.State {
	switch s {
	case replica.Starting:
		return policy.Starting
	case replica.Warming:
		return policy.Warming
	case replica.Ready:
		return policy.Ready
	case replica.Degraded:
		return policy.Degraded
	case replica.Draining:
		return policy.Draining
	case replica.Down:
		return policy.Down
	case replica.Gone, replica.NumStates:
	}
	return policy.Gone
}

// packs says whether the whole fleet, were it empty and up, could take all legs of a submission at once: what does not
// pack would wait for ever. Replicas that never told their limits are given the benefit of the doubt.
func (m *machine) packs(e *entry, vs []view) bool {
	type room struct {
		limits scoring.Limits
		seats  int
		blocks scoring.Blocks
		seen   map[int]bool // prompts whose shared blocks are counted
	}
	rooms := make([]room, 0, len(vs))
	for _, v := range vs {
		if !v.snap.Told {
			return true
		}
		l := v.snap.Load.Limits
		rooms = append(rooms, room{l, l.Seats, l.KVBlocks, map[int]bool{}})
	}
	for _, a := range e.sub.Legs {
		best, left := -1, scoring.Blocks(-1)
		var need scoring.Blocks
		for i := range rooms {
			r := &rooms[i]
			plan := m.plan(e, a, vs)
			plan.Shares = vs[i].ref.Capabilities.Sharing == engine.SharingFromDispatch
			if plan.Shares {
				plan.Keys = e.keysFor(m.cfg.Model, a.Prompt, r.limits.BlockTokens)
			}
			claim := plan.Claim(r.limits)
			n := claim.PrivateBlocks
			if !r.seen[a.Prompt] {
				n += scoring.Blocks(len(claim.SharedKeys))
			}
			if e.leastSequence(a) > r.limits.SequenceTokens || r.seats < 1 || n > r.blocks {
				continue
			}
			if r.blocks-n > left {
				best, left, need = i, r.blocks-n, n
			}
		}
		if best < 0 {
			return false
		}
		rooms[best].seats--
		rooms[best].blocks -= need
		rooms[best].seen[a.Prompt] = true
	}
	return true
}

// tooLarge words the refusal of a leg that no configured replica can hold.
func tooLarge(e *entry, vs []view) *fault.Fault {
	var worst stream.Ask
	for _, a := range e.sub.Legs {
		if e.leastSequence(a) > longest(vs) {
			worst = a
			break
		}
	}
	f := fault.New(fault.ContextLength,
		"this model's maximum context length is %d tokens, but the prompt has %d and the answer needs at least %d; shorten the prompt",
		longest(vs), e.promptTokens(worst), max(1, e.sub.Call.Request.MinTokens))
	f.Param = paramOf(e.sub.Call.Request)
	return f
}

func doesNotPack(e *entry) *fault.Fault {
	f := fault.New(fault.BadInput,
		"%d answers at once do not fit on this model's replicas even when they are idle; lower n or send fewer prompts",
		len(e.sub.Legs))
	f.Param = "n"
	return f
}

func paramOf(req *stream.Request) string {
	if req.Input.Chat != nil {
		return "messages"
	}
	return "prompt"
}

func contended(wait time.Duration, format string, args ...any) *fault.Fault {
	return &fault.Fault{Kind: fault.Contended, Message: fmt.Sprintf(format, args...), RetryAfter: wait}
}
