package actors

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/replica"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/live"
	"plimsoll/scoring"
	"plimsoll/tokenizer/simmodel"
)

// another makes one more simulated replica for a fleet.
func (f *rig) another(t *testing.T, name string, profile sim.Config, speed float64) Replica {
	t.Helper()
	source, err := simmodel.NewSource(f.models[0].Tokenizer.Tokenizer)
	require.NoError(t, err)
	cfg := live.DefaultConfig()
	cfg.Sim, cfg.Speed = profile, speed
	e, err := live.New(cfg, live.Deps{Source: source, Entropy: rand.Uint64})
	require.NoError(t, err)
	return Replica{Config: replica.DefaultConfig(scoring.ReplicaID(name), simmodel.Name), Engine: e}
}

func (f *rig) names() []string {
	var names []string
	for _, s := range f.Snapshots() {
		names = append(names, string(s.ID))
	}
	return names
}

// TestReplicasComeAndGo adds and removes replicas under load: no request notices, and what is removed is closed. In a
// bubble, where a new replica is as quick as the others.
func TestReplicasComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{replicas: 2, profile: sim.TinyConfig(), speed: 0.2})
		stop := make(chan struct{})
		var clients sync.WaitGroup
		var mu sync.Mutex
		ended := 0
		for range 16 {
			clients.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					a := readAll(t.Context(), f.Submit(chatRequest("come and go", 24)), 1)
					if !assertWhole(t, a) {
						return
					}
					mu.Lock()
					ended++
					mu.Unlock()
				}
			})
		}
		require.NoError(t, f.Add(simmodel.Name, f.another(t, "extra", sim.TinyConfig(), 0.2)))
		require.Equal(t, fault.BadInput, fault.Of(f.Add(simmodel.Name, Replica{Config: replica.DefaultConfig("extra", simmodel.Name)})).Kind)
		require.Eventually(t, func() bool {
			for _, s := range f.Snapshots() {
				if s.ID == "extra" && s.State == fleet.Ready && s.Load.Running > 0 {
					return true
				}
			}
			return false
		}, time.Minute, time.Millisecond, "the new replica gets work")
		require.Contains(t, f.metrics(t), `replica="sim-0"`)
		require.NoError(t, f.Remove("sim-0"))
		require.Eventually(t, func() bool { return len(f.names()) == 2 }, time.Minute, time.Millisecond)
		require.Equal(t, []string{"extra", "sim-1"}, f.names())
		require.Equal(t, fault.NotFound, fault.Of(f.Remove("sim-0")).Kind)
		close(stop)
		clients.Wait()
		require.Positive(t, ended)
		require.Eventually(t, func() bool { // its engine is closed
			_, err := f.engines[0].Probe(t.Context())
			return err != nil
		}, time.Minute, time.Millisecond)
		f.engines = f.engines[1:]
		f.quiet(t)
		require.NotContains(t, f.metrics(t), `replica="sim-0"`, "metrics of a replica that is gone")
		require.Contains(t, f.metrics(t), `replica="extra"`)
	})
}

func assertWhole(t *testing.T, a answer) bool {
	t.Helper()
	if a.err != nil || a.finishes[0] == nil {
		t.Errorf("a request did not end well: %v", a.err)
		return false
	}
	return true
}
