package actors

import (
	"context"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/engine/sim"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { os.Exit(code) }))
}

// bombs makes actors panic on demand: each armed bomb blows at the next message that its kind of actor takes.
type bombs struct {
	armed map[string]*atomic.Int32
	blown map[string]*atomic.Int32
}

func newBombs(kinds ...string) *bombs {
	b := &bombs{armed: map[string]*atomic.Int32{}, blown: map[string]*atomic.Int32{}}
	for _, k := range kinds {
		b.armed[k], b.blown[k] = &atomic.Int32{}, &atomic.Int32{}
	}
	return b
}

func (b *bombs) middleware(kind string) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(c actor.ReceiverContext, env *actor.MessageEnvelope) {
			switch env.Message.(type) {
			case *actor.Restarting, *actor.Stopping, *actor.Stopped, *actor.Terminated:
				// Our actors do nothing that can fail at these; the library leaves an actor that does stuck for ever.
			default:
				if armed := b.armed[kind]; armed != nil && armed.Load() > 0 && armed.Add(-1) >= 0 {
					b.blown[kind].Add(1)
					panic("bomb in " + kind)
				}
			}
			next(c, env)
		}
	}
}

func stacks() []byte {
	buf := make([]byte, 1<<20)
	return buf[:runtime.Stack(buf, true)]
}

// TestPanicsAreSurvived makes each kind of actor panic, twice, while 100 streams run and others arrive: every request ends
// with its whole answer or an error, and nothing of any is left behind.
func TestPanicsAreSurvived(t *testing.T) {
	for _, kind := range []string{"node", "router", "tokenizer", "worker", "replica", "connection", "feed"} {
		t.Run(kind, func(t *testing.T) {
			b := newBombs(kind)
			f := startFleet(t, fleetConfig{replicas: 4, profile: sim.DefaultConfig(), speed: 4, middleware: b.middleware})
			const streams, late = 100, 40
			answers := make([]answer, streams+late)
			var all, started sync.WaitGroup
			ask := func(i int, begun func()) {
				all.Go(func() {
					r := f.Submit(chatRequest("tell me about harbour number "+string(rune('A'+i%26)), 64))
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					defer cancel()
					d, err := r.Next(ctx)
					begun()
					if err != nil {
						answers[i].err = err
						return
					}
					answers[i] = readAll(ctx, r, 1)
					if d.Finish != nil {
						answers[i].finishes[0] = d.Finish
					}
				})
			}
			started.Add(streams)
			for i := range streams {
				ask(i, started.Done)
			}
			started.Wait() // every stream has its first token
			for i := range late {
				if i == 0 || i == late/2 {
					b.armed[kind].Add(1)
				}
				ask(streams+i, func() {})
			}
			// Requests send nothing to the node and, on engines with cache events, nothing to the feeds.
			for range 2 {
				switch kind {
				case "node":
					f.actors.Root.Send(f.node, "hello")
				case "feed":
					f.models[0].fleet.Refs()[0].Tell(fleet.Learned{})
				}
			}
			all.Wait()
			require.Eventually(t, func() bool { return b.blown[kind].Load() == 2 }, time.Minute, time.Millisecond)
			failed := 0
			for i, a := range answers {
				if a.err != nil {
					failed++
					kinds := []fault.Kind{fault.Internal, fault.NoReplica}
					require.True(t, slices.Contains(kinds, fault.Of(a.err).Kind), "stream %d: %v", i, a.err)
					require.GreaterOrEqual(t, i, streams, "a stream that had begun failed: %v", a.err)
					continue
				}
				require.NotNil(t, a.finishes[0], "stream %d", i)
			}
			require.LessOrEqual(t, failed, late/2, "an actor's panic costs few requests")
			f.quiet(t)
			// It serves on.
			a := readAll(t.Context(), f.Submit(chatRequest("again", 8)), 1)
			require.NoError(t, a.err)
		})
	}
}

// TestLeaversLeaveNothing lets 1,000 clients leave at random moments: while their prompt is tokenized, while they wait,
// during prefill, between tokens, and after the end.
func TestLeaversLeaveNothing(t *testing.T) {
	profile := sim.TinyConfig()
	f := startFleet(t, fleetConfig{replicas: 4, profile: profile, speed: 0.05})
	before := runtime.NumGoroutine()
	rng := rand.New(rand.NewPCG(1, 2))
	var all sync.WaitGroup
	var left, finished, refused atomic.Int32
	for i := range 1000 {
		delay := time.Duration(rng.Float64() * float64(300*time.Millisecond))
		deltas, tokens := rng.IntN(20), 1+rng.IntN(64)
		all.Go(func() {
			r := f.Submit(chatRequest("number "+string(rune('A'+i%26)), tokens))
			defer r.Cancel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			switch i % 4 {
			case 0: // at once: its prompt is being tokenized, or it waits for a replica
				left.Add(1)
				return
			case 1: // after some time, wherever it is then
				time.AfterFunc(delay, cancel)
			case 2: // after some of its answer
				for range deltas {
					if _, err := r.Next(ctx); err != nil {
						break
					}
				}
				cancel()
			}
			switch a := readAll(ctx, r, 1); {
			case a.err == nil:
				finished.Add(1)
			case ctx.Err() != nil:
				left.Add(1)
			default:
				refused.Add(1)
			}
		})
	}
	all.Wait()
	t.Logf("left %d, finished %d, refused %d", left.Load(), finished.Load(), refused.Load())
	require.Greater(t, left.Load(), int32(200), "too few clients left in the middle for the test to mean anything")
	require.Greater(t, finished.Load(), int32(200))
	f.quiet(t)
	// Eventually runs the condition in a goroutine of its own.
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, time.Minute, time.Millisecond,
		"goroutines: %d before, now:\n%s", before, stacks())
}
