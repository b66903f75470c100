package router

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"plimsoll/actors/fleet"
	"plimsoll/actors/meter"
	"plimsoll/actors/stream"
	"plimsoll/actors/supervise"
	"plimsoll/scoring"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { os.Exit(code) }))
}

// office is a router's actor without a fleet.
type office struct {
	t       *testing.T
	system  *actor.ActorSystem
	pid     *actor.PID
	live    *stream.Live
	stats   atomic.Pointer[Stats]
	bomb    atomic.Int32 // that many messages to come make the router panic
	panics  atomic.Int32
	tickets atomic.Uint64
}

func openOffice(t *testing.T, cfg Config) *office {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	o := &office{t: t, live: stream.NewLive()}
	o.stats.Store(&Stats{})
	o.system = supervise.NewSystem(log)
	m, err := meter.New(meter.DefaultConfig())
	require.NoError(t, err)
	restart := supervise.Config{First: time.Millisecond, Cap: 5 * time.Millisecond, Window: time.Second}
	failed := func(supervise.Failed) { o.panics.Add(1) }
	props := Props(cfg, Deps{
		Refs: func() []*fleet.Ref { return nil }, Log: log, Meter: m.Router("m"), Instances: &atomic.Uint64{},
		Attach: func(*actor.PID) {}, Restarted: func(name string) { o.live.TellModel(name, stream.RouterRestarted{}) },
		NewTicket: func() scoring.Ticket { return scoring.Ticket{Boot: 1, Number: o.tickets.Add(1)} },
		Stats:     &o.stats, Middleware: o.middleware, Seed: 1,
	}).Configure(actor.WithGuardian(supervise.NewStrategy(restart, 1, failed)))
	o.pid = o.system.Root.Spawn(props)
	t.Cleanup(func() {
		require.NoError(t, o.system.Root.StopFuture(o.pid).Wait())
		o.system.Shutdown()
	})
	return o
}

// middleware blows the router up at user messages while a bomb is armed.
func (o *office) middleware(kind string) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(c actor.ReceiverContext, env *actor.MessageEnvelope) {
			switch env.Message.(type) {
			case *actor.Restarting, *actor.Stopping, *actor.Stopped, *actor.Terminated:
			default:
				if kind == "router" && o.bomb.Load() > 0 && o.bomb.Add(-1) >= 0 {
					panic("bomb")
				}
			}
			next(c, env)
		}
	}
}

// submit runs a request: without a fleet it is refused.
func (o *office) submit(tokens int) *stream.Response {
	return stream.Start(stream.DefaultConfig(), stream.Deps{
		Live: o.live, Log: slog.New(slog.DiscardHandler), Router: o.tell,
		Model: stream.Model{Decoder: undecoded{}}, Ended: func(stream.Summary) {},
	}, &stream.Request{Model: "m", N: 1, Arrival: time.Now(), Input: stream.Input{Tokens: [][]uint32{make([]uint32, tokens)}}})
}

// tell passes on what a call says, with the prompts that a tokenizer would add.
func (o *office) tell(message any) {
	if sub, ok := message.(*stream.Submit); ok && sub.Prompts == nil {
		full := *sub
		full.Prompts = []stream.Prompt{{IDs: sub.Call.Request.Input.Tokens[0]}}
		sub.Call.Tell(stream.Encoded{Prompts: full.Prompts})
		message = &full
	}
	o.system.Root.Send(o.pid, message)
}

// undecoded is the decoder of requests that are never answered.
type undecoded struct{}

func (undecoded) Decode([]uint32, bool) (string, error) {
	return "", errors.New("nothing is generated here")
}

// TestNobodyIsForgotten: whatever panics, leaves or restarts, every request is answered.
func TestNobodyIsForgotten(t *testing.T) {
	const rounds, requests = 12, 60
	for round := range rounds {
		t.Run(fmt.Sprint("seed ", round), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(round), 3)) //nolint:gosec // a count
			o := openOffice(t, DefaultConfig("m"))
			var all sync.WaitGroup
			for i := range requests {
				leaves := time.Duration(rng.IntN(3000)) * time.Microsecond
				if rng.IntN(10) == 0 {
					o.bomb.Add(1)
				} else {
					r := o.submit(rng.IntN(200))
					all.Go(func() {
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						if i%2 == 0 {
							time.AfterFunc(leaves, func() { r.Cancel(); cancel() })
						}
						_, err := r.Next(ctx)
						require.Error(t, err, "nobody serves")
						require.False(t, errors.Is(err, io.EOF))
					})
				}
				if rng.IntN(3) == 0 {
					runtime.Gosched()
				}
			}
			all.Wait()
			require.Eventually(t, func() bool { return o.live.Len() == 0 && *o.stats.Load() == Stats{} }, time.Minute, time.Millisecond)
			t.Log(o.panics.Load(), "panics")
		})
	}
}
