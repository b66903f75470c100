package actors

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/replica"
	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/live"
	"plimsoll/scoring"
	"plimsoll/tokenizer/simmodel"
)

// said is a simulated engine that says other things of its model, once it is up.
type said struct {
	*live.Engine

	gate   chan struct{} // closed: it answers; nil: it does
	change func(*engine.Status)
}

func (e said) Probe(ctx context.Context) (engine.Status, error) {
	if e.gate != nil {
		select {
		case <-e.gate:
		case <-ctx.Done():
			return engine.Status{}, ctx.Err()
		}
	}
	s, err := e.Engine.Probe(ctx)
	if err == nil && e.change != nil {
		e.change(&s)
	}
	return s, err
}

func (e said) Generate(ctx context.Context, req engine.Request, emit func(engine.Event) error) error {
	req.Model = simmodel.Name
	return e.Engine.Generate(ctx, req, emit)
}

// named has an engine say names for its model.
func named(names ...string) func(*engine.Status) {
	return func(s *engine.Status) { s.Model, s.Names = names[0], names }
}

// saying makes the engines of a fleet say other things, in the order of the list.
func saying(gate chan struct{}, changes ...func(*engine.Status)) func(*Config) {
	return func(c *Config) {
		for i, change := range changes {
			r := &c.Models[0].Replicas[i]
			r.Engine = said{r.Engine.(*live.Engine), gate, change}
		}
	}
}

func listing(f *rig) (names []string) {
	for _, m := range f.Models() {
		names = append(names, m.Name)
	}
	return names
}

// Without a name that the operator chooses, clients call the model what its engines call it, from when the first has spoken. Until
// then it has the name that it was given inside, which is understood for ever.
func TestTheModelIsCalledWhatItsEnginesCallItWheneverTheyAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		f := startFleet(t, fleetConfig{replicas: 2, profile: sim.TinyConfig(), speed: 10, cold: true, adjust: saying(gate, named("org/m", "m"), named("small", "m"))})
		time.Sleep(time.Second) // virtual
		require.Equal(t, []string{simmodel.Name}, listing(f))
		require.True(t, f.Health().Unnamed)
		close(gate)
		time.Sleep(10 * time.Second)
		require.False(t, f.Health().Unnamed)
		require.Equal(t, []string{"org/m", "m", "small"}, listing(f))
		base := f.Models()[0]
		require.Equal(t, "org/m", base.Root)
		require.False(t, base.Alias)
		for _, name := range []string{"org/m", "m", "small", simmodel.Name} {
			m, ok := f.Model(name)
			require.True(t, ok, name)
			require.Equal(t, name, m.Name)
			require.Equal(t, name != "org/m", m.Alias)
			require.Empty(t, m.Parent)
			req := chatRequest("hello", 2)
			req.Model = name
			require.NoError(t, readAll(t.Context(), f.Submit(req), 1).err, name)
		}
		_, ok := f.Model("large")
		require.False(t, ok)
	})
}

// A name that the operator chooses stands in the place of the engines' own, unless it is one of them.
func TestANameThatTheOperatorChoosesStandsForAll(t *testing.T) {
	for chosen, want := range map[string][]string{"mine": {"mine"}, "m": {"m", "org/m"}} {
		synctest.Test(t, func(t *testing.T) {
			f := startFleet(t, fleetConfig{replicas: 1, profile: sim.TinyConfig(), speed: 10, cold: true, adjust: func(c *Config) {
				saying(nil, named("org/m", "m"))(c)
				c.Models[0].Named, c.Models[0].Router.Model = true, chosen
				c.Models[0].Replicas[0].Config.Model = chosen
			}})
			time.Sleep(10 * time.Second)
			require.Equal(t, want, listing(f))
			require.Equal(t, "org/m", f.Models()[0].Root)
			_, ok := f.Model("org/m")
			require.Equal(t, len(want) > 1, ok)
			require.False(t, f.Health().Unnamed)
		})
	}
}

// Two models behind one name: only that of the replica that was listed first is served.
func TestOnlyOneModelIsServedByAName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{replicas: 3, profile: sim.TinyConfig(), speed: 10, cold: true, adjust: saying(nil,
			named("llama-8b"), named("qwen-32b"), func(s *engine.Status) {
				named("llama-8b")(s)
				s.VocabTokens = new(3)
			})})
		time.Sleep(10 * time.Second)
		states := map[scoring.ReplicaID]string{}
		for _, s := range f.Snapshots() {
			states[s.ID] = s.State.String()
		}
		require.Equal(t, map[scoring.ReplicaID]string{"sim-0": "ready", "sim-1": "degraded", "sim-2": "ready"}, states)
		foreign := f.Snapshots()[1]
		require.Contains(t, foreign.LastError, `"llama-8b"`)
		require.Contains(t, foreign.LastError, `"qwen-32b"`)
		for range 12 {
			response := f.Submit(chatRequest("hello", 2))
			require.NoError(t, readAll(t.Context(), response, 1).err)
			require.NotContains(t, response.Replicas(), "sim-1")
		}
		_, ok := f.Model("qwen-32b")
		require.False(t, ok)
	})
}

// A server's other ranks join the fleet when the first answers, whenever that is; one that an operator removes stays away.
func TestRanksAreFoundWheneverTheEngineFirstAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, made := make(chan struct{}), []int{}
		var ranks atomic.Pointer[[]int]
		ranks.Store(&[]int{0, 1})
		var f *rig
		f = startFleet(t, fleetConfig{replicas: 1, profile: sim.TinyConfig(), speed: 10, cold: true, adjust: func(c *Config) {
			saying(gate, func(s *engine.Status) { s.Ranks = *ranks.Load() })(c)
			c.Models[0].Replicas[0].Rank = func(rank int) (Replica, error) {
				made = append(made, rank)
				if rank == 3 {
					return Replica{}, fault.New(fault.BadInput, "not this one")
				}
				r := f.another(t, "sim-0-dp"+string(rune('0'+rank)), sim.TinyConfig(), 10)
				r.Config.Process = "sim-0"
				return r, nil
			}
		}})
		pass := func() {
			time.Sleep(10 * time.Second)
			synctest.Wait()
		}
		pass()
		require.Equal(t, []string{"sim-0"}, f.names())
		close(gate)
		pass()
		require.Equal(t, []string{"sim-0", "sim-0-dp1"}, f.names())
		for _, s := range f.Snapshots() {
			require.Equal(t, "ready", s.State.String(), s.ID)
		}
		require.NoError(t, f.Remove("sim-0-dp1"))
		pass()
		ranks.Store(&[]int{0, 1, 2, 3})
		pass()
		require.Equal(t, []string{"sim-0", "sim-0-dp2"}, f.names(), "more have come, one was removed, one cannot be made")
		require.Equal(t, []int{1, 2, 3}, made, "each once")
	})
}

// Waiting for the replica that was listed first ends with its first failure: a dead one holds nobody up for long.
func TestADeadFirstReplicaHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{replicas: 2, profile: sim.TinyConfig(), speed: 10, cold: true, adjust: func(c *Config) {
			first := &c.Models[0].Replicas[0]
			first.Engine = said{first.Engine.(*live.Engine), make(chan struct{}), nil} // it never answers
		}})
		time.Sleep(replica.DefaultConfig("", "").ProbeTimeout + replica.DefaultConfig("", "").ProbeInterval)
		synctest.Wait()
		require.Equal(t, "ready", f.Snapshots()[1].State.String())
	})
}
