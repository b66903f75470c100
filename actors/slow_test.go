package actors

import (
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/engine/sim"
)

// slowly is an engine that computes about 120 tokens of a prompt a second, in passes of up to 4096, and stands still for all others
// meanwhile: llama.cpp with one thread.
func slowly() sim.Config {
	cfg := sim.DefaultConfig()
	cfg.BatchTokens, cfg.Seats = 4096, 4
	cfg.Timing.FLOPS = 120 * cfg.Timing.TokenFLOPs
	cfg.Timing.BytesPerSecond = cfg.Timing.WeightBytes / 0.05
	return cfg
}

// TestFieldInput16OnePrefillStepOf30Seconds: the engine's single prefill step takes longer than anything that it has shown, and all
// of the fleet is of that kind. It is answered, and so are those that wait behind it; no replica is lost.
func TestFieldInput16OnePrefillStepOf30Seconds(t *testing.T) {
	for name, replicas := range map[string]int{"one engine": 1, "two": 2, "four": 4} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := startFleet(t, fleetConfig{replicas: replicas, profile: slowly(), speed: 1})
				rng := newRand(16)
				for range 2 * replicas {
					require.NoError(t, readAll(t.Context(), f.Submit(tokensRequest(randomPrompt(rng, 60), 40)), 1).err)
				}
				began := time.Now()
				long := f.Submit(tokensRequest(randomPrompt(rng, 3511), 8))
				var all sync.WaitGroup
				for i := range 3 * replicas {
					all.Go(func() {
						time.Sleep(time.Duration(i) * 3 * time.Second)                                                                        // virtual
						if err := readAll(t.Context(), f.Submit(tokensRequest(randomPrompt(newRand(uint64(i)), 60), 8)), 1).err; err != nil { //nolint:gosec // a count
							t.Errorf("a short one beside it, after %s: %v", time.Since(began), err)
						}
					})
				}
				require.NoError(t, readAll(t.Context(), long, 1).err)
				took := time.Since(began)
				all.Wait()
				t.Logf("answered after %s", took)
				require.Greater(t, took, 25*time.Second)
				require.Less(t, took, 45*time.Second, "its own time, beside a short one: nobody began it anew")
				require.Len(t, long.Replicas(), 1)
				for _, s := range f.Snapshots() {
					require.Equal(t, fleet.Ready, s.State)
					require.Zero(t, s.Strikes)
				}
				f.quiet(t)
			})
		})
	}
}

// TestFieldInput17ACompileOf23Seconds: engines that stand still for 23 s at their first request for logprobs. It is answered, where
// it went first; whoever was beside it goes on elsewhere at once, and an unrelated chat notices nothing.
func TestFieldInput17ACompileOf23Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		profile := sim.DefaultConfig()
		profile.Firsts.Logprobs = 23 * time.Second
		f := startFleet(t, fleetConfig{replicas: 4, profile: profile, speed: 1})
		f.taught(t)
		rng := newRand(17)
		const streams = 24
		longest := make(chan time.Duration, streams)
		for range streams {
			r := f.Submit(tokensRequest(randomPrompt(rng, 200), 1000))
			go func() { longest <- longestGap(t, r) }()
		}
		time.Sleep(time.Second) // virtual
		top := 0
		asked := tokensRequest(randomPrompt(rng, 200), 8)
		asked.TopLogprobs = &top
		began := time.Now()
		first := f.Submit(asked)
		time.Sleep(2 * time.Second) // virtual
		for range 40 {
			at := time.Now()
			require.NoError(t, readAll(t.Context(), f.Submit(tokensRequest(randomPrompt(rng, 200), 8)), 1).err)
			require.Less(t, time.Since(at), time.Second, "an unrelated chat")
		}
		require.NoError(t, readAll(t.Context(), first, 1).err)
		took := time.Since(began)
		require.InDelta(t, 23, took.Seconds(), 1)
		require.Len(t, first.Replicas(), 1, "no second engine is put at risk")
		moved := 0
		for range streams {
			if gap := <-longest; gap > 250*time.Millisecond {
				moved++
				require.Less(t, gap, 2*time.Second, "others go on at once")
			}
		}
		t.Logf("answered after %s; %d of %d streams moved", took, moved, streams)
		require.Positive(t, moved)
		for _, s := range f.Snapshots() {
			require.Equal(t, fleet.Ready, s.State)
			require.Zero(t, s.Strikes)
		}
		f.quiet(t)
	})
}

// longestGap reads an answer to its end and says how long it paused at most.
func longestGap(t *testing.T, r *stream.Response) (gap time.Duration) {
	t.Helper()
	for last := time.Now(); ; {
		d, err := r.Next(t.Context())
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			return gap
		}
		if len(d.Entries) > 0 {
			gap, last = max(gap, time.Since(last)), time.Now()
		}
	}
}
