package router

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/queue"
)

// TestRoomIsKeptForAHigherClass: what a request waits for is left to it by those of lower classes alone, promotions counted, until it
// has its place or leaves.
func TestRoomIsKeptForAHigherClass(t *testing.T) {
	setup := func(t *testing.T, changes ...func(*Config)) (r *rig, large *stream.Submit) {
		t.Helper()
		cfg := testConfig()
		for _, change := range changes {
			change(&cfg)
		}
		cfg.Policy.Name = "least-requests"
		r = newRig(t, cfg, 1)
		r.sites[0].hold(60)
		large = r.submit(r.askFor(classed(queue.Default, 100), ids(1, 800)))
		require.True(t, r.waits(large), "it needs more than 40 blocks")
		return r, large
	}
	small := func(r *rig, class queue.Class) *stream.Submit {
		return r.submit(r.askFor(classed(class, 16), ids(2, 64)))
	}

	t.Run("against a lower one", func(t *testing.T) {
		r, large := setup(t)
		flex := small(r, queue.Flex)
		require.True(t, r.waits(flex))
		r.sites[0].free()
		r.step(fleet.Room{Replica: "a"})
		r.deliver()
		r.places(large)
		r.places(flex) // both fit now
	})
	t.Run("not against its own, nor a higher one", func(t *testing.T) {
		r, large := setup(t)
		r.places(small(r, queue.Default))
		r.places(small(r, queue.Priority))
		require.True(t, r.waits(large))
	})
	t.Run("not against one that has waited to be of its class", func(t *testing.T) {
		r, large := setup(t)
		flex := small(r, queue.Flex)
		r.pass(9 * time.Second)
		require.True(t, r.waits(flex))
		r.pass(2 * time.Second)
		r.places(flex)
		require.True(t, r.waits(large))
	})
	t.Run("not against an answer that has begun", func(t *testing.T) {
		r, large := setup(t)
		sub := r.askFor(classed(queue.Flex, 16), ids(2, 64))
		sub.Again, sub.Begun = true, true
		sub.Legs[0].Produced, sub.Legs[0].Since, sub.Legs[0].MaxTokens = 4, r.now, new(16)
		r.places(r.submit(sub))
		require.True(t, r.waits(large))
		require.True(t, r.waits(small(r, queue.Flex)), "it is kept against the next")
	})
	t.Run("beside what is kept there is room", func(t *testing.T) {
		r, large := setup(t)
		r.sites[0].free()
		r.sites[0].hold(20) // nobody tells the router
		r.places(small(r, queue.Flex))
		r.places(large)
	})
	t.Run("until it leaves", func(t *testing.T) {
		r, large := setup(t)
		flex := small(r, queue.Flex)
		require.True(t, r.waits(flex))
		r.step(stream.Withdraw{Call: large.Call, Number: large.Number})
		r.deliver()
		r.places(flex)
	})
	t.Run("until its time is up", func(t *testing.T) {
		r, large := setup(t)
		r.pass(25 * time.Second)
		flex := small(r, queue.Flex)
		require.True(t, r.waits(flex))
		r.pass(r.m.cfg.QueueTimeout - 25*time.Second)
		require.Equal(t, fault.Contended, r.fault(large).Kind)
		r.places(flex)
	})
	t.Run("nothing where it would not fit though all of ours had ended", func(t *testing.T) {
		r, large := setup(t)
		r.sites[0].free()
		used, seqs := scoring.Blocks(60), 1
		for range 4 { // others use them, the engine says
			r.sites[0].ledger.Sample(&used, &seqs, nil)
		}
		r.places(small(r, queue.Flex))
		require.True(t, r.waits(large))
	})
	t.Run("while it rests", func(t *testing.T) {
		r, large := setup(t)
		r.m.queuedAs[large.Call].rests = r.now.Add(refusedRest)
		require.True(t, r.waits(small(r, queue.Flex)))
	})
	t.Run("seats for all legs", func(t *testing.T) {
		r, large := setup(t)
		r.step(stream.Withdraw{Call: large.Call, Number: large.Number})
		r.sites[0].hold(1) // two seats are left
		three := classed(queue.Default, 16)
		three.N = 3
		legs := r.submit(r.askFor(three, ids(3, 64)))
		require.True(t, r.waits(legs))
		require.True(t, r.waits(small(r, queue.Flex)))
	})
	t.Run("against one that was refused and is ranked anew", func(t *testing.T) {
		r, large := setup(t)
		r.step(stream.Withdraw{Call: large.Call, Number: large.Number})
		flex := r.askFor(classed(queue.Flex, 16), ids(2, 64))
		r.step(flex)
		large.Number++
		r.step(large)
		require.Len(t, r.sent, 1)
		e := r.sent[0]
		r.sent = nil
		r.sites[0].snap.Epoch++ // so that it may be asked again
		r.step(&fleet.Refused{Ticket: e.claim.Ticket, Replica: "a", Reason: ledger.NoBlocks, Snapshot: &fleet.Snapshot{ID: "a"}})
		require.Empty(t, r.sent)
		require.True(t, r.waits(flex))
	})
	t.Run("against one whose time is up", func(t *testing.T) {
		r, _ := setup(t, func(cfg *Config) { cfg.Queue.PromoteAfter = time.Hour })
		flex := r.askFor(classed(queue.Flex, 16), ids(2, 64))
		flex.Arrival = r.now.Add(time.Second - r.m.cfg.QueueTimeout)
		r.submit(flex)
		require.True(t, r.waits(flex))
		r.pass(time.Second)
		require.Equal(t, fault.Contended, r.fault(flex).Kind)
	})
	t.Run("where it began, though less is missing elsewhere by now", func(t *testing.T) {
		r, large := setup(t)
		b := r.add("b", testLimits())
		b.hold(70)
		require.Equal(t, scoring.ReplicaID("b"), r.places(small(r, queue.Flex))[0].Ref.ID, "30 blocks are free there, and 40 on the other")
		b.free()
		b.hold(45)
		r.step(fleet.Room{Replica: "b"})
		require.True(t, r.waits(large))
		require.Equal(t, scoring.ReplicaID("b"), r.places(small(r, queue.Flex))[0].Ref.ID)
		r.sites[0].snap.State = fleet.Draining
		require.True(t, r.waits(small(r, queue.Flex)), "there it can have no room any more")
	})
	t.Run("where the least is missing", func(t *testing.T) {
		r, large := setup(t)
		r.add("b", testLimits()).hold(50) // ten blocks more are free
		flex := small(r, queue.Flex)
		require.Equal(t, scoring.ReplicaID("a"), r.places(flex)[0].Ref.ID)
		r.site("b").free()
		r.step(fleet.Room{Replica: "b"})
		r.deliver()
		require.Equal(t, scoring.ReplicaID("b"), r.places(large)[0].Ref.ID)
	})
}

// TestWhoLeavesRoomIsRefusedByAnotherFleet: whoever was refused, and leaves room to others, is looked at with the fleet as it is now.
func TestWhoLeavesRoomIsRefusedByAnotherFleet(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *rig)
		placed bool // who waits, on the fleet that has changed
	}{
		"one has joined": {func(r *rig) { r.add("c", testLimits()) }, true},
		"one has left":   {func(r *rig) { r.sites = r.sites[1:] }, false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			cfg.Policy.Name = "least-requests"
			r := newRig(t, cfg, 2)
			r.site("a").hold(60)
			r.site("b").fill()
			flex := r.askFor(classed(queue.Flex, 16), ids(2, 64))
			r.step(flex)
			large := r.askFor(classed(queue.Default, 100), ids(1, 800))
			r.step(large)
			require.Len(t, r.sent, 1)
			e := r.sent[0]
			require.Equal(t, scoring.ReplicaID("a"), e.ref.ID)
			r.sent = nil
			c.change(r)
			r.step(&fleet.Refused{Ticket: e.claim.Ticket, Replica: "a", Reason: ledger.NoBlocks, Snapshot: &fleet.Snapshot{ID: "a"}})
			r.deliver()
			require.Equal(t, c.placed, !r.waits(large))
		})
	}
}

// TestRoomIsKeptWhereOneWaitsForABetterReplica: what is free on a replica that is full for a request and worth its wait is left to it,
// though another could take it.
func TestRoomIsKeptWhereOneWaitsForABetterReplica(t *testing.T) {
	for _, first := range []queue.Class{queue.Default, queue.Flex} {
		r := newRig(t, testConfig(), 1)
		prompt := ids(1, 800)
		r.end(r.places(r.submit(r.askFor(classed(first, 100), prompt)))[0]) // it is cached there
		r.sites[0].hold(60)
		r.add("b", testLimits())
		r.step(fleet.Room{Replica: "b"})
		large := r.submit(r.askFor(classed(first, 100), prompt))
		require.True(t, r.waits(large))
		small := r.submit(r.askFor(classed(queue.Flex, 16), prompt[:64]))
		taken := len(r.answers(small)) > 0 && r.places(small)[0].Ref.ID == "a"
		require.Equal(t, first == queue.Flex, taken, "its prompt is cached there, too")
	}
}

// TestKeptRoomIsExplained: a request that is supposed meets what a real one meets, and a shadow of the same policy agrees.
func TestKeptRoomIsExplained(t *testing.T) {
	for _, name := range []string{"least-requests", "token-load"} {
		cfg := testConfig()
		cfg.Policy.Name = name
		r := newRig(t, cfg, 1)
		r.watch = watch(t, name)
		long := claimOf(1, 60)
		long.ExpectedOutputTokens = 1000
		require.Equal(t, ledger.None, r.sites[0].ledger.Reserve(r.now, long))
		large := r.submit(r.askFor(classed(queue.Default, 100), ids(1, 800)))
		require.True(t, r.waits(large))
		for class, want := range map[queue.Class]string{queue.Default: "eligible", queue.Flex: "kept for a higher class"} {
			would := r.supposes(classed(class, 16), ids(2, 64))
			require.Equal(t, want, would.Looks[0].Candidates[0].Fit)
			req := classed(class, 16)
			req.ID = class.String()
			sub := r.submit(r.askFor(req, ids(2, 64)))
			got := r.record(req.ID)
			require.Equal(t, want, got.Looks[0].Candidates[0].Fit)
			require.Equal(t, would.Looks[0].Verdict, got.Looks[0].Verdict)
			require.Equal(t, class == queue.Flex, r.waits(sub))
			if at := slices.Index(got.Looks[0].Terms, "memory"); at >= 0 {
				memory := got.Looks[0].Candidates[0].Values[at]
				require.Equal(t, class == queue.Flex, memory > 0, "it has to wait for room")
				require.InDelta(t, would.Looks[0].Candidates[0].Values[at], memory, 1e-9)
			}
			require.Equal(t, "agree", got.Shadows[0].Outcome)
			r.step(stream.Withdraw{Call: sub.Call, Number: sub.Number})
			for _, p := range r.placed {
				r.end(p)
			}
		}
		require.True(t, r.waits(large))
	}
}

// TestShadowsSeeWhatIsKept: also where it is kept after others were decided for in the same pass.
func TestShadowsSeeWhatIsKept(t *testing.T) {
	for _, name := range []string{"least-requests", "token-load"} {
		cfg := testConfig()
		cfg.Policy.Name = name
		r := newRig(t, cfg, 2)
		r.watch = watch(t, name)
		a, b := r.site("a"), r.site("b")
		for s, blocks := range map[*site]scoring.Blocks{a: 57, b: 70} { // a large one and three small ones: all seats
			long := claimOf(1, blocks)
			long.ExpectedOutputTokens = 1000
			require.Equal(t, ledger.None, s.ledger.Reserve(r.now, long))
			s.ledger.Start(long.Ticket, r.now)
			s.holds = 1
			s.fill()
		}
		large := r.submit(r.askFor(classed(queue.Default, 100), ids(1, 800)))
		second := r.submit(r.askFor(classed(queue.Default, 16), ids(2, 64)))
		req := classed(queue.Flex, 16)
		req.ID = "flex"
		flex := r.submit(r.askFor(req, ids(3, 64)))
		for _, n := range []uint64{2, 3, 4} {
			a.ledger.End(claimOf(n, 1).Ticket, ledger.Finished)
		}
		b.ledger.End(claimOf(2, 1).Ticket, ledger.Finished)
		r.step(fleet.Room{Replica: "a"})
		r.deliver()
		require.True(t, r.waits(large))
		require.Equal(t, scoring.ReplicaID("a"), r.places(second)[0].Ref.ID)
		require.Equal(t, scoring.ReplicaID("b"), r.places(flex)[0].Ref.ID, "a has fewer requests, and keeps its room")
		require.Equal(t, "agree", r.record("flex").Shadows[0].Outcome)
	}
}

func classed(class queue.Class, maxTokens int) *stream.Request {
	return &stream.Request{Model: "m", N: 1, Class: class, MaxTokens: new(maxTokens)}
}
