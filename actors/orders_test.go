package actors

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/engine/sim"
	"plimsoll/scoring"
	"plimsoll/tokenizer/simmodel"
)

// TestOrdersWaitForTheirActor: an order that comes right after the replica it is about, or while the node's actor is
// restarted, is carried out.
func TestOrdersWaitForTheirActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBombs("node")
		f := startFleet(t, fleetConfig{replicas: 2, profile: sim.TinyConfig(), speed: 1, middleware: b.middleware})
		for _, name := range []string{"removed", "drained", "drained and back", "removed behind a panic", "drained behind a panic"} {
			extra := f.another(t, name, sim.TinyConfig(), 1)
			id := extra.Config.ID
			require.NoError(t, f.Add(simmodel.Name, extra))
			switch name {
			case "removed behind a panic", "drained behind a panic":
				b.armed["node"].Store(1)
				f.actors.Root.Send(f.node, "hello")
			}
			switch name {
			case "removed", "removed behind a panic":
				require.NoError(t, f.Remove(id))
			case "drained", "drained behind a panic":
				require.NoError(t, f.DrainReplica(id, time.Second))
			default:
				require.NoError(t, f.DrainReplica(id, time.Second))
				require.NoError(t, f.UndrainReplica(id))
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.EqualValues(t, 2, b.blown["node"].Load())
		states := map[scoring.ReplicaID]fleet.State{}
		for _, s := range f.Snapshots() {
			states[s.ID] = s.State
		}
		require.Equal(t, map[scoring.ReplicaID]fleet.State{
			"sim-0": fleet.Ready, "sim-1": fleet.Ready, "drained": fleet.Draining, "drained and back": fleet.Ready,
			"drained behind a panic": fleet.Draining,
		}, states)
	})
}

// TestAnOrderIsRememberedWhereItsMessageIsLost: the node fails before a replica's actor has taken the order that it was
// given, and all actors are started anew.
func TestAnOrderIsRememberedWhereItsMessageIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f *rig
		b := newBombs("node")
		var once sync.Once
		f = startFleet(t, fleetConfig{
			replicas: 2, profile: sim.TinyConfig(), speed: 1,
			middleware: func(kind string) actor.ReceiverMiddleware {
				return func(next actor.ReceiverFunc) actor.ReceiverFunc {
					next = b.middleware(kind)(next)
					return func(c actor.ReceiverContext, env *actor.MessageEnvelope) {
						if _, ok := env.Message.(fleet.Drain); ok {
							lost := false
							once.Do(func() { lost = true })
							if lost {
								b.armed["node"].Store(1)
								f.actors.Root.Send(f.node, "hello")
								return
							}
						}
						next(c, env)
					}
				}
			},
		})
		require.NoError(t, f.DrainReplica("sim-0", time.Second))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.EqualValues(t, 1, b.blown["node"].Load())
		require.Equal(t, fleet.Draining, f.state(0))
		require.Equal(t, fleet.Ready, f.state(1))
	})
}

// TestNoSubmissionIsLostToARouterThatIsReplaced: the node fails while clients submit. A new router can be reached before it asks
// them to submit again; if they asked the dead one, nobody would answer.
func TestNoSubmissionIsLostToARouterThatIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f *rig
		var reached []bool
		b := newBombs("node")
		f = startFleet(t, fleetConfig{
			replicas: 2, profile: sim.TinyConfig(), speed: 1,
			middleware: func(kind string) actor.ReceiverMiddleware {
				return func(next actor.ReceiverFunc) actor.ReceiverFunc {
					next = b.middleware(kind)(next)
					return func(c actor.ReceiverContext, env *actor.MessageEnvelope) {
						next(c, env)
						if _, ok := env.Message.(*actor.Started); ok && kind == "router" && f != nil {
							reached = append(reached, c.Self().Equal(f.models[0].router.Load()))
							time.Sleep(3 * time.Millisecond)
						}
					}
				}
			},
		})
		answers := make([]answer, 52)
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond / 2)
				answers[i] = readAll(t.Context(), f.Submit(chatRequest("hello", 8)), 1)
			})
		}
		time.Sleep(10 * time.Millisecond)
		b.armed["node"].Store(1)
		f.actors.Root.Send(f.node, "hello")
		all.Wait()
		require.EqualValues(t, 1, b.blown["node"].Load())
		require.Equal(t, []bool{true}, reached)
		for i, a := range answers {
			require.NoError(t, a.err, "request %d", i)
		}
		f.quiet(t)
	})
}
