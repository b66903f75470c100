package dst

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/stream"
	"plimsoll/tokenizer/chat"
)

// begun is what a seed has drawn before anything happens.
type begun struct {
	at    time.Duration
	kind  kind
	fault Fault
	req   stream.Request
	ids   [][]uint32
}

// beginning lists it without what tiers and recalls add, and what the run's generator says next. change alters the plan.
func beginning(seed uint64, change func(p *plan)) (all []begun, crowd int, next uint64) {
	w := newWorld(Config{Seed: seed})
	w.drawPlan()
	change(&w.plan)
	w.begins()
	for _, ok := w.due.Peek(); ok; _, ok = w.due.Peek() {
		e := w.next()
		if e.kind == evOrder {
			continue
		}
		b := begun{at: w.now, kind: e.kind, fault: e.fault}
		if e.kind == evCall {
			if e.call.small {
				crowd++
				continue
			}
			b.req, b.ids = *e.call.req, e.call.ids
			b.req.Class, b.req.Tenant, b.req.SLO = 0, "", stream.SLO{}
			if b.req.Input.Chat != nil { // its words are the number of its call, and the crowd's calls have numbers too
				b.req.Input = stream.Input{Chat: &chat.Request{}}
			}
		}
		all = append(all, b)
	}
	return all, crowd, w.rng.Uint64()
}

// TestOwnGeneratorsChangeNothingElse: fleet, requests and faults of a seed are drawn as if there were no classes, tenants and SLOs,
// nobody was drained for a while, and engines did nothing odd for one request's sake.
func TestOwnGeneratorsChangeNothingElse(t *testing.T) {
	t.Parallel()
	const seeds = 60
	tiered, recalled, crowds := 0, 0, 0
	for seed := range uint64(seeds) {
		if drawTiers(seed).rng != nil {
			tiered++
		}
		if drawRecalls(seed).rng != nil {
			recalled++
		}
		plain, always, next := beginning(seed, func(p *plan) { p.tiers, p.recalls, p.singles = tiers{}, recalls{}, singles{} })
		with, crowd, after := beginning(seed, func(*plan) {})
		require.Equal(t, plain, with, "seed %d", seed)
		require.Equal(t, next, after, "seed %d", seed)
		require.GreaterOrEqual(t, crowd, always, "seed %d: echoes and sieges come all the same", seed)
		if crowd > always {
			crowds++
		}
	}
	require.InDelta(t, seeds/2, tiered, seeds/5)
	require.InDelta(t, seeds/3, recalled, seeds/6)
	require.Greater(t, crowds, seeds/6)
}
