package router

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/scoring/policy"
	"plimsoll/scoring/queue"
)

// crowd is a fleet before which requests of lower classes wait at any time.
type crowd struct {
	*rig

	draw    *rapid.T
	runs    []run
	waiting []*stream.Submit // of the crowd
	served  int              // of them
	low     []queue.Class    // theirs
	largest int              // of their prompts
	longest time.Duration    // of their answers
}

// run is an answer that ends.
type run struct {
	place stream.Placement
	end   time.Time
}

const crowdStep = 50 * time.Millisecond

// moment lets a moment pass: prompts are computed, who has come to an end leaves, and others of the crowd take their places in the queue.
func (c *crowd) moment() {
	for _, r := range c.runs {
		c.site(r.place.Ref.ID).ledger.Start(r.place.Claim.Ticket, c.now) // if it has not begun
	}
	for _, r := range slices.Clone(c.runs) {
		if !c.now.Before(r.end) {
			c.end(r.place)
			c.deliver()
		}
	}
	c.runs = slices.DeleteFunc(c.runs, func(r run) bool { return !c.now.Before(r.end) })
	c.crowd()
	c.pass(crowdStep)
	c.settle()
}

// crowd has six of the crowd wait.
func (c *crowd) crowd() {
	c.settle()
	for len(c.waiting) < 6 {
		sub := c.askFor(&stream.Request{
			Model: "m", N: 1, MaxTokens: new(rapid.IntRange(1, 60).Draw(c.draw, "max_tokens")), Class: rapid.SampledFrom(c.low).Draw(c.draw, "class"),
		}, ids(c.served+len(c.waiting)+1, rapid.IntRange(1, c.largest).Draw(c.draw, "tokens")))
		c.submit(sub)
		c.waiting = append(c.waiting, sub)
		c.settle()
	}
}

// settle moves those on who were placed.
func (c *crowd) settle() {
	c.waiting = slices.DeleteFunc(c.waiting, func(sub *stream.Submit) bool {
		if len(c.answers(sub)) == 0 {
			return false
		}
		c.served++
		for _, p := range c.places(sub) {
			life := time.Duration(rapid.Int64Range(1, int64(c.longest)).Draw(c.draw, "life"))
			c.runs = append(c.runs, run{p, c.now.Add(life)})
		}
		return true
	})
}

// TestAHigherClassIsServedInTime: a request that fits on the fleet when that is empty has its place within a bound, however much it
// needs, while any number of lower classes waits for the same room.
func TestAHigherClassIsServedInTime(t *testing.T) {
	var waits, several int
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				cfg := testConfig()
				cfg.Policy.Name = name
				cfg.Admission = rapid.SampledFrom([]Admission{Expected, Strict}).Draw(t, "admission")
				cfg.QueueTimeout, cfg.Queue.PromoteAfter = time.Hour, time.Hour
				c := &crowd{
					rig: newRig(t, cfg, 0), draw: t, longest: 2 * time.Second,
					largest: rapid.SampledFrom([]int{64, 400}).Draw(t, "largest of the crowd"),
				}
				for i := range rapid.IntRange(1, 3).Draw(t, "replicas") {
					c.add(scoring.ReplicaID('a'+rune(i)), scoring.Limits{
						KVBlocks: scoring.Blocks(rapid.IntRange(40, 120).Draw(t, "blocks")), Seats: rapid.IntRange(3, 12).Draw(t, "seats"),
						SequenceTokens: 1000, BlockTokens: 16,
					})
				}
				class := rapid.SampledFrom([]queue.Class{queue.Priority, queue.Default}).Draw(t, "class")
				c.low = []queue.Class{queue.Flex}
				if class == queue.Priority {
					c.low = append(c.low, queue.Default)
				}
				for range 20 {
					c.moment()
				}
				sub := c.askFor(&stream.Request{
					Model: "m", N: rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "n"), MaxTokens: new(rapid.IntRange(1, 90).Draw(t, "max_tokens")), Class: class,
				}, ids(0, rapid.IntRange(1, 900).Draw(t, "tokens")))
				c.submit(sub)
				if len(c.kinds) > 0 {
					t.Skip("it does not fit on an empty fleet")
				}
				before, bound := c.served, c.now
				if e := c.m.queuedAs[sub.Call]; e != nil {
					waits++
					bound = e.bound
				}
				for len(c.answers(sub)) == 0 {
					require.Less(t, c.now.Sub(bound), c.longest+3*crowdStep, "it waits, while %d of lower classes were served", c.served-before)
					c.moment()
				}
				if len(c.places(sub)) > 1 {
					several++
				}
			})
		})
	}
	require.Greater(t, waits, 500)
	require.Greater(t, several, 50)
}
