package actors

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
	"plimsoll/engine/sim"
)

// withAdapters is an engine that has an adapter, and as few seats as make requests wait.
func withAdapters(seats int) sim.Config {
	c := sim.DefaultConfig()
	c.Adapters = []string{"poet"}
	if seats > 0 {
		c.Seats = seats
	}
	return c
}

// asAdapter is a request by one of the model's names: its own for two of five, an adapter's for the others.
func asAdapter(rng *rand.Rand, i, prompt, answer int) *stream.Request {
	req := tokensRequest(randomPrompt(rng, prompt), answer)
	if i%5 < 2 {
		req.Model = "poet"
	}
	return req
}

// TestAnAdaptersRequestsOutliveTheirRouter: 40 requests wait, 16 of which name an adapter, when the router fails. All of them
// are submitted again, and the system can be stopped.
func TestAnAdaptersRequestsOutliveTheirRouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBombs("router")
		f := startFleet(t, fleetConfig{replicas: 1, profile: withAdapters(2), speed: 1, middleware: b.middleware})
		rng := newRand(21)
		var all []*stream.Response
		for i := range 42 { // two run
			all = append(all, f.Submit(asAdapter(rng, i+3, 50, 8)))
		}
		time.Sleep(10 * time.Millisecond)
		began := time.Now()
		require.Equal(t, 40, f.Queue().QueuedRequests)
		b.armed["router"].Store(1)
		f.tellRouter(f.models[0], "hello")
		late := all[len(all)-1]
		all = all[:len(all)-1]
		for i, r := range all {
			require.NoError(t, readAll(t.Context(), r, 1).err, "request %d", i)
		}
		require.Less(t, time.Since(began), f.cfg.Stream.RouterWait, "they were told, and did not find out by themselves")
		late.Cancel()
		require.EqualValues(t, 1, b.blown["router"].Load())
		f.quiet(t)
	})
}

// TestAnAdaptersRequestsLeaveAHungEngine as those of the base model do, before their own time-out.
func TestAnAdaptersRequestsLeaveAHungEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{replicas: 3, profile: withAdapters(0), speed: 1})
		f.taught(t)
		rng := newRand(22)
		var all []*stream.Response
		for i := range 30 {
			all = append(all, f.Submit(asAdapter(rng, i, 200, 300)))
		}
		time.Sleep(time.Second)
		require.GreaterOrEqual(t, f.Snapshots()[1].Load.Running, 5)
		f.engines[1].Pause()
		hung := time.Now()
		for _, r := range all {
			a := readAll(t.Context(), r, 1)
			require.NoError(t, a.err)
			require.Equal(t, 300, a.usage.CompletionTokens)
		}
		require.Less(t, time.Since(hung), 8*time.Second, "20 s is when a request gives up by itself")
		f.engines[1].Resume()
		f.quiet(t)
	})
}

// TestAnAdaptersAnswersLeaveARemovedReplica at its deadline, and it is gone.
func TestAnAdaptersAnswersLeaveARemovedReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{
			replicas: 2, profile: withAdapters(0), speed: 1, adjust: func(c *Config) { c.DrainWait = time.Second },
		})
		f.taught(t)
		rng := newRand(23)
		var all []*stream.Response
		for i := range 20 {
			all = append(all, f.Submit(asAdapter(rng, i, 200, 500))) // some five seconds
		}
		time.Sleep(500 * time.Millisecond)
		require.GreaterOrEqual(t, f.Snapshots()[0].Load.Running, 5)
		require.NoError(t, f.Remove("sim-0"))
		time.Sleep(1500 * time.Millisecond)
		require.Equal(t, []string{"sim-1"}, f.names())
		for _, r := range all {
			a := readAll(t.Context(), r, 1)
			require.NoError(t, a.err)
			require.Equal(t, 500, a.usage.CompletionTokens)
			require.Equal(t, "sim-1", r.Replicas()[len(r.Replicas())-1])
		}
		f.engines = f.engines[1:]
		f.quiet(t)
	})
}

// TestNoRequestWaitsForARouterThatIsGone: clients of a model whose router is lost leave at once, and who stays gets an error.
func TestNoRequestWaitsForARouterThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{replicas: 1, profile: withAdapters(0), speed: 1})
		f.models[0].router.Store(nil)
		rng := newRand(24)
		left, stays := f.Submit(asAdapter(rng, 0, 50, 8)), f.Submit(asAdapter(rng, 1, 50, 8))
		left.Cancel()
		synctest.Wait()
		require.Equal(t, 1, f.Live())
		require.Equal(t, fault.Internal, fault.Of(readAll(t.Context(), stays, 1).err).Kind)
		synctest.Wait()
		require.Zero(t, f.Live())
	})
}
