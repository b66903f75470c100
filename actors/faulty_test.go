package actors

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/live"
	"plimsoll/scoring"
)

// state is a replica's.
func (f *rig) state(n int) fleet.State { return f.Snapshots()[n].State }

// taught has every replica show its pace: what is not known of one is not held against it for ten seconds.
// Their answers are as long as any that follow, so that nobody is overdrawn and resumed ones find room.
func (f *rig) taught(t *testing.T) {
	t.Helper()
	rng := newRand(99)
	for known := false; !known; {
		var all []*stream.Response
		for range 4 * len(f.engines) {
			all = append(all, f.Submit(tokensRequest(randomPrompt(rng, 200), 500)))
		}
		for _, r := range all {
			require.NoError(t, readAll(t.Context(), r, 1).err)
		}
		known = true
		for _, s := range f.Snapshots() {
			known = known && s.StepP99 != nil && s.QuotaSeats == nil
		}
	}
}

// TestAHungEngineIsLeft: requests without a token go elsewhere within the bound of semantics 4, what comes later does not go
// there, and the engine is used again as soon as it goes on. In a bubble, on a virtual clock.
func TestAHungEngineIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{replicas: 2, profile: sim.DefaultConfig(), speed: 1})
		f.taught(t)
		rng := newRand(7)
		f.engines[1].Pause()
		paused := time.Now()
		done := make(chan time.Duration, 100)
		for range 100 { // 50 a second
			r := f.Submit(tokensRequest(randomPrompt(rng, 200), 8))
			began := time.Now()
			go func() {
				_, err := r.Next(t.Context())
				took := time.Since(began)
				if err == nil {
					err = readAll(t.Context(), r, 1).err
				}
				if err != nil {
					t.Error(err)
				}
				done <- took
			}()
			time.Sleep(20 * time.Millisecond) // virtual
		}
		moved, slowest := 0, time.Duration(0)
		for range 100 {
			took := <-done
			slowest = max(slowest, took)
			if took > 200*time.Millisecond {
				moved++
			}
		}
		t.Logf("%d moved, slowest first token %s", moved, slowest)
		require.Equal(t, fleet.Down, f.state(1))
		require.Positive(t, moved)
		require.Less(t, moved, 30, "what comes within the bound")
		require.Less(t, slowest, 1500*time.Millisecond)

		time.Sleep(time.Minute - time.Since(paused)) // virtual
		require.Equal(t, fleet.Down, f.state(1), "its probes are answered all the while")
		f.engines[1].Resume()
		time.Sleep(5 * time.Second)
		require.Equal(t, fleet.Ready, f.state(1))
		f.quiet(t)
	})
}

// TestStreamsLeaveAHungEngine: answers that had begun go on elsewhere, whole, within the bound and a prefill.
func TestStreamsLeaveAHungEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{replicas: 3, profile: sim.DefaultConfig(), speed: 1})
		f.taught(t)
		rng := newRand(17)
		const streams = 30
		type outcome struct {
			gap    time.Duration
			tokens int
			err    error
		}
		done := make(chan outcome, streams)
		for range streams {
			r := f.Submit(tokensRequest(randomPrompt(rng, 200), 300))
			go func() {
				var o outcome
				for last := time.Now(); ; {
					d, err := r.Next(t.Context())
					if err != nil {
						if !errors.Is(err, io.EOF) {
							o.err = err
						}
						break
					}
					if len(d.Entries) > 0 {
						o.tokens += len(d.Entries)
						o.gap, last = max(o.gap, time.Since(last)), time.Now()
					}
				}
				done <- o
			}()
		}
		time.Sleep(time.Second) // virtual
		hit, step := f.Snapshots()[1].Load.Running, *f.Snapshots()[1].StepP99
		f.engines[1].Pause()
		paused, longest := 0, time.Duration(0)
		for range streams {
			o := <-done
			require.NoError(t, o.err)
			require.Equal(t, 300, o.tokens)
			if longest = max(longest, o.gap); o.gap > 250*time.Millisecond {
				paused++
			}
		}
		t.Logf("%d of %d streams hit, longest gap %s, step %s", hit, streams, longest, step)
		require.GreaterOrEqual(t, hit, streams/5)
		require.Equal(t, hit, paused, "nobody else notices")
		require.Less(t, longest, 12*step+500*time.Millisecond, "8 steps of silence, 4 for a canary, and a prefill elsewhere")
		f.engines[1].Resume()
		f.quiet(t)
	})
}

// TestAPauseIsNoHang: an engine that stops for less than the bound keeps its requests.
func TestAPauseIsNoHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{replicas: 2, profile: sim.DefaultConfig(), speed: 1})
		f.taught(t)
		var all []*stream.Response
		rng := newRand(8)
		for range 8 {
			all = append(all, f.Submit(tokensRequest(randomPrompt(rng, 200), 400)))
		}
		for range 5 {
			time.Sleep(300 * time.Millisecond)
			f.engines[1].Pause()
			time.Sleep(450 * time.Millisecond) // long enough for suspicion, and answered before the canary is late
			f.engines[1].Resume()
		}
		for _, r := range all {
			require.NoError(t, readAll(t.Context(), r, 1).err)
		}
		require.Equal(t, fleet.Ready, f.state(1))
		require.Zero(t, f.Snapshots()[1].Strikes)
		f.quiet(t)
	})
}

// TestABurstSplits: prompts that share nothing and are equally long go to idle replicas in equal parts.
func TestABurstSplits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{replicas: 2, profile: sim.DefaultConfig(), speed: 1})
		f.taught(t)
		rng := newRand(9)
		share := map[string]int{}
		var all []*stream.Response
		for range 50 {
			all = append(all, f.Submit(tokensRequest(randomPrompt(rng, 200), 8)))
		}
		for _, r := range all {
			require.NoError(t, readAll(t.Context(), r, 1).err)
			share[r.Replicas()[0]]++
		}
		require.InDelta(t, 25, share["sim-0"], 2, share)
		f.quiet(t)
	})
}

// TestADrainedReplicaStaysUntilItIsAskedBack: nothing new goes there, what runs ends there, and it serves again.
func TestADrainedReplicaStaysUntilItIsAskedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{replicas: 2, profile: sim.DefaultConfig(), speed: 1})
		f.taught(t)
		require.Error(t, f.DrainReplica("nobody", time.Minute))
		rng := newRand(3)
		var all []*stream.Response
		for range 8 {
			all = append(all, f.Submit(tokensRequest(randomPrompt(rng, 200), 100)))
		}
		for _, r := range all {
			_, err := r.Next(t.Context())
			require.NoError(t, err)
		}
		require.NoError(t, f.DrainReplica("sim-0", time.Minute))
		for range 8 {
			all = append(all, f.Submit(tokensRequest(randomPrompt(rng, 200), 10)))
		}
		there := 0
		for i, r := range all {
			require.NoError(t, readAll(t.Context(), r, 1).err)
			if r.Replicas()[0] == "sim-0" {
				there++
				require.Less(t, i, 8)
			}
		}
		require.Positive(t, there)
		time.Sleep(time.Hour)
		require.Equal(t, fleet.Draining, f.state(0))
		require.NoError(t, f.UndrainReplica("sim-0"))
		time.Sleep(time.Second)
		require.Equal(t, fleet.Ready, f.state(0))
		f.quiet(t)
	})
}

// TestADrainMovesWhatRunsAtItsDeadline to others, where it goes on to its whole answer.
func TestADrainMovesWhatRunsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{replicas: 2, profile: sim.DefaultConfig(), speed: 1})
		f.taught(t)
		rng := newRand(4)
		var all []*stream.Response
		for range 8 {
			all = append(all, f.Submit(tokensRequest(randomPrompt(rng, 200), 500))) // some five seconds
		}
		time.Sleep(time.Second)
		require.Positive(t, f.Snapshots()[0].Load.Running)
		require.NoError(t, f.DrainReplica("sim-0", time.Second))
		time.Sleep(900 * time.Millisecond)
		require.Positive(t, f.Snapshots()[0].Load.Running, "they may run until the deadline")
		time.Sleep(200 * time.Millisecond)
		require.Zero(t, f.Snapshots()[0].Load.Running+f.Snapshots()[0].Load.Lingering)
		for _, r := range all {
			a := readAll(t.Context(), r, 1)
			require.NoError(t, a.err)
			require.Equal(t, 500, a.usage.CompletionTokens)
			require.Equal(t, "sim-1", r.Replicas()[len(r.Replicas())-1])
		}
		require.Zero(t, f.Snapshots()[0].Strikes)
		require.Equal(t, fleet.Draining, f.state(0))
		f.quiet(t)
	})
}

// TestTheLastReplicaServesUntilItsSuccessorDoes: adding one and removing the other at once never leaves none that serves.
func TestTheLastReplicaServesUntilItsSuccessorDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{replicas: 1, profile: sim.DefaultConfig(), speed: 1})
		next := f.another(t, "next", sim.DefaultConfig(), 1)
		loading, ok := next.Engine.(*live.Engine)
		require.True(t, ok)
		loading.Kill()
		require.NoError(t, f.Add(f.cfg.Models[0].Router.Model, next))
		require.NoError(t, f.Remove(scoring.ReplicaID("sim-0")))
		rng := newRand(5)
		for i := range 100 {
			if i == 50 {
				loading.Start()
			}
			require.True(t, f.Health().Ready, "at %d", i)
			require.NoError(t, readAll(t.Context(), f.Submit(tokensRequest(randomPrompt(rng, 50), 2)), 1).err)
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(t, []string{"next"}, f.names())
	})
}
