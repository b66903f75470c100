package router

import (
	"slices"
	"time"

	"plimsoll/actors/replica"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/policy"
	"plimsoll/scoring/prefix"
)

// view is one replica as a step sees it.
type view struct {
	ref   *replica.Ref
	snap  *replica.Snapshot
	place *replica.Place // nil while it has no slot in an index
}

// views reads what the replicas have published, into memory of an earlier call.
func views(refs []*replica.Ref, vs []view) []view {
	vs = vs[:0]
	for _, ref := range refs {
		vs = append(vs, view{ref: ref, snap: ref.Snapshot(), place: ref.Place()})
	}
	return vs
}

// find returns a replica's view, nil if it is not of the fleet.
func find(vs []view, id scoring.ReplicaID) *view {
	for i := range vs {
		if vs[i].ref.ID == id {
			return &vs[i]
		}
	}
	return nil
}

// scratch is memory that one decision leaves to the next.
type scratch struct {
	fits     []policy.Fit
	held     []prefix.Overlap
	matches  []match
	excluded []policy.Exclusion
	demand   policy.Demand
	chosen   []*asked
	shapes   []shape // one a kind of limits
}

// match is what one index holds of the prompt that is decided for, by slot.
type match struct {
	index *prefix.Index
	held  []prefix.Overlap
}

// plan is what a leg needs, before it is fitted to a replica.
func (m *machine) plan(e *entry, a stream.Ask) ledger.Plan {
	req := e.sub.Call.Request
	prompt := e.promptTokens(a)
	most := max(1, m.pass.longest-prompt)
	limit := req.MaxTokens
	if a.MaxTokens != nil {
		limit = a.MaxTokens
	}
	if limit != nil {
		most = min(most, scoring.Tokens(*limit))
	}
	answer := m.learner.Answer(prompt, most)
	p := ledger.Plan{PromptTokens: prompt, MaxOutputTokens: most, ExpectedTokens: answer.MeanTokens}
	if m.cfg.Admission == Strict {
		if limit == nil {
			p.MaxOutputTokens = min(most, m.cfg.DefaultMaxTokens)
		}
		p.OutputTokens = p.MaxOutputTokens
		return p
	}
	p.OutputTokens, p.MarginBlocks = answer.MostTokens, 1
	return p
}

// longest is the longest sequence that any configured replica takes.
func longest(vs []view) scoring.Tokens {
	var n scoring.Tokens
	for i := range vs {
		if vs[i].snap.Told {
			n = max(n, vs[i].snap.Load.Limits.SequenceTokens)
		}
	}
	return n
}

// fits is what each replica is to a leg. It is valid until the next call. chosen are the reservations for the legs before it.
func (m *machine) fits(now time.Time, e *entry, a stream.Ask, plan *ledger.Plan, vs []view, chosen []*asked) []policy.Fit {
	s := &m.scratch
	s.fits = slices.Grow(s.fits[:0], len(vs))[:len(vs)]
	raw, lora := e.prompt(a).Raw, e.sub.Call.Request.LoRA
	held := m.overlaps(now, e, a, vs)
	shapes := s.shapes[:0]
	for range m.pass.kinds {
		shapes = append(shapes, shape{})
	}
	s.shapes = shapes
	for i := range vs {
		at, f, o := &m.pass.spots[i], &s.fits[i], held[i]
		*f = policy.Fit{}
		if raw {
			f.LacksChat = !vs[i].ref.Capabilities.Chat
		}
		if lora != "" {
			f.LacksLoRA = !vs[i].snap.Has(lora)
		}
		shares := at.shares && !raw
		rides := min(o.Device, at.pinned)
		if shares && len(chosen) > 0 && besides(chosen, vs[i].ref, a.Prompt) {
			full := scoring.Blocks(max(0, plan.PromptTokens-1) / at.blockTokens)
			o, rides = prefix.Overlap{Device: full}, full // another leg brings the prompt there
		}
		if o != (prefix.Overlap{}) {
			f.OverlapTokens = m.cfg.Credit.of(o, at.blockTokens)
		}
		if at.kind < 0 {
			continue
		}
		sh := &shapes[at.kind]
		if !sh.known {
			*sh = shapeOf(plan, m.fleet[i].Load.Limits)
		}
		f.NeedBlocks = sh.blocks
		if shares {
			f.RideBlocks = min(rides, sh.shared)
			f.NeedBlocks -= f.RideBlocks
		}
		f.Barred = len(e.bars) > 0 && e.barred(now, vs[i]) ||
			a.Produced > 0 && m.resumed.full(vs[i].ref.ID, max(1, plan.PromptTokens-f.OverlapTokens), m.cfg.ResumePrefillTokens)
	}
	return s.fits
}

// hit is what the indexes say is cached of a leg on a replica, in whatever tier.
func (m *machine) hit(e *entry, a stream.Ask, i int, vs []view, chosen []*asked) scoring.Tokens {
	at, o := &m.pass.spots[i], m.scratch.held
	if len(e.legs()) == 1 {
		o = e.held
	}
	if at.shares && !e.prompt(a).Raw && besides(chosen, vs[i].ref, a.Prompt) {
		return max(0, e.promptTokens(a)-1) / at.blockTokens * at.blockTokens
	}
	return scoring.Tokens(o[i].Device+o[i].Host+o[i].Disk) * at.blockTokens
}

// shape is how many blocks a leg needs where limits are alike, and how many of them could be shared.
type shape struct {
	known          bool
	blocks, shared scoring.Blocks
}

func shapeOf(plan *ledger.Plan, limits scoring.Limits) shape {
	return shape{
		known: true, blocks: plan.Claim(limits).PrivateBlocks, // without keys everything is private
		shared: scoring.Blocks(max(0, plan.PromptTokens-1) / limits.BlockTokens),
	}
}

// shares says whether claims on a replica can share what its index knows by keys.
func (v *view) shares() bool {
	return v.indexed() && v.place.BlockTokens == v.snap.Load.Limits.BlockTokens && v.ref.Capabilities.Sharing == engine.SharingFromDispatch
}

// claim is what a leg asks of a replica.
func (m *machine) claim(e *entry, a stream.Ask, plan ledger.Plan, f *policy.Fit, v *view) ledger.Claim {
	if v.shares() && !e.prompt(a).Raw {
		plan.Keys, plan.Shares = e.keysFor(m.cfg.Model, a.Prompt, v.place.BlockTokens), true
	}
	plan.OverlapTokens = f.OverlapTokens
	return plan.Claim(v.snap.Load.Limits)
}

// overlaps is what each replica's index holds of a leg's prompt, less the block of its last token, which is always computed.
// What is known of an entry in the queue is good for a moment.
func (m *machine) overlaps(now time.Time, e *entry, a stream.Ask, vs []view) []prefix.Overlap {
	s, p := &m.scratch, &m.pass
	held := &s.held
	if len(e.legs()) == 1 {
		held = &e.held
		if len(*held) == len(vs) && e.generation == p.generation && now.Sub(e.matched) < m.cfg.MatchAge && !e.sharesAny(m.fresh) {
			return *held
		}
		e.matched, e.generation = now, p.generation
	}
	m.writeSpeculated()
	*held = slices.Grow((*held)[:0], len(vs))[:len(vs)]
	used := 0 // of s.matches
	raw, prompt := e.prompt(a).Raw, e.promptTokens(a)
	for i := range vs {
		v := &vs[i]
		(*held)[i] = prefix.Overlap{}
		if raw || !p.spots[i].indexed { // nothing is known of its blocks
			continue
		}
		keys := e.keysFor(m.cfg.Model, a.Prompt, v.place.BlockTokens)
		full := scoring.Blocks(max(0, prompt-1) / v.place.BlockTokens)
		(*held)[i] = capped(s.lookUp(now, v.place, keys, &used), full)
	}
	return *held
}

// pending is what a replica's snapshot does not show yet.
func (m *machine) pending(id scoring.ReplicaID) booking {
	if b := m.booked[id]; b != nil {
		return *b
	}
	return booking{}
}

// indexed says whether what the index holds of a replica counts: it must speak of the life that serves now.
func (v *view) indexed() bool {
	return v.place != nil && v.snap.State.IndexValid() && v.place.Incarnation == v.snap.Incarnation
}

// capped is an overlap of at most so many blocks.
func capped(o prefix.Overlap, most scoring.Blocks) prefix.Overlap {
	o.Device = min(o.Device, most)
	o.Host = min(o.Host, most-o.Device)
	o.Disk = min(o.Disk, most-o.Device-o.Host)
	return o
}

// of is an overlap in tokens of prefill saved.
func (c TierCredit) of(o prefix.Overlap, blockTokens scoring.Tokens) scoring.Tokens {
	loaded := c.Host*float64(o.Host) + c.Disk*float64(o.Disk)
	return scoring.Tokens(o.Device)*blockTokens + scoring.Tokens(loaded*float64(blockTokens))
}

// lookUp is how many leading blocks a replica's index holds; each index is looked through once for all its replicas. used
// counts the indexes looked through for this prompt.
func (s *scratch) lookUp(now time.Time, p *replica.Place, keys []prefix.Key, used *int) prefix.Overlap {
	for i := range s.matches[:*used] {
		if x := &s.matches[i]; x.index == p.Index {
			return x.of(p.Slot)
		}
	}
	if *used == len(s.matches) {
		s.matches = append(s.matches, match{})
	}
	x := &s.matches[*used]
	*used++
	x.index, x.held = p.Index, p.Index.Match(now, keys, x.held)
	return x.of(p.Slot)
}

// of is a slot's overlap. One that was taken after the look-up holds nothing yet.
func (x *match) of(s prefix.Slot) prefix.Overlap {
	if int(s) >= len(x.held) {
		return prefix.Overlap{}
	}
	return x.held[s]
}

// besides says whether a leg with the same prompt is to go to the replica.
func besides(chosen []*asked, ref *replica.Ref, prompt int) bool {
	for _, a := range chosen {
		if a.place.Ref == ref && a.prompt == prompt {
			return true
		}
	}
	return false
}

// demand is what a policy is told of a leg. It is valid until the next decision.
func (m *machine) demand(e *entry, a stream.Ask, plan *ledger.Plan, vs []view) *policy.Demand {
	excluded := m.scratch.excluded[:0]
	for _, x := range a.Excluded {
		excluded = append(excluded, policy.Exclusion{ID: x.Replica, Incarnation: x.Incarnation})
		if x.Process {
			excluded = alsoExcluded(excluded, x, vs)
		}
	}
	m.scratch.excluded = excluded
	req := e.sub.Call.Request
	m.scratch.demand = policy.Demand{
		PromptTokens: plan.PromptTokens, OutputTokens: plan.ExpectedTokens,
		MinSequenceTokens: e.leastSequence(a), Arrival: e.sub.Arrival, Seats: 1, LoRA: req.LoRA, Session: req.Session,
		Excluded: excluded, Urgent: e.sub.Begun, LeastPrefillSeconds: e.leastPrefill, FCFSSeconds: e.fcfs,
	}
	return &m.scratch.demand
}

// alsoExcluded adds the other replicas of a failed one's process, until that one is known to live again.
func alsoExcluded(list []policy.Exclusion, x stream.Exclusion, vs []view) []policy.Exclusion {
	failed := find(vs, x.Replica)
	if failed == nil || failed.snap.Incarnation != x.Incarnation {
		return list
	}
	for i := range vs {
		if v := &vs[i]; v != failed && v.ref.Process == failed.ref.Process {
			list = append(list, policy.Exclusion{ID: v.ref.ID, Incarnation: v.snap.Incarnation})
		}
	}
	return list
}
