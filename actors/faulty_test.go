package actors

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/replica"
	"plimsoll/actors/stream"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/live"
	"plimsoll/scoring"
)

// state is a replica's.
func (f *fleet) state(n int) replica.State { return f.Snapshots()[n].State }

// taught has every replica show its pace: what is not known of one is not held against it for ten seconds.
func (f *fleet) taught(t *testing.T) {
	t.Helper()
	rng := newRand(99)
	for known := false; !known; {
		var all []*stream.Response
		for range 4 * len(f.engines) {
			all = append(all, f.Submit(tokensRequest(randomPrompt(rng, 200), 64)))
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
		require.Equal(t, replica.Down, f.state(1))
		require.Positive(t, moved)
		require.Less(t, moved, 30, "what comes within the bound")
		require.Less(t, slowest, 1500*time.Millisecond)

		time.Sleep(time.Minute - time.Since(paused)) // virtual
		require.Equal(t, replica.Down, f.state(1), "its probes are answered all the while")
		f.engines[1].Resume()
		time.Sleep(5 * time.Second)
		require.Equal(t, replica.Ready, f.state(1))
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
		require.Equal(t, replica.Ready, f.state(1))
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
		require.Equal(t, replica.Draining, f.state(0))
		require.NoError(t, f.UndrainReplica("sim-0"))
		time.Sleep(time.Second)
		require.Equal(t, replica.Ready, f.state(0))
		f.quiet(t)
	})
}

// TestADrainMovesWhatHasNoTokenAtItsDeadline.
func TestADrainMovesWhatHasNoTokenAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{replicas: 2, profile: sim.DefaultConfig(), speed: 1})
		f.taught(t)
		f.engines[0].Pause()
		rng := newRand(4)
		var all []*stream.Response
		for range 8 {
			all = append(all, f.Submit(tokensRequest(randomPrompt(rng, 200), 10)))
		}
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, f.DrainReplica("sim-0", 50*time.Millisecond)) // long before it counts as hung
		require.Positive(t, f.Snapshots()[0].Load.Reserved)
		for _, r := range all {
			require.NoError(t, readAll(t.Context(), r, 1).err)
			require.Equal(t, []string{"sim-1"}, r.Replicas())
		}
		require.Zero(t, f.Snapshots()[0].Strikes)
		f.engines[0].Resume()
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
