package actors

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/stream"
	"plimsoll/engine/sim"
)

// TestAHungEngineHoldsNoRequest: clients of an engine that hangs leave, and with them all but what the engine itself holds;
// that stays booked until it goes on, dies, or the node ends. In a bubble, where it is not given up before anybody looks.
func TestAHungEngineHoldsNoRequest(t *testing.T) {
	for _, ending := range []string{"it goes on", "it is killed", "the node stops"} {
		t.Run(ending, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := startFleet(t, fleetConfig{replicas: 1, profile: sim.DefaultConfig(), speed: 1})
				const clients = 5
				all := make([]*stream.Response, clients)
				for i := range all {
					all[i] = f.Submit(chatRequest("hello", 10000))
					_, err := all[i].Next(t.Context())
					require.NoError(t, err)
				}
				f.engines[0].Pause()
				for _, r := range all {
					r.Cancel()
				}
				require.Eventually(t, func() bool { return f.Live() == 0 }, time.Minute, time.Millisecond)
				require.Eventually(t, func() bool { return f.Snapshots()[0].Load.Lingering == clients }, time.Minute, time.Millisecond)
				require.Equal(t, clients, f.live.Strays())
				require.Positive(t, f.Snapshots()[0].Load.BookedBlocks)
				switch ending {
				case "it goes on":
					f.engines[0].Resume()
					f.quiet(t)
				case "it is killed":
					f.engines[0].Kill()
					f.engines[0].Start()
					f.quiet(t)
				}
				// The fleet's end proves that nothing of it outlives the node.
			})
		})
	}
}
