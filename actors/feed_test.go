package actors

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/engine/sim"
	"plimsoll/scoring"
)

// TestPredictionsAreExact: conversations that outgrow the caches, over engines that say what they hold: what the index predicts
// of each request is what its engine finds, through evictions, and killed engines begin anew. In a bubble, on a virtual clock.
func TestPredictionsAreExact(t *testing.T) {
	offloading := sim.TinyConfig()
	offloading.HostBlocks = 100
	for name, profile := range map[string]sim.Config{
		"device": sim.TinyConfig(),
		// What leaves the device is told of below it afterwards, by names alone.
		"device and host": offloading,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := startFleet(t, fleetConfig{replicas: 2, profile: profile, speed: 1})
				rng := newRand(11)
				talks := make([][]uint32, 12)
				sums := func() (predicted, reported scoring.Tokens) {
					for _, ref := range f.Replicas() {
						feed := ref.Feed()
						require.Equal(t, fleet.IndexLive, feed.State, feed.Why)
						predicted, reported = predicted+feed.PredictedTokens, reported+feed.ReportedTokens
					}
					return predicted, reported
				}
				hits, cold := 0, 0
				for turn := range 150 {
					n := rng.IntN(len(talks))
					if len(talks[n]) > 1000 {
						talks[n] = nil
					}
					talks[n] = append(talks[n], randomPrompt(rng, 20+rng.IntN(200))...)
					_, before := sums()
					got := readAll(t.Context(), f.Submit(tokensRequest(talks[n], 1+rng.IntN(40))), 1)
					require.NoError(t, got.err)
					synctest.Wait()
					predicted, reported := sums()
					require.Equal(t, reported, predicted, "turn %d", turn)
					if reported > before {
						hits++
					} else {
						cold++
					}
					if turn == 100 {
						for _, e := range f.engines {
							e.Kill()
							e.Start()
						}
						time.Sleep(5 * time.Second) // of the bubble: its probes see the other life
						synctest.Wait()
					}
				}
				t.Logf("%d requests hit, %d did not", hits, cold)
				require.Greater(t, hits, 30)
				require.Greater(t, cold, 30)
			})
		})
	}
}
