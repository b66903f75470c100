package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring"
	"plimsoll/scoring/policy"
	"plimsoll/scoring/queue"
)

// TestRoomIsKept: what is kept for a class is there for it and for those above it, and not for those below, whatever the policy.
func TestRoomIsKept(t *testing.T) {
	for _, tc := range []struct {
		name         string
		free, seats  int
		kept         int // blocks, for one request of class default
		class        queue.Class
		need, wanted int // blocks and seats
		why          policy.Reason
	}{
		{"the class itself", 40, 8, 57, queue.Default, 5, 1, policy.OK},
		{"a class above", 40, 8, 57, queue.Priority, 5, 1, policy.OK},
		{"a class below", 40, 8, 57, queue.Flex, 5, 1, policy.Kept},
		{"a class below, beside it", 62, 8, 57, queue.Flex, 5, 1, policy.OK},
		{"a class below, nearly beside it", 61, 8, 57, queue.Flex, 5, 1, policy.Kept},
		{"a class below, for which there is no room anyway", 40, 8, 57, queue.Flex, 41, 1, policy.NoBlocks},
		{"its seat", 500, 1, 57, queue.Flex, 5, 1, policy.Kept},
		{"a seat beside it", 500, 2, 57, queue.Flex, 5, 1, policy.OK},
		{"no seat for two anyway", 500, 1, 57, queue.Flex, 5, 2, policy.NoSeats},
	} {
		t.Run(tc.name, func(t *testing.T) {
			everyPolicy(t, func(t *testing.T, fresh func(uint64) policy.Policy) {
				t.Helper()
				p := fresh(1)
				fleet := []candidate{with(idle("a"), func(c *candidate) {
					c.Load.BookedBlocks, c.Load.SeatsBooked = scoring.Blocks(1000-tc.free), 8-tc.seats
				})}
				pass, fits := looked(p, start, fleet, policy.Queue{})
				fits[0].NeedBlocks = scoring.Blocks(tc.kept)
				pass.Keep(queue.Default, usual(), &fits[0], 0)
				for _, i := range pass.Serve(tc.class) {
					p.Look(i)
				}
				d := usual()
				d.Seats, fits[0].NeedBlocks = tc.wanted, scoring.Blocks(tc.need)
				require.Equal(t, tc.why.String(), pass.Eligible(d, fits, 0).String())
				require.Equal(t, tc.why == policy.OK, p.Decide(d, fits).Verdict == policy.Dispatch)
			})
		})
	}
}

// TestServe: it says where the room for a class is another than that for the one before, and keeps nothing past the pass.
func TestServe(t *testing.T) {
	p := rival(t, "token-load")
	pass, fits := looked(p, start, []candidate{idle("a"), idle("b"), idle("c")}, policy.Queue{})
	require.False(t, pass.Keeps())
	require.Empty(t, pass.Serve(queue.Flex))
	pass.Keep(queue.Priority, usual(), &fits[1], 1)
	require.True(t, pass.Keeps())
	require.Equal(t, []int{1}, pass.Serve(queue.Flex), "something was kept since")
	require.Equal(t, []int{1}, pass.Serve(queue.Priority))
	require.Empty(t, pass.Serve(queue.Priority))
	pass.Keep(queue.Default, usual(), &fits[2], 2)
	require.Equal(t, []int{1}, pass.Serve(queue.Default))
	require.Equal(t, []int{2}, pass.Serve(queue.Flex))
	require.Equal(t, []scoring.Blocks{0, 14, 14}, []scoring.Blocks{pass.Fleet[0].KeptBlocks, pass.Fleet[1].KeptBlocks, pass.Fleet[2].KeptBlocks})
	pass.Begin(start, pass.Fleet[:1], policy.Queue{})
	require.False(t, pass.Keeps())
}

// TestWaitForKeptRoomIsLonger: what is kept is missing to who waits in a lower class.
func TestWaitForKeptRoomIsLonger(t *testing.T) {
	fleet := []candidate{quick("1", func(c *candidate) {
		c.Load.Limits.KVBlocks, c.Load.BookedBlocks = 1000, 900
		c.Load.Running, c.Load.RemainingOutputTokens = 10, 400
	})}
	p := rival(t, "token-load")
	pass, fits := looked(p, start, fleet, policy.Queue{})
	memory := func() float64 { return parts(t, laid(p, pass, answer(), fits), 0)["memory"] }
	before := memory() // 11 of 900 are missing
	pass.Keep(queue.Priority, answer(), &fits[0], 0)
	for _, i := range pass.Serve(queue.Flex) {
		p.Look(i)
	}
	require.InDelta(t, before*122/11, memory(), 1e-9)
}

// TestNearest: where the least is missing as a share of what is usable, of those that will have room; what is kept there already counts.
func TestNearest(t *testing.T) {
	booked := func(blocks scoring.Blocks, seats int) func(*candidate) {
		return func(c *candidate) { c.Load.BookedBlocks, c.Load.SeatsBooked, c.NeedBlocks = blocks, seats, 200 }
	}
	for _, tc := range []struct {
		name  string
		fleet []candidate
		kept  []int // 200 blocks and a seat each
		want  int   // -1: none
	}{
		{"no fleet", nil, nil, -1},
		{"the least", []candidate{with(idle("a"), booked(950, 2)), with(idle("b"), booked(850, 2)), with(idle("c"), booked(900, 2))}, nil, 1},
		{"the first of equals", []candidate{with(idle("a"), booked(900, 2)), with(idle("b"), booked(900, 2))}, nil, 0},
		{"a seat is an eighth", []candidate{with(idle("a"), booked(0, 8)), with(idle("b"), booked(900, 2))}, nil, 1},
		{"a seat beside blocks", []candidate{with(idle("a"), booked(850, 8)), with(idle("b"), booked(900, 2))}, nil, 1},
		{"kept for others", []candidate{with(idle("a"), booked(850, 2)), with(idle("b"), booked(950, 2))}, []int{0}, 1},
		{"one that is down", []candidate{with(idle("a"), both(booked(0, 0), func(c *candidate) { c.State = policy.Down })), with(idle("b"), booked(950, 2))}, nil, 1},
		{"one that is silent", []candidate{with(idle("a"), both(booked(900, 0), func(c *candidate) { c.Suspect = true })), with(idle("b"), booked(950, 2))}, nil, 1},
		{"others use too much of it", []candidate{with(idle("a"), both(booked(0, 0), func(c *candidate) { c.Load.ForeignBlocks = 801 }))}, nil, -1},
		{"its overdraft", []candidate{
			with(idle("a"), both(booked(700, 2), func(c *candidate) { c.Load.OverdraftBlocks = 400 })), with(idle("b"), booked(850, 2)),
		}, nil, 1},
		{"one that refused it may need the blocks that are not shared", []candidate{
			with(idle("a"), both(booked(850, 2), func(c *candidate) { c.Barred, c.RideBlocks = true, 200 })), with(idle("b"), booked(900, 2)),
		}, nil, 1},
		{"its warming quota", []candidate{
			with(idle("a"), both(booked(0, 2), func(c *candidate) { c.State, c.WarmingSeats = policy.Warming, 2 })), with(idle("b"), booked(850, 2)),
		}, nil, 1},
		{"no quota at all", []candidate{with(idle("a"), both(booked(0, 0), func(c *candidate) { c.State = policy.Warming }))}, nil, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pass, fits := looked(rival(t, "least-requests"), start, tc.fleet, policy.Queue{})
			for _, i := range tc.kept {
				pass.Keep(queue.Priority, usual(), &fits[i], i)
			}
			at, ok := pass.Nearest(usual(), fits)
			require.Equal(t, tc.want >= 0, ok)
			if ok {
				require.Equal(t, tc.want, at)
			}
		})
	}
}
