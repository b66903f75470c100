package router

import (
	"fmt"
	"slices"
	"time"

	"plimsoll/actors/fault"
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

// look begins a pass: what of the fleet every decision of this moment needs.
func (m *machine) look(now time.Time, vs []view) {
	p := &m.pass
	m.fleet = slices.Grow(m.fleet[:0], len(vs))[:len(vs)]
	if len(p.places) != len(vs) {
		p.changed = true
		p.places, p.generation = make([]*replica.Place, len(vs)), p.generation+1
		p.standing = make([]standing, len(vs))
	}
	for i := range vs {
		v := &vs[i]
		if v.place != p.places[i] {
			p.places[i] = v.place
			p.generation++
		}
		if s := (standing{v.snap.Incarnation, v.snap.Load.Limits, v.snap.State, v.snap.Told}); s != p.standing[i] {
			p.standing[i], p.changed = s, true
		}
	}
	m.lay(now, vs)
	m.visit(vs)
	if m.trace != nil {
		m.trace.Look()
	}
	p.longest, p.begun = longest(vs), true
	p.pass.Begin(now, m.fleet, policy.Queue{Requests: m.waiting.Len(), PrefillSeconds: m.queuedSeconds})
	m.policy.Begin(&p.pass)
}

// visit notes of each replica what every look-up of a prompt needs.
func (m *machine) visit(vs []view) {
	p := &m.pass
	p.spots, p.kinds = slices.Grow(p.spots[:0], len(vs))[:len(vs)], p.kinds[:0]
	for i := range vs {
		v := &vs[i]
		at := spot{indexed: v.indexed(), shares: v.shares(), pinned: v.snap.Load.SharedBlocks, kind: -1}
		if v.place != nil {
			at.blockTokens = v.place.BlockTokens
		}
		if v.snap.Told {
			at.kind = slices.Index(p.kinds, v.snap.Load.Limits)
			if at.kind < 0 {
				at.kind = len(p.kinds)
				p.kinds = append(p.kinds, v.snap.Load.Limits)
			}
		}
		p.spots[i] = at
	}
}

// ready begins a pass unless this step has.
func (m *machine) ready(now time.Time, vs []view) {
	if !m.pass.begun {
		m.look(now, vs)
	}
}

// lay fills in the fleet.
func (m *machine) lay(now time.Time, vs []view) {
	ramps := m.ramps(vs)
	m.pass.quotas = false
	for i := range vs {
		v := &vs[i]
		b := m.pending(v.ref.ID)
		c := &m.fleet[i]
		*c = policy.Candidate{
			ID: v.ref.ID, Incarnation: v.snap.Incarnation, State: stateOf(v.snap.State), Void: v.snap.Recovering,
			LimitsUnknown: !v.snap.Told, Load: v.snap.Load, Pending: b.pending, PendingBlocks: b.blocks, PendingSeats: b.seats,
			Rates: m.learner.Rates(v.ref.ID), Busy: m.learner.Busy(now, v.ref.ID),
			Suspect: v.snap.Suspect, Ejected: m.outliers.barred(now, v.ref.ID, vs),
		}
		if quota := v.snap.QuotaSeats; quota != nil && v.snap.State == replica.Ready {
			m.pass.quotas = true
			if ramps {
				c.State, c.WarmingSeats = policy.Warming, *quota
			}
		}
		if !v.snap.CoolingUntil.IsZero() {
			c.CoolingUntil = &v.snap.CoolingUntil
		}
	}
}

// rebooked tells the pass that what is booked on a replica has changed.
func (m *machine) rebooked(now time.Time, i int, vs []view) {
	if !m.pass.quotas {
		b := m.pending(vs[i].ref.ID)
		c := &m.fleet[i]
		c.Pending, c.PendingBlocks, c.PendingSeats = b.pending, b.blocks, b.seats
		m.pass.pass.Booked(i)
		if m.trace != nil {
			m.trace.Booked(i, c)
		}
		return
	}
	m.lay(now, vs) // whether quotas count depends on what is booked everywhere
	if m.trace != nil {
		m.trace.Look()
	}
	for j := range m.fleet {
		m.pass.pass.Booked(j)
	}
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
	m.say()
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

// ramps says whether replicas that ramp up are held to their quotas: not where all have theirs, because then there is nobody
// to take the rest meanwhile.
func (m *machine) ramps(vs []view) bool {
	return slices.ContainsFunc(vs, func(v view) bool {
		quota := v.snap.QuotaSeats
		return v.snap.State.Routable() && (quota == nil || v.snap.Load.SeatsBooked+m.pending(v.ref.ID).seats < *quota)
	})
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

// stateOf maps a replica's state to what policies know. A replica that waits for its feed takes nothing yet: its quota is 0.
// One that ramps up is Ready to its actor and Warming, with its quota, to policies.
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

// never returns the refusal of a submission of several legs that the fleet could not take even if all of it were up and
// idle: it would wait for ever. Replicas that never told their limits are given the benefit of the doubt.
func (m *machine) never(e *entry, vs []view) *fault.Fault {
	if len(vs) == 0 || slices.ContainsFunc(vs, func(v view) bool { return !v.snap.Told }) {
		return nil
	}
	for _, a := range e.sub.Legs {
		if e.leastSequence(a) > longest(vs) {
			return tooLarge(e, vs)
		}
	}
	if fit := m.packs(e, vs); fit < len(e.sub.Legs) {
		return doesNotPack(e, fit)
	}
	return nil
}

// packs says how many legs find room at once on an idle fleet, each where the most is left.
func (m *machine) packs(e *entry, vs []view) int {
	type room struct {
		seats  int
		blocks scoring.Blocks
		seen   map[int]bool // prompts whose shared blocks are counted
	}
	rooms := make([]room, len(vs))
	for i := range vs {
		l := vs[i].snap.Load.Limits
		rooms[i] = room{l.Seats, l.KVBlocks, map[int]bool{}}
	}
	for fit, a := range e.sub.Legs {
		base := m.plan(e, a)
		best, left, need := -1, scoring.Blocks(-1), scoring.Blocks(0)
		for i := range rooms {
			r, limits, plan := &rooms[i], vs[i].snap.Load.Limits, base
			if e.prompt(a).Raw && !vs[i].ref.Capabilities.Chat {
				continue
			}
			if plan.Shares = vs[i].ref.Capabilities.Sharing == engine.SharingFromDispatch && !e.prompt(a).Raw; plan.Shares {
				plan.Keys = e.keysFor(m.cfg.Model, a.Prompt, limits.BlockTokens)
			}
			claim := plan.Claim(limits)
			n := claim.PrivateBlocks
			if !r.seen[a.Prompt] {
				n += scoring.Blocks(len(claim.SharedKeys))
			}
			if e.leastSequence(a) <= limits.SequenceTokens && r.seats > 0 && n <= r.blocks && r.blocks-n > left {
				best, left, need = i, r.blocks-n, n
			}
		}
		if best < 0 {
			return fit
		}
		rooms[best].seats--
		rooms[best].blocks -= need
		rooms[best].seen[a.Prompt] = true
	}
	return len(e.sub.Legs)
}

// refusal words a policy's refusal.
func (m *machine) refusal(now time.Time, e *entry, ask stream.Ask, dec policy.Decision, vs []view) *fault.Fault {
	switch dec.Cause {
	case policy.TooLarge:
		return tooLarge(e, vs)
	case policy.NoReplica, policy.NoCause, policy.NoRoom, policy.AllCool, policy.BetterBusy, policy.BetterFull, policy.NumCauses:
	}
	if ask.LastFault != nil {
		return m.shedBy(now, ask.LastFault, vs)
	}
	f := fault.New(fault.NoReplica, "no replica of model %q that could take this request is serving now; try again later", m.cfg.Model)
	f.RetryAfter = m.jittered(dec.RetryAfter.Seconds())
	return f
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
	req, what := e.sub.Call.Request, "shorten the prompt"
	param := paramOf(req)
	if e.promptTokens(worst) < longest(vs) {
		what, param = "lower min_tokens or shorten the prompt", "min_tokens"
	}
	f := fault.New(fault.ContextLength,
		"this model's maximum context length is %d tokens, but the prompt has %d and the answer needs at least %d; %s",
		longest(vs), e.promptTokens(worst), max(1, req.MinTokens), what)
	f.Param = param
	return f
}

func doesNotPack(e *entry, fit int) *fault.Fault {
	f := fault.New(fault.BadInput,
		"%d answers at once do not fit on this model's replicas even when they are idle: %d do; lower n or send fewer prompts",
		len(e.sub.Legs), fit)
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
