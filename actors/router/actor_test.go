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
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/meter"
	"plimsoll/actors/stream"
	"plimsoll/actors/supervise"
	"plimsoll/scoring"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { os.Exit(code) }))
}

// office is a router's actor with workers, without a fleet.
type office struct {
	t       *testing.T
	system  *actor.ActorSystem
	pid     *actor.PID
	gate    *Gate
	live    *stream.Live
	stats   atomic.Pointer[Stats]
	bomb    atomic.Int32 // that many messages to come make the router panic
	panics  atomic.Int32
	tickets atomic.Uint64
}

func openOffice(t *testing.T, cfg Config, slots, workers int, encode Encoder) *office {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	o := &office{t: t, gate: NewGate(slots), live: stream.NewLive()}
	o.stats.Store(&Stats{})
	o.system = supervise.NewSystem(log)
	m, err := meter.New(meter.DefaultConfig())
	require.NoError(t, err)
	restart := supervise.Config{First: time.Millisecond, Cap: 5 * time.Millisecond, Window: time.Second}
	failed := func(supervise.Failed) { o.panics.Add(1) }
	props := Props(cfg, Deps{
		Refs:   func() []*fleet.Ref { return nil },
		Encode: encode, Gate: o.gate, Workers: workers, Log: log, Meter: m.Router("m"), Tokenizer: m.Tokenizer("m"),
		Failed: failed, Instances: &atomic.Uint64{}, Attach: func(*actor.PID) {}, Restarted: func(name string) { o.live.TellModel(name, stream.RouterRestarted{}) },
		NewTicket: func() scoring.Ticket { return scoring.Ticket{Boot: 1, Number: o.tickets.Add(1)} },
		Stats:     &o.stats, Middleware: o.middleware, Supervise: restart, Seed: 1,
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

func (o *office) tokenize(text string) Tokenized {
	reply := make(chan Tokenized, 1)
	o.system.Root.Send(o.pid, &Tokenize{Input: stream.Input{Texts: []string{text}}, Reply: reply})
	return <-reply
}

// submit runs a request: without a fleet it is refused as soon as its prompt is known.
func (o *office) submit(text string) *stream.Response {
	return stream.Start(stream.DefaultConfig(), stream.Deps{
		Live: o.live, Log: slog.New(slog.DiscardHandler), Router: func(m any) { o.system.Root.Send(o.pid, m) },
		Model: stream.Model{Decoder: undecoded{}}, Ended: func(stream.Summary) {},
	}, &stream.Request{Model: "m", N: 1, Arrival: time.Now(), Input: stream.Input{Texts: []string{text}}})
}

// undecoded is the decoder of requests that are never answered.
type undecoded struct{}

func (undecoded) Decode([]uint32, bool) (string, error) {
	return "", errors.New("nothing is generated here")
}

// letters makes a token of each letter; poison makes it panic.
func letters(in stream.Input) ([]stream.Prompt, error) {
	prompts := make([]stream.Prompt, len(in.Texts))
	for i, text := range in.Texts {
		switch {
		case strings.Contains(text, "poison"):
			panic("poisoned")
		case strings.Contains(text, "bad"):
			return nil, fault.Invalid("prompt", "it is bad")
		}
		for _, c := range text {
			prompts[i].IDs = append(prompts[i].IDs, uint32(c)) //nolint:gosec // a letter
		}
	}
	return prompts, nil
}

// TestTokenize: prompts, errors of the input, and what the metrics see.
func TestTokenize(t *testing.T) {
	o := openOffice(t, DefaultConfig("m"), 2, 2, letters)
	got := o.tokenize("abc")
	require.NoError(t, got.Err)
	require.Equal(t, []uint32{'a', 'b', 'c'}, got.Prompts[0].IDs)
	require.Equal(t, fault.BadInput, fault.Of(o.tokenize("bad").Err).Kind)
	require.Eventually(t, func() bool { return *o.stats.Load() == Stats{} && o.gate.Free() == 2 }, time.Minute, time.Millisecond)
}

// TestPoison: an input that makes a worker panic fails its own request, while others go on beside and after it.
func TestPoison(t *testing.T) {
	o := openOffice(t, DefaultConfig("m"), 2, 2, letters)
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			switch i % 6 {
			case 0:
				require.Equal(t, fault.Internal, fault.Of(o.tokenize("poison").Err).Kind)
			case 1:
				_, err := o.submit("poison").Next(t.Context())
				require.Equal(t, fault.Internal, fault.Of(err).Kind)
			case 2:
				_, err := o.submit("bad").Next(t.Context())
				require.Equal(t, fault.BadInput, fault.Of(err).Kind)
			case 3:
				_, err := o.submit("good").Next(t.Context())
				require.Equal(t, fault.NoReplica, fault.Of(err).Kind, "its prompt is known; nobody serves: %v", err)
			default:
				require.NoError(t, o.tokenize("good").Err)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 20, o.panics.Load())
	require.Eventually(t, func() bool { return o.gate.Free() == 2 && o.live.Len() == 0 }, time.Minute, time.Millisecond)
}

// TestTooMuchText is refused at once, with a time to come back.
func TestTooMuchText(t *testing.T) {
	hold, begun := make(chan struct{}), make(chan struct{}, 2)
	cfg := DefaultConfig("m")
	cfg.EncodeBytes = 3000
	o := openOffice(t, cfg, 1, 1, func(in stream.Input) ([]stream.Prompt, error) {
		begun <- struct{}{}
		<-hold
		return letters(in)
	})
	large := strings.Repeat("x", 2000)
	answers := make(chan Tokenized, 3)
	go func() { answers <- o.tokenize(large) }()
	<-begun // one runs and no longer waits
	go func() { answers <- o.tokenize(large) }()
	require.Eventually(t, func() bool { return o.stats.Load().Encoding == 2 }, time.Minute, time.Millisecond)
	f := fault.Of(o.tokenize(large).Err)
	require.Equal(t, fault.Contended, f.Kind)
	require.Positive(t, f.RetryAfter)
	close(hold)
	for range 2 {
		require.NoError(t, (<-answers).Err)
	}
}

// TestGateNeverLeaks: whatever panics, leaves or restarts, every request is answered and every slot comes back.
func TestGateNeverLeaks(t *testing.T) {
	const rounds, requests, slots = 12, 60, 3
	for round := range rounds {
		t.Run(fmt.Sprint("seed ", round), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(round), 3)) //nolint:gosec // a count
			o := openOffice(t, DefaultConfig("m"), slots, 2, func(in stream.Input) ([]stream.Prompt, error) {
				for range len(in.Texts[0]) % 50 {
					runtime.Gosched()
				}
				return letters(in)
			})
			var all sync.WaitGroup
			var answered, refused atomic.Int32
			for i := range requests {
				text := strings.Repeat("x", rng.IntN(200))
				if rng.IntN(4) == 0 {
					text += "poison"
				}
				leaves := time.Duration(rng.IntN(3000)) * time.Microsecond
				switch rng.IntN(10) {
				case 0:
					o.bomb.Add(1)
				case 1, 2, 3, 4:
					all.Go(func() {
						if o.tokenize(text).Err == nil {
							answered.Add(1)
						} else {
							refused.Add(1)
						}
					})
				default:
					r := o.submit(text)
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
			require.Eventually(t, func() bool { return o.live.Len() == 0 && o.gate.Free() == slots }, time.Minute, time.Millisecond,
				"live %d, free %d", o.live.Len(), o.gate.Free())
			o.bomb.Store(0)
			require.Eventually(t, func() bool { return o.tokenize("again").Err == nil }, time.Minute, time.Millisecond,
				"a message to an instance that is being replaced is answered with an error, no other")
			t.Log(o.panics.Load(), "panics,", answered.Load(), "answered,", refused.Load(), "refused")
		})
	}
}

// TestSlotOfAWithdrawnJob: a worker is given a job that is then withdrawn, and is stopped before it takes it.
func TestSlotOfAWithdrawnJob(t *testing.T) {
	g := NewGate(1)
	a := &routerActor{deps: Deps{Gate: g}, running: map[*job]struct{}{}, jobs: newJobs(1 << 20)}
	a.Strategy = supervise.NewStrategy(supervise.DefaultConfig(), 1, nil)
	require.True(t, g.TryAcquire("m", nil))
	call := &stream.Call{}
	a.running[&job{owner: &stream.Submit{Call: call, Number: 1}}] = struct{}{}
	require.False(t, a.forget(call, 2))
	require.True(t, a.forget(call, 1))
	require.False(t, a.forget(call, 1), "once")
	a.stop()
	require.Equal(t, 1, g.Free())
}
