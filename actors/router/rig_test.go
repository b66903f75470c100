package router

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/explain"
	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/prefix"
	"plimsoll/scoring/queue"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// site is a replica without its actor: what it publishes, and a ledger that answers.
type site struct {
	ref    *fleet.Ref
	snap   fleet.Snapshot
	ledger *ledger.Ledger
	place  *fleet.Place
	holds  uint64 // claims of the test's own
	hangs  bool   // answers nothing for now
}

// claimOf is a claim of a test's own.
func claimOf(number uint64, blocks scoring.Blocks) ledger.Claim {
	return ledger.Claim{Ticket: scoring.Ticket{Boot: 9, Number: number}, PrivateBlocks: blocks, Seats: 1, SequenceTokens: 16}
}

func (s *site) view() view {
	snap := s.snap
	snap.Load = s.ledger.Load()
	return view{ref: s.ref, snap: &snap, place: s.place}
}

// answer does what the replica actor does with a Reserve.
func (s *site) answer(now time.Time, r letter) any {
	s.snap.Answered = r.claim.Ticket
	reason := ledger.Closed
	if s.snap.State.Routable() && !s.snap.Recovering && r.incarnation == s.snap.Incarnation {
		reason = s.ledger.Reserve(now, r.claim)
	}
	snap := s.view().snap
	if reason == ledger.None {
		return &fleet.Granted{Ticket: r.claim.Ticket, Replica: s.ref.ID, Snapshot: snap}
	}
	return &fleet.Refused{Ticket: r.claim.Ticket, Replica: s.ref.ID, Reason: reason, Snapshot: snap}
}

// letter is a reservation on its way: the machine may use its own memory again.
type letter struct {
	ref         *fleet.Ref
	claim       ledger.Claim
	incarnation uint64
}

func letterOf(r reserve) letter { return letter{r.place.Ref, r.place.Claim, r.place.Incarnation} }

// rig is a router's machine among sites; the test is the post between them.
type rig struct {
	t     require.TestingT
	m     *machine
	now   time.Time
	sites []*site
	index *prefix.Index

	sent   []letter // not delivered yet
	told   map[*stream.Call][]any
	kinds  []fault.Kind // of refusals
	causes []fault.Cause
	placed []stream.Placement
	back   int // tickets given back
	ranks  int // reservations refused
	next   uint64
	watch  *explain.Watch // nil: no notes are taken
}

// limits of every site: 100 blocks of 16 tokens, 4 seats.
func testLimits() scoring.Limits {
	return scoring.Limits{KVBlocks: 100, Seats: 4, SequenceTokens: 1000, BlockTokens: 16}
}

func testConfig() Config {
	cfg := DefaultConfig("m")
	cfg.DefaultMaxTokens = 128
	return cfg
}

func newRig(t require.TestingT, cfg Config, replicas int) *rig {
	r := &rig{t: t, now: start, told: map[*stream.Call][]any{}}
	m, err := newMachine(cfg, rand.New(rand.NewPCG(1, 2)), func() scoring.Ticket {
		r.next++
		return scoring.Ticket{Boot: 1, Number: r.next}
	})
	require.NoError(t, err)
	r.m = m
	indexed := prefix.DefaultConfig()
	indexed.Model, indexed.BlockTokens = "m", 16
	r.index = prefix.NewIndex(indexed)
	for i := range replicas {
		r.add(scoring.ReplicaID('a'+rune(i)), testLimits())
	}
	return r
}

// add puts a ready replica of an engine that shares blocks into the fleet.
func (r *rig) add(id scoring.ReplicaID, limits scoring.Limits) *site {
	s := &site{
		ref:    &fleet.Ref{ID: id, Model: "m", Process: string(id), Capabilities: engine.Capabilities{Sharing: engine.SharingFromDispatch}},
		snap:   fleet.Snapshot{ID: id, Epoch: 1, Incarnation: 1, State: fleet.Ready, Told: true},
		ledger: ledger.New(limits),
	}
	s.place = &fleet.Place{
		Index: r.index, BlockTokens: limits.BlockTokens, Incarnation: s.snap.Incarnation,
		Slot: r.index.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: limits.KVBlocks}),
	}
	r.sites = append(r.sites, s)
	return s
}

func (r *rig) site(id scoring.ReplicaID) *site {
	for _, s := range r.sites {
		if s.ref.ID == id {
			return s
		}
	}
	return nil
}

func (r *rig) views() []view {
	vs := make([]view, len(r.sites))
	for i, s := range r.sites {
		vs[i] = s.view()
	}
	return vs
}

// step lets the machine take a message and sorts what it asks for.
func (r *rig) step(message any) {
	b := r.watch.Batch()
	r.m.trace = b
	effects := r.m.step(r.now, message, r.views())
	if b != nil {
		r.watch.Take(b)
		r.watch.Keep(b)
	}
	for _, e := range effects {
		switch e := e.(type) {
		case tellCall:
			r.told[e.call] = append(r.told[e.call], e.message)
		case placed:
			r.told[e.by.call()] = append(r.told[e.by.call()], e.message())
			r.placed = append(r.placed, e.message().Placements...)
		case reserve:
			r.sent = append(r.sent, letterOf(e))
		case giveBack:
			r.back++
			r.site(e.ref.ID).ledger.End(e.ticket, ledger.Refused)
		case refused:
			r.kinds, r.causes = append(r.kinds, e.kind), append(r.causes, e.cause)
		case reranked:
			r.ranks++
		case speculated:
			e.tellIndex()
		case dispatched:
		}
	}
}

// deliver lets the replicas answer until nothing is on its way.
func (r *rig) deliver() {
	for i := 0; i < len(r.sent); {
		if r.site(r.sent[i].ref.ID).hangs {
			i++
			continue
		}
		r.deliverOne(i)
		i = 0
	}
}

func (r *rig) deliverOne(i int) {
	e := r.sent[i]
	r.sent = slices.Delete(r.sent, i, i+1)
	r.step(r.site(e.ref.ID).answer(r.now, e))
}

// end is the end of an attempt: the replica frees it and tells of room.
func (r *rig) end(p stream.Placement) {
	require.True(r.t, r.site(p.Ref.ID).ledger.End(p.Claim.Ticket, ledger.Finished))
	r.placed = slices.DeleteFunc(r.placed, func(q stream.Placement) bool { return q.Claim.Ticket == p.Claim.Ticket })
	r.step(fleet.Room{Replica: p.Ref.ID})
}

// pass lets time pass, with the ticks that the machine asks for on the way.
func (r *rig) pass(d time.Duration) {
	end := r.now.Add(d)
	for {
		at, ok := r.m.nextTick()
		if !ok || at.After(end) {
			break
		}
		if at.After(r.now) {
			r.now = at
		}
		r.step(tick{})
		r.deliver()
	}
	r.now = end
}

// ids is a prompt of its own for each seed.
func ids(seed, tokens int) []uint32 {
	out := make([]uint32, tokens)
	rng := rand.New(rand.NewPCG(uint64(seed), 7)) //nolint:gosec // a seed
	for i := range out {
		out[i] = rng.Uint32()
	}
	return out
}

// ask is a submission of one leg with that many prompt tokens.
func (r *rig) ask(seed, tokens int, maxTokens *int) *stream.Submit {
	return r.askFor(&stream.Request{Model: "m", N: 1, MaxTokens: maxTokens}, ids(seed, tokens))
}

// askFor is a submission of N legs for each prompt.
func (r *rig) askFor(req *stream.Request, prompts ...[]uint32) *stream.Submit {
	req.Arrival = r.now
	sub := &stream.Submit{Call: &stream.Call{Request: req}, Number: 1, Arrival: r.now}
	for i, p := range prompts {
		sub.Prompts = append(sub.Prompts, stream.Prompt{IDs: p})
		for n := range req.N {
			sub.Legs = append(sub.Legs, stream.Ask{Leg: i*req.N + n, Prompt: i})
		}
	}
	return sub
}

// submit hands in a submission and lets the replicas answer.
func (r *rig) submit(sub *stream.Submit) *stream.Submit {
	r.step(sub)
	r.deliver()
	return sub
}

// answers are what a submission was told so far.
func (r *rig) answers(sub *stream.Submit) []any { return r.told[sub.Call] }

// places are where a submission was placed; it fails if it was not.
func (r *rig) places(sub *stream.Submit) []stream.Placement {
	require.Len(r.t, r.answers(sub), 1)
	p, ok := r.answers(sub)[0].(stream.Placed)
	require.True(r.t, ok, "%+v", r.answers(sub)[0])
	require.Equal(r.t, sub.Number, p.Number)
	return p.Placements
}

// fault is why a submission was turned away; it fails if it was not.
func (r *rig) fault(sub *stream.Submit) *fault.Fault {
	require.Len(r.t, r.answers(sub), 1)
	f, ok := r.answers(sub)[0].(stream.Rejected)
	require.True(r.t, ok, "%+v", r.answers(sub)[0])
	require.Equal(r.t, sub.Number, f.Number)
	return f.Fault
}

func (r *rig) waits(sub *stream.Submit) bool {
	return r.m.queuedAs[sub.Call] != nil && len(r.answers(sub)) == 0
}

// order are the waiting requests in the order in which they are tried.
func (r *rig) order() []*stream.Call {
	var calls []*stream.Call
	r.m.waiting.Scan(r.now, r.m.waiting.Len()+1, func(q queue.Entry[*entry]) queue.Visit {
		calls = append(calls, q.Item.sub.Call)
		return queue.Keep
	})
	return calls
}

// empty fails unless the machine holds nothing of any request.
func (r *rig) empty() {
	require.Empty(r.t, r.m.booked)
	require.Empty(r.t, r.m.tickets)
	require.Empty(r.t, r.m.byCall)
	require.Empty(r.t, r.m.queuedAs)
	require.Empty(r.t, r.m.deadlines.items)
	require.Zero(r.t, r.m.waiting.Len())
	require.Zero(r.t, r.m.waiting.Tokens())
	_, ok := r.m.nextTick()
	require.False(r.t, ok)
}

// fill takes all seats of a site.
func (s *site) fill() {
	for s.ledger.Load().FreeSeats() > 0 {
		s.hold(1)
	}
}

// free gives them back.
func (s *site) free() { s.ledger.EndAll(ledger.Finished) }

// hold books blocks of a site in one claim.
func (s *site) hold(blocks scoring.Blocks) {
	s.holds++
	s.ledger.Reserve(start, claimOf(s.holds, blocks))
}
