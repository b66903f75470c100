package replica

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/actors/meter"
	"plimsoll/actors/supervise"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// answering is an engine that answers its probes, and nothing else.
type answering struct {
	stub

	mu    sync.Mutex
	asked []string // guarded by mu
}

func (a *answering) Probe(context.Context) (engine.Status, error) { return status("a"), nil }

// Generate stands still until its context ends.
func (a *answering) Generate(ctx context.Context, request engine.Request, _ func(engine.Event) error) error {
	a.mu.Lock()
	a.asked = append(a.asked, request.ID)
	a.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

// spawned runs a replica's actor over an engine until the test ends. alone says whether it is the last one that serves, while
// its successor is on its way.
func spawned(t *testing.T, e engine.Engine, alone func() bool) (*fleet.Ref, *actor.RootContext) {
	t.Helper()
	accord := fleet.NewAccord("r")
	accord.Join("r")
	return spawnedIn(t, accord, e, alone)
}

// spawnedIn is spawned in a fleet with others.
func spawnedIn(t *testing.T, accord *fleet.Accord, e engine.Engine, alone func() bool) (*fleet.Ref, *actor.RootContext) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	system := supervise.NewSystem(log)
	m, err := meter.New(meter.DefaultConfig())
	require.NoError(t, err)
	ref := fleet.NewRef("r", "m", e, system.Root)
	next := fleet.NewRef("next", "m", e, system.Root) // its snapshot says that it is starting
	others := func() []*fleet.Ref {
		if alone() {
			return []*fleet.Ref{ref, next}
		}
		return deafShell{}.Others()
	}
	pid := system.Root.Spawn(Props(testConfig(), Deps{
		Accord: accord, Settled: func(*fleet.Spoken) {}, Ranks: func([]int) {},
		Ref: ref, Memory: NewMemory(), Indexes: NewIndexes("m"), Log: log, Meter: m.Register("r", "m"), Failed: func(supervise.Failed) {},
		TellRouter: func(any) {}, Announce: func(scoring.ReplicaID, uint64) int { return 0 },
		Evict: func(fleet.Leaving) {}, Others: others, Gone: func() {},
		Middleware: func(string) actor.ReceiverMiddleware { return blow },
		Supervise:  supervise.DefaultConfig(), Seed: 1,
	}))
	t.Cleanup(func() {
		require.NoError(t, system.Root.PoisonFuture(pid).Wait())
		system.Shutdown()
		time.Sleep(2 * supervise.DeadLetterInterval) // virtual: a goroutine of the library must not outlive the bubble
		time.Sleep(2 * time.Second)                  // virtual: the library counts what comes too late for a second, in a goroutine of its own
	})
	return ref, system.Root
}

// TestCanariesHaveNamesOfTheirOwn: an engine that hangs still holds those of an actor that has failed since.
func TestCanariesHaveNamesOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &answering{stub: stub{caps: withoutFeed}}
		ref, root := spawned(t, e, func() bool { return false })
		sink := root.Spawn(actor.PropsFromFunc(func(actor.Context) {}))
		defer root.Stop(sink)
		time.Sleep(time.Second)
		claim := ledger.Claim{Ticket: scoring.Ticket{Boot: 1, Number: 1}, PrivateBlocks: 1, Seats: 1, PromptTokens: 10, SequenceTokens: 16}
		ref.Tell(&fleet.Reserve{Claim: claim, Incarnation: 1, From: sink})
		const epochs = 3
		for range epochs {
			time.Sleep(30 * time.Second) // virtual: it is silent, and hangs
			require.True(t, ref.Snapshot().Hung)
			ref.Tell(blast{})
		}
		time.Sleep(time.Second)
		synctest.Wait()
		e.mu.Lock()
		defer e.mu.Unlock()
		seen := map[string]bool{}
		for _, id := range e.asked {
			require.False(t, seen[id], "%s again", id)
			seen[id] = true
		}
		require.Greater(t, len(seen), epochs)
	})
}

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
		"it is asked back":                  {[]any{fleet.Undrain{}}, false},
		"it is asked back after a failure":  {[]any{blast{}, fleet.Undrain{}}, false},
		"it is asked back, and again to go": {[]any{fleet.Undrain{}, blast{}, fleet.Drain{}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var alone atomic.Bool
				alone.Store(true)
				ref, _ := spawned(t, &answering{stub: stub{caps: withoutFeed}}, alone.Load)
				pass := func() {
					time.Sleep(3 * successorEvery)
					synctest.Wait()
				}
				pass()
				require.Equal(t, fleet.Ready, ref.Snapshot().State)
				leave := time.Now().Add(later)
				ref.Tell(fleet.Drain{Leave: &leave, Keep: true})
				pass()
				for _, message := range c.then {
					ref.Tell(message)
					pass()
					require.Equal(t, fleet.Ready, ref.Snapshot().State, "after %T", message)
				}
				alone.Store(false)
				pass()
				want := fleet.Ready
				if c.drains {
					want = fleet.Draining
				}
				if n := len(c.then); n > 0 && c.then[n-1] == any(fleet.Drain{}) {
					want = fleet. // it was to stay, and now it is not
							Gone
				}
				require.Equal(t, want, ref.Snapshot().State)
			})
		})
	}
}
