package router

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/actors/stream"
	"plimsoll/scoring/policy"
	"plimsoll/scoring/queue"
)

// counter is a fleet of one replica with one seat, so that requests go one by one and everybody fits.
type counter struct {
	*rig

	subs map[*stream.Call]*stream.Submit
	took *stream.Placement // on the seat
	// since is a moment right before it was taken.
	since time.Time
	// What is known of a request that waits, as it was before it left.
	charge map[*stream.Call]float64
}

func newCounter(t require.TestingT, cfg Config) *counter {
	c := &counter{rig: newRig(t, cfg, 0), subs: map[*stream.Call]*stream.Submit{}, charge: map[*stream.Call]float64{}}
	limits := testLimits()
	limits.Seats = 1
	c.add("a", limits)
	return c
}

func (c *counter) ask(req *stream.Request, tokens int) *stream.Submit {
	req.Model, req.N = "m", 1
	sub := c.askFor(req, ids(len(c.subs), tokens))
	c.subs[sub.Call] = sub
	c.submit(sub)
	c.note()
	return sub
}

func (c *counter) note() {
	for call, e := range c.m.queuedAs {
		c.charge[call] = e.chargeSeconds
	}
}

// next ends what is on the seat and returns the request that takes it, nil if none waits.
func (c *counter) next() *stream.Submit {
	if c.took != nil {
		c.since = c.now
		c.end(*c.took)
		c.took = nil
		c.deliver()
	}
	for range 1000 {
		for call, sub := range c.subs {
			if len(c.answers(sub)) > 0 {
				if placed, ok := c.answers(sub)[0].(stream.Placed); ok {
					c.took = &placed.Placements[0]
				}
				delete(c.subs, call)
				if c.took != nil {
					return sub
				}
			}
		}
		if len(c.subs) == 0 {
			return nil
		}
		c.since = c.now
		c.pass(10 * time.Millisecond) // the policy may hold it for a while
	}
	require.Fail(c.t, "the seat is free, and nobody takes it")
	return nil
}

// TestTenantsShareWithinTheBound: while two tenants both have requests waiting, what they were charged, in seconds ÷ weight, differs
// by at most twice the largest charge ÷ weight, whatever they send and in what order it comes.
func TestTenantsShareWithinTheBound(t *testing.T) {
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		cfg := testConfig()
		cfg.QueueTimeout, cfg.Queue.PromoteAfter = time.Hour, time.Hour
		cfg.Policy.Name = rapid.SampledFrom(policy.Names()).Draw(t, "policy")
		weights := map[string]float64{"x": 1, "y": rapid.Float64Range(0.2, 5).Draw(t, "weight")}
		cfg.TenantWeights = weights
		c := newCounter(t, cfg)
		c.ask(&stream.Request{Tenant: "z"}, 100) // takes the seat
		waiting := map[string]int{}
		for range rapid.IntRange(6, 40).Draw(t, "requests") {
			tenant := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "tenant")
			c.ask(&stream.Request{Tenant: tenant, MaxTokens: new(rapid.IntRange(1, 90).Draw(t, "max_tokens"))},
				rapid.IntRange(1, 900).Draw(t, "tokens"))
			waiting[tenant]++
		}
		require.Equal(t, "z", c.next().Call.Request.Tenant)
		served, largest := map[string]float64{}, 0.0
		for call, charge := range c.charge {
			largest = max(largest, charge/weights[call.Request.Tenant])
		}
		for waiting["x"] > 0 && waiting["y"] > 0 {
			call := c.next().Call
			tenant := call.Request.Tenant
			waiting[tenant]--
			served[tenant] += c.charge[call] / weights[tenant]
			require.LessOrEqual(t, max(served["x"]-served["y"], served["y"]-served["x"]), 2*largest+1e-9)
			compared++
		}
	})
	require.Greater(t, compared, 300)
}

// TestTurnedAwayIsNotCharged: a request that is refused when its turn comes, because it is too late for its SLO, counts as nothing that
// its tenant was given.
func TestTurnedAwayIsNotCharged(t *testing.T) {
	cfg := testConfig()
	cfg.QueueTimeout, cfg.Policy.Name = time.Hour, "least-requests"
	c := newCounter(t, cfg)
	c.ask(&stream.Request{Tenant: "z"}, 100) // takes the seat
	late := c.ask(&stream.Request{Tenant: "x", SLO: stream.SLO{TTFT: new(time.Minute)}}, 100)
	mine := c.ask(&stream.Request{Tenant: "x"}, 100)
	other := c.ask(&stream.Request{Tenant: "y"}, 100)
	require.Equal(t, "z", c.next().Call.Request.Tenant)
	c.now = c.now.Add(2 * time.Minute)
	require.Same(t, mine, c.next(), "x has had nothing")
	require.IsType(t, stream.Rejected{}, c.answers(late)[0])
	require.Same(t, other, c.next())
}

// TestNoPriorityInversion: at the moment that a request takes the seat nobody waits whose class, promotions counted, goes before its.
func TestNoPriorityInversion(t *testing.T) {
	passed, promoted := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		cfg := testConfig()
		cfg.QueueTimeout, cfg.Queue.PromoteAfter = time.Hour, 2*time.Second
		cfg.Policy.Name = rapid.SampledFrom(policy.Names()).Draw(t, "policy")
		c := newCounter(t, cfg)
		rank := func(sub *stream.Submit, at time.Time) int {
			return max(0, int(sub.Call.Request.Class)-int(at.Sub(sub.Arrival)/cfg.Queue.PromoteAfter))
		}
		come := func() {
			c.ask(&stream.Request{
				Class: queue.Class(rapid.IntRange(0, int(queue.NumClasses)-1).Draw(t, "class")), Tenant: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "tenant"),
			}, 100)
		}
		come()
		for range rapid.IntRange(5, 30).Draw(t, "requests") {
			come()
			c.now = c.now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "ms")) * time.Millisecond)
		}
		require.NotNil(t, c.next())
		for {
			before := slices.Collect(maps.Values(c.subs))
			sub := c.next()
			if sub == nil {
				return
			}
			for _, other := range before {
				require.LessOrEqual(t, rank(sub, c.now), rank(other, c.since), "it went before one whose class goes before its")
				if rank(sub, c.now) < rank(other, c.now) {
					passed++
				}
			}
			if rank(sub, c.now) < int(sub.Call.Request.Class) {
				promoted++
			}
			if rapid.Bool().Draw(t, "more") && len(c.subs) < 30 {
				come()
			}
		}
	})
	require.Greater(t, passed, 300)
	require.Greater(t, promoted, 300)
}
