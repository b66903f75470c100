package replica

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"plimsoll/actors/meter"
	"plimsoll/actors/supervise"
	"plimsoll/engine"
	"plimsoll/scoring"
)

// answering is an engine of which only probes are asked.
type answering struct{ stub }

func (a *answering) Probe(context.Context) (engine.Status, error) { return status("a"), nil }

// TestAnOrderThatWaits: the last replica that serves puts a drain off until its successor does. That outlives a panic of its
// actor, and ends with the next order.
func TestAnOrderThatWaits(t *testing.T) {
	later := time.Hour
	for name, c := range map[string]struct {
		then   []any
		drains bool
	}{
		"it waits":                          {nil, true},
		"its actor fails":                   {[]any{blast{}}, true},
		"its actor fails twice":             {[]any{blast{}, blast{}}, true},
		"it is asked back":                  {[]any{Undrain{}}, false},
		"it is asked back after a failure":  {[]any{blast{}, Undrain{}}, false},
		"it is asked back, and again to go": {[]any{Undrain{}, blast{}, Drain{}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := slog.New(slog.DiscardHandler)
				system := actor.NewActorSystem(actor.WithDeadLetterRequestLogging(false),
					actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }))
				defer system.Shutdown()
				m, err := meter.New(meter.DefaultConfig())
				require.NoError(t, err)
				var alone atomic.Bool
				alone.Store(true)
				ref := NewRef("r", "m", &answering{stub{caps: withoutFeed}}, system.Root)
				pid := system.Root.Spawn(Props(testConfig(), Deps{
					Ref: ref, Indexes: NewIndexes("m"), Log: log, Meter: m, Failed: func(supervise.Failed) {},
					TellRouter: func(any) {}, Announce: func(scoring.ReplicaID, uint64) int { return 0 },
					Evict: func(uint64, bool, string) {}, Alone: alone.Load, Successor: alone.Load, Gone: func() {},
					Middleware: func(string) actor.ReceiverMiddleware { return blow },
					Supervise:  supervise.DefaultConfig(), Seed: 1,
				}))
				pass := func() {
					time.Sleep(3 * successorEvery)
					synctest.Wait()
				}
				pass()
				require.Equal(t, Ready, ref.Snapshot().State)
				leave := time.Now().Add(later)
				ref.Tell(Drain{Leave: &leave, Keep: true})
				pass()
				for _, message := range c.then {
					ref.Tell(message)
					pass()
					require.Equal(t, Ready, ref.Snapshot().State, "after %T", message)
				}
				alone.Store(false)
				pass()
				want := Ready
				if c.drains {
					want = Draining
				}
				if n := len(c.then); n > 0 && c.then[n-1] == any(Drain{}) {
					want = Gone // it was to stay, and now it is not
				}
				require.Equal(t, want, ref.Snapshot().State)
				require.NoError(t, system.Root.PoisonFuture(pid).Wait())
			})
		})
	}
}
