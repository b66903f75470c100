package actors

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/actors/replica"
	"plimsoll/actors/stream"
	"plimsoll/engine/sim"
)

// TestAStuckPrefillIsHedged: requests on a replica that stands still have their first token from the other one before anybody
// could know that it hangs, and it gets back to work as if nothing had been. In a bubble, on a virtual clock.
func TestAStuckPrefillIsHedged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{replicas: 2, profile: sim.DefaultConfig(), speed: 1, adjust: func(c *Config) {
			c.Stream.HedgeAfter = 3
		}})
		f.taught(t)
		before := f.metric(t, "plimsoll_stream_hedges_total{", `event="won"`)
		rng := newRand(7)
		least, slowest := replica.DefaultConfig("", "").HangLeast, time.Duration(0)
		const rounds, each = 10, 4 // half of them stand still: the budget of retries has room for those
		for range rounds {
			f.engines[1].Pause()
			began := time.Now()
			all := make([]*stream.Response, each)
			for i := range all {
				all[i] = f.Submit(tokensRequest(randomPrompt(rng, 200), 4))
			}
			for _, r := range all {
				_, err := r.Next(t.Context())
				require.NoError(t, err)
				slowest = max(slowest, time.Since(began))
				require.NoError(t, readAll(t.Context(), r, 1).err)
				require.Equal(t, []string{"sim-0"}, r.Replicas(), "the one that answered")
			}
			require.Equal(t, fleet.Ready, f.state(1))
			f.engines[1].Resume()
			f.quiet(t)
		}
		won := f.metric(t, "plimsoll_stream_hedges_total{", `event="won"`) - before
		t.Logf("%d hedges won, slowest first token %s", won, slowest)
		require.GreaterOrEqual(t, won, rounds)
		require.Less(t, slowest, least)
	})
}

// TestHedgesDoNotHideAHang: a replica all of whose requests leave it for their hedges is found to hang all the same.
func TestHedgesDoNotHideAHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{replicas: 2, profile: sim.DefaultConfig(), speed: 1, adjust: func(c *Config) {
			c.Stream.HedgeAfter = 2
		}})
		f.taught(t)
		rng := newRand(7)
		f.engines[1].Pause()
		paused := time.Now()
		for f.state(1) != fleet.Down && time.Since(paused) < 20*time.Second {
			one, other := f.Submit(tokensRequest(randomPrompt(rng, 200), 4)), f.Submit(tokensRequest(randomPrompt(rng, 200), 4))
			require.NoError(t, readAll(t.Context(), one, 1).err)
			require.NoError(t, readAll(t.Context(), other, 1).err)
			time.Sleep(50 * time.Millisecond) // virtual
		}
		won := f.metric(t, "plimsoll_stream_hedges_total{", `event="won"`)
		t.Logf("%d hedges won; found after %s", won, time.Since(paused))
		require.GreaterOrEqual(t, won, 3, "no request stays there as long as a hang takes to show")
		require.Equal(t, fleet.Down, f.state(1))
		f.engines[1].Resume()
		f.quiet(t)
	})
}

// TestRacesUnderLoad: hedges as soon as can be on a fleet that has more to do than it was predicted to, one of whose engines
// stands still now and then. Every answer is whole, and nothing is left.
func TestRacesUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{replicas: 3, profile: sim.DefaultConfig(), speed: 1, adjust: func(c *Config) {
			c.Stream.HedgeAfter = 1
		}})
		f.taught(t)
		rng := newRand(8)
		const requests = 300
		done := make(chan string, requests)
		for i := range requests {
			if i%50 == 10 {
				f.engines[i/50%3].Pause()
			}
			if i%50 == 30 {
				f.engines[i/50%3].Resume()
			}
			most := 1 + rng.IntN(40)
			r := f.Submit(tokensRequest(randomPrompt(rng, 50+rng.IntN(1500)), most))
			leaves := rng.IntN(10) == 0
			go func() {
				if leaves {
					time.Sleep(50 * time.Millisecond) // virtual
					r.Cancel()
				}
				a := readAll(t.Context(), r, 1)
				switch {
				case leaves:
					done <- "left"
				case a.err != nil:
					done <- a.err.Error()
				case a.usage.CompletionTokens != most:
					done <- "short"
				default:
					done <- "whole"
				}
			}()
			time.Sleep(16 * time.Millisecond) // virtual; a little less, and hardly any hedge finds room
		}
		ends := map[string]int{}
		for range requests {
			ends[<-done]++
		}
		counted := map[string]int{}
		for _, event := range []string{"begun", "won", "lost", "failed", "refused", "withdrawn"} {
			counted[event] = f.metric(t, "plimsoll_stream_hedges_total{", fmt.Sprintf("event=%q", event))
		}
		t.Log(ends, counted)
		require.Equal(t, requests, ends["whole"]+ends["left"])
		require.Equal(t, counted["begun"], counted["won"]+counted["lost"]+counted["failed"])
		require.Positive(t, counted["won"])
		require.Positive(t, counted["lost"])
		f.quiet(t)
	})
}
