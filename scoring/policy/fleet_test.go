package policy_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring"
	"plimsoll/scoring/cost"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/policy"
	"plimsoll/scoring/prefix"
	"plimsoll/testbench/agenda"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const blockTokens = 16

// fleet is a crude model of replicas behind one router: each prefills its prompts one after the other at its rates, and
// decodes all it has at the step time of its batch. Ledgers and index are the real ones.
type fleet struct {
	t        *testing.T
	policy   policy.Policy
	index    *prefix.Index
	replicas []*replica
	now      time.Time
	number   uint64
	events   agenda.Agenda[func()] // since start
}

type replica struct {
	id     scoring.ReplicaID
	slot   prefix.Slot
	ledger *ledger.Ledger
	rates  cost.Rates
	busy   time.Time // until then it prefills
	took   int       // requests dispatched to it
	most   int       // of its sequences at once
}

type request struct {
	tokens []uint32
	output int
}

func newFleet(t *testing.T, name string, seed uint64, rates ...cost.Rates) *fleet {
	t.Helper()
	p, err := policy.New(named(name), rand.New(rand.NewPCG(seed, 0)))
	require.NoError(t, err)
	cfg := prefix.DefaultConfig()
	cfg.Model, cfg.BlockTokens = "m", blockTokens
	f := &fleet{t: t, policy: p, index: prefix.NewIndex(cfg), now: start}
	for i, r := range rates {
		limits := scoring.Limits{KVBlocks: 25_000, Seats: 256, SequenceTokens: 131_072, BlockTokens: blockTokens}
		f.replicas = append(f.replicas, &replica{
			id: scoring.ReplicaID(fmt.Sprintf("r%d", i)), slot: f.index.Add(prefix.SlotConfig{Source: prefix.Routed, CapacityBlocks: limits.KVBlocks}),
			ledger: ledger.New(limits), rates: r,
		})
	}
	return f
}

// equal is n replicas of the default speed.
func equal(n int) []cost.Rates {
	out := make([]cost.Rates, n)
	for i := range out {
		out[i] = cost.DefaultRates()
	}
	return out
}

// dispatch routes a request and returns the place of its replica; it must find one.
func (f *fleet) dispatch(req request) int {
	f.t.Helper()
	f.number++
	keys := prefix.AppendKeys(nil, prefix.Namespace{Model: "m"}.Seed(), req.tokens, blockTokens)
	overlap := f.index.Match(f.now, keys, nil)
	plan := ledger.Plan{
		Ticket: scoring.Ticket{Boot: 1, Number: f.number}, Keys: keys, PromptTokens: scoring.Tokens(len(req.tokens)),
		OutputTokens: scoring.Tokens(req.output), ExpectedTokens: scoring.Tokens(req.output), MaxOutputTokens: scoring.Tokens(req.output), MarginBlocks: 1, Shares: true,
	}
	demand := policy.Demand{
		PromptTokens: plan.PromptTokens, OutputTokens: plan.OutputTokens, MinSequenceTokens: plan.PromptTokens + 1,
		Arrival: f.now, Seats: 1,
	}
	claims, candidates := f.look(plan, overlap)
	_, fits := looked(f.policy, f.now, candidates, policy.Queue{})
	dec := f.policy.Decide(&demand, fits)
	for dec.Verdict == policy.Hold {
		until := dec.Until
		if at, ok := f.next(); ok && at.Before(until) {
			until = at
		}
		f.runUntil(until)
		overlap = f.index.Match(f.now, keys, overlap)
		claims, candidates = f.look(plan, overlap)
		_, fits = looked(f.policy, f.now, candidates, policy.Queue{})
		dec = f.policy.Decide(&demand, fits)
	}
	require.Equal(f.t, policy.Dispatch, dec.Verdict, "%+v", dec)
	r := f.replicas[dec.Index]
	require.Equal(f.t, ledger.None, r.ledger.Reserve(f.now, claims[dec.Index]))
	f.policy.OnDispatch(&demand, fits, dec.Index)
	f.index.Routed(r.slot, keys)
	r.took++
	load := r.ledger.Load()
	r.most = max(r.most, load.Reserved+load.Running)

	c := claims[dec.Index]
	if r.busy.Before(f.now) {
		r.busy = f.now
	}
	r.busy = r.busy.Add(seconds(r.rates.PrefillSeconds(c.PrefillTokens, c.PromptTokens-c.PrefillTokens)))
	f.plan(r.busy, func() {
		require.True(f.t, r.ledger.Start(c.Ticket, f.now))
		f.policy.OnFirstToken(r.id)
		step := r.rates.StepSecondsAt(r.ledger.Load().Running, r.ledger.Load().DecodeKVTokens)
		f.plan(f.now.Add(seconds(float64(req.output)*step)), func() {
			require.True(f.t, r.ledger.End(c.Ticket, ledger.Finished))
			f.policy.OnEnd(r.id)
		})
	})
	return dec.Index
}

// look is what each replica would be asked for, and what it is to the request.
func (f *fleet) look(plan ledger.Plan, overlap []prefix.Overlap) ([]ledger.Claim, []candidate) {
	claims := make([]ledger.Claim, len(f.replicas))
	candidates := make([]candidate, len(f.replicas))
	for i, r := range f.replicas {
		plan.OverlapTokens = min(scoring.Tokens(overlap[r.slot].Device)*blockTokens, plan.PromptTokens-1)
		load := r.ledger.Load()
		claims[i] = plan.Claim(load.Limits)
		rides := min(overlap[r.slot].Device, scoring.Blocks(len(claims[i].SharedKeys)))
		candidates[i] = candidate{
			policy.Candidate{ID: r.id, Load: load, Rates: r.rates},
			policy.Fit{
				OverlapTokens: plan.OverlapTokens, RideBlocks: rides,
				NeedBlocks: claims[i].PrivateBlocks + scoring.Blocks(len(claims[i].SharedKeys)) - rides,
			},
		}
	}
	return claims, candidates
}

// runUntil lets the replicas work up to a moment.
func (f *fleet) runUntil(t time.Time) {
	for at, ok := f.next(); ok && !at.After(t); at, ok = f.next() {
		f.now = at
		(*f.events.Next())()
	}
	f.now = t
}

// plan has something happen at a time.
func (f *fleet) plan(at time.Time, do func()) { *f.events.At(at.Sub(start)) = do }

// next is when something happens; false: nothing will.
func (f *fleet) next() (time.Time, bool) {
	at, ok := f.events.Peek()
	return start.Add(at), ok
}

// finish lets them work until nothing is left to do.
func (f *fleet) finish() {
	for at, ok := f.next(); ok; at, ok = f.next() {
		f.runUntil(at)
	}
	for _, r := range f.replicas {
		require.True(f.t, r.ledger.Empty())
	}
}

// shares is how many requests each replica took.
func (f *fleet) shares() []int {
	out := make([]int, len(f.replicas))
	for i, r := range f.replicas {
		out[i] = r.took
	}
	return out
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
