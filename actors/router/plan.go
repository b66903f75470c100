package router

import (
	"slices"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/policy"
	"plimsoll/scoring/prefix"
)

// view is one replica as a step sees it.
type view struct {
	ref   *fleet.Ref
	snap  *fleet.Snapshot
	place *fleet.Place // nil while it has no slot in an index
}

// views reads what the replicas have published, into memory of an earlier call.
func views(refs []*fleet.Ref, vs []view) []view {
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
	known    overlaps // of a leg of several
	matches  []match
	excluded []policy.Exclusion
	demand   policy.Demand
	chosen   []*asked
	aim      aim     // of the entry that was tried last
	shapes   []shape // one a kind of limits
}

// match is what one index holds of the prompt that is decided for, by slot.
type match struct {
	index *prefix.Index
	held  []prefix.Overlap
}

// overlaps is what the indexes hold of a prompt, by replica, and who holds any of it.
type overlaps struct {
	held    []prefix.Overlap
	holders []holder
}

// holder is a replica, by its place in the fleet, that holds some of a prompt.
type holder struct {
	at     int
	tokens scoring.Tokens // of prefill that it saves
	device scoring.Blocks
}

// prepare works out what a policy decides for a leg by: what it needs, and what each replica is to it. It is valid until the next
// call. chosen are the reservations for the legs before it.
func (m *machine) prepare(now time.Time, e *entry, a stream.Ask, vs []view, chosen []*asked) (ledger.Plan, *policy.Demand, []policy.Fit) {
	plan := m.plan(e, a)
	fits := m.fits(now, e, a, &plan, vs, chosen)
	d := m.demand(e, a, &plan, vs)
	d.Following = len(chosen) > 0
	return plan, d, fits
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
	answer := m.estimator.Answer(prompt, most)
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
	s, p := &m.scratch, &m.pass
	known := m.overlaps(now, e, a, vs)
	shapes := s.shapes[:0]
	for i := range p.kinds {
		shapes = append(shapes, shapeOf(plan, p.kinds[i]))
	}
	shapes = append(shapes, shape{}) // of those whose limits are not known
	fits := slices.Grow(s.fits[:0], len(vs))[:len(vs)]
	s.shapes, s.fits = shapes, fits
	bases := p.bases[:len(fits)]
	for i := range bases {
		fits[i] = policy.Fit{NeedBlocks: shapes[bases[i].kind].blocks}
	}
	for i := range known.holders {
		h := &known.holders[i]
		f, b := &fits[h.at], &bases[h.at]
		f.OverlapTokens = h.tokens
		shapes[b.kind].ride(f, min(h.device, b.pinned))
	}
	if e.prompt(a).Raw || e.sub.Call.Request.LoRA != "" || len(chosen) > 0 || len(e.bars) > 0 || len(a.Only) > 0 || a.Produced > 0 {
		m.special(now, e, a, plan, vs, chosen)
	}
	return fits
}

// ride has a leg ride on so many blocks of its prompt, as far as they can be shared.
func (sh *shape) ride(f *policy.Fit, blocks scoring.Blocks) {
	f.RideBlocks = min(blocks, sh.shared)
	f.NeedBlocks = sh.blocks - f.RideBlocks
}

// confinedFor is for how long a leg waits for room where it is to go, before it takes any: they had room when it was sent there.
const confinedFor = time.Second

// confined says whether a leg may go nowhere but to the replicas that it names: one of them serves, can hold it, has not failed it, and
// does not cool down, which can last far longer than a silence.
func confined(now time.Time, a stream.Ask, least scoring.Tokens, vs []view) bool {
	return len(a.Only) > 0 && now.Sub(a.Since) < confinedFor && slices.ContainsFunc(vs, func(v view) bool {
		failed := slices.ContainsFunc(a.Excluded, func(x stream.Exclusion) bool { return x.Replica == v.ref.ID && x.Incarnation == v.snap.Incarnation })
		return slices.Contains(a.Only, v.ref.ID) && v.snap.Serves() && least <= v.snap.Load.Limits.SequenceTokens && !failed && !now.Before(v.snap.CoolingUntil)
	})
}

// special fills in what is not the same for all legs with a prompt, or not yet known when it is looked up.
func (m *machine) special(now time.Time, e *entry, a stream.Ask, plan *ledger.Plan, vs []view, chosen []*asked) {
	raw, lora := e.prompt(a).Raw, e.sub.Call.Request.LoRA
	only := confined(now, a, e.leastSequence(a), vs)
	for i := range vs {
		at, f := &m.pass.spots[i], &m.scratch.fits[i]
		if raw {
			f.LacksChat = !vs[i].ref.Capabilities.Chat
		}
		if lora != "" {
			f.LacksLoRA = !vs[i].snap.Has(lora)
		}
		if at.shares && !raw && besides(chosen, vs[i].ref, a.Prompt) {
			full := scoring.Blocks(max(0, plan.PromptTokens-1) / at.blockTokens)
			f.OverlapTokens = m.cfg.Credit.of(prefix.Overlap{Device: full}, at.blockTokens)
			m.scratch.shapes[m.pass.bases[i].kind].ride(f, full) // another leg brings the prompt there
		}
		if vs[i].snap.Told {
			f.Barred = e.barred(now, vs[i]) || only && !slices.Contains(a.Only, vs[i].ref.ID) ||
				a.Produced > 0 && m.resumed.full(vs[i].ref.ID, max(1, plan.PromptTokens-f.OverlapTokens), m.cfg.ResumePrefillTokens)
		}
	}
}

// hit is what the indexes say is cached of a leg on a replica, in whatever tier.
func (m *machine) hit(e *entry, a stream.Ask, i int, vs []view, chosen []*asked) scoring.Tokens {
	at, o := &m.pass.spots[i], m.scratch.known.held
	if len(e.legs()) == 1 {
		o = e.overlaps.held
	}
	if at.shares && !e.prompt(a).Raw && besides(chosen, vs[i].ref, a.Prompt) {
		return max(0, e.promptTokens(a)-1) / at.blockTokens * at.blockTokens
	}
	return scoring.Tokens(o[i].Device+o[i].Host+o[i].Disk) * at.blockTokens
}

// shape is how many blocks a leg needs where limits are alike, and how many of them could be shared.
type shape struct{ blocks, shared scoring.Blocks }

func shapeOf(plan *ledger.Plan, limits scoring.Limits) shape {
	return shape{
		blocks: plan.Claim(limits).PrivateBlocks, // without keys everything is private
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
func (m *machine) overlaps(now time.Time, e *entry, a stream.Ask, vs []view) *overlaps {
	s, p := &m.scratch, &m.pass
	o := &s.known
	if len(e.legs()) == 1 {
		o = &e.overlaps
		if len(o.held) == len(vs) && e.generation == p.generation && now.Sub(e.matched) < m.cfg.MatchAge && !e.sharesAny(m.fresh) {
			return o
		}
		e.matched, e.generation = now, p.generation
	}
	m.writeSpeculated()
	o.held, o.holders = slices.Grow(o.held[:0], len(vs))[:len(vs)], o.holders[:0]
	clear(o.held)
	if e.prompt(a).Raw { // nothing is known of its blocks
		return o
	}
	var of lookUp
	used := 0 // of s.matches
	for i := range vs {
		if !p.spots[i].indexed {
			continue
		}
		if place := vs[i].place; place.Index != of.index || place.BlockTokens != of.blockTokens {
			of = m.lookUp(now, e, a, place, &used)
		}
		if held := of.in(vs[i].place.Slot); held != (prefix.Overlap{}) {
			o.held[i], o.holders = held, append(o.holders, holder{i, m.cfg.Credit.of(held, of.blockTokens), held.Device})
		}
	}
	return o
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

// lookUp is what one index holds of a prompt's blocks, by slot.
type lookUp struct {
	index       *prefix.Index
	blockTokens scoring.Tokens
	held        []prefix.Overlap
	most        scoring.Blocks // that count
}

// lookUp looks through a place's index, once for all its replicas. used counts the indexes looked through for this prompt.
func (m *machine) lookUp(now time.Time, e *entry, a stream.Ask, place *fleet.Place, used *int) lookUp {
	s := &m.scratch
	of := lookUp{index: place.Index, blockTokens: place.BlockTokens}
	of.most = scoring.Blocks(max(0, e.promptTokens(a)-1) / of.blockTokens)
	for i := range s.matches[:*used] {
		if x := &s.matches[i]; x.index == of.index {
			of.held = x.held
			return of
		}
	}
	if *used == len(s.matches) {
		s.matches = append(s.matches, match{})
	}
	x := &s.matches[*used]
	*used++
	x.index, x.held = of.index, of.index.Match(now, e.keysFor(m.cfg.Model, a.Prompt, of.blockTokens), x.held)
	of.held = x.held
	return of
}

// in is a slot's overlap. One that was taken after the look-up holds nothing yet.
func (of *lookUp) in(s prefix.Slot) prefix.Overlap {
	if int(s) >= len(of.held) {
		return prefix.Overlap{}
	}
	return capped(of.held[s], of.most)
}

// besides says whether a leg with the same prompt is to go to the replica.
func besides(chosen []*asked, ref *fleet.Ref, prompt int) bool {
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
