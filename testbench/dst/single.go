package dst

import (
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// In some seeds what engines do is about single requests: they refuse a prompt that begins in one way as if they refused us, ask to be
// left alone for an hour, go on after a finish. None of that may take a replica out.

// singles are what is odd in a seed. They are drawn, for the whole run, by a generator of their own: fleet, requests and faults of a seed
// are what they would be without.
type singles struct {
	rng      *rand.Rand // nil: nothing is
	disliked []uint32   // how prompts begin that every engine refuses; a block
	dreaded  []uint32   // how those begin at which the first engine asks to be left alone for an hour; nil: none does
	trails   bool       // some answers go on after their finish
}

// drawSingles draws them for about a third of the seeds.
func drawSingles(seed uint64) singles {
	rng := rand.New(rand.NewPCG(seed, 0x94d049bb133111eb))
	if rng.Float64() >= 1.0/3 {
		return singles{}
	}
	s := singles{rng: rng, disliked: drawTokens(rng, blockTokens), trails: rng.Float64() < 0.5}
	if rng.Float64() < 0.7 {
		s.dreaded = drawTokens(rng, blockTokens)
	}
	return s
}

// oddOnesOut is how many requests in a row an engine may be sent that it refuses, so that no answer comes between them.
const oddOnesOut = 6

// single has requests come that engines dislike, now one and now several in a row.
func (w *world) single() {
	s := &w.plan.singles
	if s.rng == nil {
		return
	}
	for range 2 + s.rng.IntN(4) {
		at := time.Duration(s.rng.Int64N(int64(w.plan.safety)))
		for range 1 + s.rng.IntN(oddOnesOut) {
			w.odd(s.disliked, at)
		}
	}
	if s.dreaded != nil {
		for range 1 + s.rng.IntN(2) {
			w.odd(s.dreaded, time.Duration(s.rng.Int64N(int64(w.plan.safety))))
		}
	}
}

// odd has a request come soon after a time whose prompt begins in a way.
func (w *world) odd(head []uint32, at time.Duration) {
	s, c := &w.plan.singles, w.blankCall()
	c.small = true
	c.ids = [][]uint32{append(slices.Clone(head), drawTokens(s.rng, 1+s.rng.IntN(40))...)}
	c.req.MaxTokens = new(8 + s.rng.IntN(24))
	w.plan.tiers.rank(c.req)
	c.filled()
	w.in(at+time.Duration(s.rng.Int64N(int64(200*time.Millisecond))), evCall).call = c
}

// begins says whether a request's prompt begins in a way.
func (a *attempt) begins(head []uint32) bool {
	ids := a.request.PromptTokens
	return len(head) > 0 && len(ids) >= len(head) && slices.Equal(ids[:len(head)], head)
}

// oddly refuses a request for what it is; false: it is taken.
func (p *process) oddly(a *attempt) bool {
	w, s := p.w, &p.w.plan.singles
	switch {
	case a.begins(s.disliked):
		p.met(RefuseOne)
		w.comeBack(a, w.network(), refusalOf(a))
	case a.begins(s.dreaded) && a.nth == 1 && w.healed == none:
		p.met(ForAnHour)
		w.comeBack(a, w.network(), errForAnHour)
	default:
		return false
	}
	return true
}

// refusalOf is what an engine says to what it dislikes: always the same of one request, and another thing of the next.
func refusalOf(a *attempt) *engine.Failure {
	statuses := [...]int{
		http.StatusUnauthorized, http.StatusForbidden, http.StatusTemporaryRedirect, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotImplemented,
	}
	return &engine.Failure{
		Kind: engine.Operator, FromEngine: true, Status: statuses[len(a.request.PromptTokens)%len(statuses)], Message: "not this one",
	}
}

// errForAnHour is what a shedder says that means to be left alone for good.
var errForAnHour = &engine.Failure{Kind: engine.Shed, FromEngine: true, Status: http.StatusTooManyRequests, RetryAfter: time.Hour, Message: "come back later"}

// met counts a fault that has happened to a request on a replica: it must harm nobody else, wherever he is.
func (p *process) met(f Fault) {
	p.w.cover(f, p.w.phasesOn(nil))
	p.w.note(noteFault, p.host.n, uint64(f), 0)
}

// trail has an answer go on after its finish: with more tokens, figures, and another finish.
func (p *process) trail(a *attempt) {
	if !p.w.plan.singles.trails || a.call == nil || a.entropy%2 == 0 || p.w.healed != none { // the same ones, whoever drives
		return
	}
	p.met(Trailing)
	for _, e := range []engine.Event{
		{Tokens: []engine.Token{{ID: 7}, {ID: 8}}},
		{CachedTokens: new(3)},
		{Tokens: []engine.Token{{ID: idEnd}}, Finish: &engine.Finish{Reason: engine.FinishStop}},
		{Finish: &engine.Finish{Reason: engine.FinishAbort}},
	} {
		p.w.carry(a, e)
	}
}

// refusedCall is a request that an engine refused, as the checker sees it.
type refusedCall struct {
	head   [blockTokens]uint32
	tenant string
}

// refusalSeen notes which request an attempt was of that an engine refused as if it refused us.
func (w *world) refusalSeen(a *attempt) {
	c := a.call
	r := refusedCall{tenant: c.req.Tenant}
	copy(r.head[:], c.prompt(a.place.Leg))
	if c.raw > 0 { // nobody here knows how its prompt begins
		r.head = [blockTokens]uint32{math.MaxUint32, uint32(c.n)} //nolint:gosec // a number
	}
	w.refused[a.place.Claim.Ticket.Number] = r
}

// evidence takes what a replica's actor hears that tells whether its engine refuses all of us.
func (h *host) evidence(message any) {
	over := func(t scoring.Ticket) bool { return h.m.State(t) == ledger.Ended }
	switch m := message.(type) {
	case fleet.AttemptFailed:
		if r, ok := h.w.refused[m.Claim.Ticket.Number]; ok && m.Failure.Kind == engine.Operator {
			h.refusals = append(h.refusals, r)
		}
	case fleet.Started:
		if h.m.State(m.Ticket) == ledger.Reserved {
			h.refusals = nil
		}
	case fleet.End:
		if m.Reason == ledger.Finished && !over(m.Ticket) {
			h.refusals = nil
		}
	}
}

// unlikeRefusals is how many requests without a block in common a replica must have refused in a row that is taken for one that refuses
// us.
const unlikeRefusals = 3

// checkDegraded looks whether a replica that is taken for one that refuses us has refused more than requests that are alike. No probe is
// refused here.
func (w *world) checkDegraded(h *host) {
	heads := map[[blockTokens]uint32]bool{}
	for _, r := range h.refusals {
		heads[r.head] = true
	}
	if len(heads) < unlikeRefusals {
		w.violate(OneRequest, "%s is taken out by %d refusals of %d prompts that share no block", h.id, len(h.refusals), len(heads))
	}
	h.refusals = nil
}

// coolsAtMost is the longest that an engine may have itself left alone for.
const coolsAtMost = 30 * time.Second

// checkCooling looks whether a replica is left alone for longer than one engine's word may have it.
func (w *world) checkCooling(h *host, s *fleet.Snapshot) {
	if left := s.CoolingUntil.Sub(w.time()); left > coolsAtMost {
		w.violate(OneRequest, "%s gets nothing for %s: %s", h.id, left, s.CoolingWhy)
	}
}

// cools says whether some replica is left alone because it has shed a request.
func (w *world) cools() bool {
	return slices.ContainsFunc(w.present(), func(h *host) bool { return w.time().Before(h.ref.Snapshot().CoolingUntil) })
}
