package tokenize

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"plimsoll/actors/fault"
	"plimsoll/actors/meter"
	"plimsoll/actors/stream"
	"plimsoll/actors/supervise"
	"plimsoll/scoring/queue"
	"plimsoll/tokenizer/hf"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { os.Exit(code) }))
}

// office is a pool with workers, and a router that knows of no replica.
type office struct {
	system *actor.ActorSystem
	handle *Handle
	pid    *actor.PID
	gate   *Gate
	live   *stream.Live
	limits atomic.Pointer[Limits]
	meter  *meter.Meter
	bomb   atomic.Int32 // that many messages to come make the pool panic
	panics atomic.Int32

	mu     sync.Mutex
	routed []*stream.Submit // what came to the router
}

func openOffice(tb testing.TB, cfg Config, slots int, prompts func(stream.Input) ([]stream.Prompt, error), texts Texts) *office {
	tb.Helper()
	log := slog.New(slog.DiscardHandler)
	o := &office{gate: NewGate(slots), live: stream.NewLive()}
	o.limits.Store(&Limits{})
	o.system = supervise.NewSystem(log)
	o.handle = NewHandle(o.system.Root)
	m, err := meter.New(meter.DefaultConfig())
	require.NoError(tb, err)
	o.meter = m
	restart := supervise.Config{First: time.Millisecond, Cap: 5 * time.Millisecond, Window: time.Second}
	failed := func(supervise.Failed) { o.panics.Add(1) }
	props := Props(cfg, Deps{
		Handle: o.handle, Gate: o.gate, Prompts: prompts, Texts: texts, Limits: func() Limits { return *o.limits.Load() },
		Router: o.route, Log: log, Meter: m.Tokenizer("m"), Failed: failed,
		Restarted:  func(name string) { o.live.TellModel(name, stream.TokenizerRestarted{}) },
		Middleware: o.middleware, Supervise: restart, Seed: 1,
	}).Configure(actor.WithGuardian(supervise.NewStrategy(restart, 1, failed)))
	o.pid = o.system.Root.Spawn(props)
	o.handle.Attach(o.pid)
	tb.Cleanup(func() {
		require.NoError(tb, o.system.Root.StopFuture(o.pid).Wait())
		o.system.Shutdown()
	})
	return o
}

// route is the router: it refuses what it is asked for.
func (o *office) route(message any) {
	switch m := message.(type) {
	case *stream.Submit:
		o.mu.Lock()
		o.routed = append(o.routed, m)
		o.mu.Unlock()
		m.Call.Tell(stream.Rejected{Number: m.Number, Fault: fault.New(fault.NoReplica, "nobody serves")})
	case stream.Withdraw:
		m.Call.Tell(stream.Withdrawn{Number: m.Number})
	case stream.Inquire:
		m.Call.Tell(stream.Lost{Number: m.Number})
	}
}

// middleware blows the pool up at user messages while a bomb is armed.
func (o *office) middleware(kind string) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(c actor.ReceiverContext, env *actor.MessageEnvelope) {
			switch env.Message.(type) {
			case *actor.Restarting, *actor.Stopping, *actor.Stopped, *actor.Terminated:
			default:
				if kind == "tokenizer" && o.bomb.Load() > 0 && o.bomb.Add(-1) >= 0 {
					panic("bomb")
				}
			}
			next(c, env)
		}
	}
}

func (o *office) tokenize(text string) Tokenized {
	prompts, err := o.handle.Prompts(context.Background(), stream.Input{Texts: []string{text}}, "default", queue.Default)
	return Tokenized{prompts, err}
}

// submit runs a request for a text: it is refused as soon as its prompt is known.
func (o *office) submit(tenant, text string) *stream.Response {
	return o.ask(tenant, stream.Input{Texts: []string{text}})
}

func (o *office) ask(tenant string, in stream.Input) *stream.Response {
	return stream.Start(stream.DefaultConfig(), stream.Deps{
		Live: o.live, Log: slog.New(slog.DiscardHandler), Router: o.handle.Tell,
		Model: stream.Model{Name: "m", Decoder: undecoded{}}, Ended: func(stream.Summary) {},
	}, &stream.Request{Model: "m", N: 1, Arrival: time.Now(), Tenant: tenant, Input: in})
}

// came lists the prompts that have come to the router.
func (o *office) came() []stream.Prompt {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []stream.Prompt
	for _, sub := range o.routed {
		out = append(out, sub.Prompts...)
	}
	return out
}

// idle waits until nothing waits or runs.
func (o *office) idle(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return o.handle.Stats() == Stats{} && o.gate.Idle() && o.live.Len() == 0 }, time.Minute, time.Millisecond)
}

// undecoded is the decoder of requests that are never answered.
type undecoded struct{}

func (undecoded) Decode([]uint32, bool) (string, error) {
	return "", errors.New("nothing is generated here")
}

// plain takes texts as they are.
func plain(in stream.Input) ([]stream.Prompt, error) {
	prompts := make([]stream.Prompt, len(in.Texts))
	for i, text := range in.Texts {
		prompts[i].Text = text
	}
	return prompts, nil
}

// letters makes a token of each letter; poison makes it panic. Texts are cut behind blanks.
type letters struct {
	seen func(text string) // hears of each encode; nil: nobody does
}

func (letters) Check(text string) error {
	if strings.Contains(text, "bad") {
		return &hf.BadInput{Message: "it is bad"}
	}
	return nil
}

func (letters) AtLeast(text string) int { return (len(text) + 99) / 100 }

func (letters) Cut(text string, most int) int {
	if at := strings.LastIndexByte(text[:min(most, len(text))], ' '); at >= 0 {
		return at + 1
	}
	if at := strings.IndexByte(text, ' '); at >= 0 {
		return at + 1
	}
	return len(text)
}

func (letters) Frame() (before, after []uint32, ok bool) { return []uint32{1}, []uint32{2}, true }

func (l letters) Encode(text string, addSpecial bool) ([]uint32, error) {
	if l.seen != nil {
		l.seen(text)
	}
	if strings.Contains(text, "poison") {
		panic("poisoned")
	}
	var ids []uint32
	for _, c := range []byte(text) {
		ids = append(ids, uint32(c))
	}
	if addSpecial {
		ids = slices.Concat([]uint32{1}, ids, []uint32{2})
	}
	return ids, nil
}

// TestTokenize: prompts, errors of the input, and what the metrics see.
func TestTokenize(t *testing.T) {
	o := openOffice(t, DefaultConfig("m"), 2, plain, letters{})
	got := o.tokenize("abc")
	require.NoError(t, got.Err)
	require.Equal(t, []uint32{'a', 'b', 'c'}, got.Prompts[0].IDs)
	require.Equal(t, fault.BadInput, fault.Of(o.tokenize("bad").Err).Kind)
	require.Eventually(t, func() bool { return o.handle.Stats() == Stats{} && o.gate.Idle() }, time.Minute, time.Millisecond)
}

// TestPoison: an input that makes a worker panic fails its own request, while others go on beside and after it.
func TestPoison(t *testing.T) {
	o := openOffice(t, DefaultConfig("m"), 2, plain, letters{})
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			switch i % 6 {
			case 0:
				require.Equal(t, fault.Internal, fault.Of(o.tokenize("poison").Err).Kind)
			case 1:
				_, err := o.submit("default", "poison").Next(t.Context())
				require.Equal(t, fault.Internal, fault.Of(err).Kind)
			case 2:
				_, err := o.submit("default", "bad").Next(t.Context())
				require.Equal(t, fault.BadInput, fault.Of(err).Kind)
			case 3:
				_, err := o.submit("default", "good").Next(t.Context())
				require.Equal(t, fault.NoReplica, fault.Of(err).Kind, "its prompt is known; nobody serves: %v", err)
			default:
				require.NoError(t, o.tokenize("good").Err)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 20, o.panics.Load())
	require.Eventually(t, func() bool { return o.gate.Idle() && o.live.Len() == 0 }, time.Minute, time.Millisecond)
}

// TestGateNeverLeaks: whatever panics, leaves or restarts, every request is answered and every slot comes back.
func TestGateNeverLeaks(t *testing.T) {
	const rounds, requests, slots = 12, 60, 3
	for round := range rounds {
		t.Run(fmt.Sprint("seed ", round), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(round), 3)) //nolint:gosec // a count
			o := openOffice(t, DefaultConfig("m"), slots, func(in stream.Input) ([]stream.Prompt, error) {
				for range len(in.Texts[0]) % 50 {
					runtime.Gosched()
				}
				return plain(in)
			}, letters{})
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
					r := o.submit("default", text)
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
			require.Eventually(t, func() bool { return o.live.Len() == 0 && o.gate.Idle() }, time.Minute, time.Millisecond,
				"live %d", o.live.Len())
			o.bomb.Store(0)
			require.Eventually(t, func() bool { return o.tokenize("again").Err == nil }, time.Minute, time.Millisecond,
				"a message to an instance that is being replaced is answered with an error, no other")
			t.Log(o.panics.Load(), "panics,", answered.Load(), "answered,", refused.Load(), "refused")
		})
	}
}

// TestASlotOfAWithdrawnJob: a worker is given a step of a job that is then withdrawn, and is stopped before it takes it.
func TestASlotOfAWithdrawnJob(t *testing.T) {
	g := NewGate(1)
	p := &pool{deps: Deps{Gate: g}, running: map[*job]struct{}{}, m: newMachine(DefaultConfig("m"))}
	p.Strategy = supervise.NewStrategy(supervise.DefaultConfig(), 1, nil)
	j := jobOf("a", 10, time.Now())
	require.True(t, p.m.add(time.Now(), j))
	require.True(t, g.TryAcquire(Short, "m", nil))
	require.Equal(t, j, p.m.next(time.Now(), Short))
	j.take(Short)
	p.running[j] = struct{}{}
	require.Equal(t, j, p.m.withdraw(time.Now(), j.owner.Call, 1))
	p.stop()
	require.True(t, g.Idle())
}

// TestWhoInquires hears of a submission that the pool has from the pool, and of any other from the router, behind what that was sent.
func TestWhoInquires(t *testing.T) {
	var asked []any
	p := &pool{deps: Deps{Router: func(message any) { asked = append(asked, message) }}, m: newMachine(DefaultConfig("m"))}
	j := jobOf("a", 10, time.Now())
	j.owner.Call = stream.NewCall(&stream.Request{}, stream.Model{})
	require.True(t, p.m.add(time.Now(), j))
	known := stream.Inquire{Call: j.owner.Call, Number: j.owner.Number}
	p.inquire(known)
	require.Empty(t, asked)
	require.Equal(t, []any{stream.Known{Number: 1}}, j.owner.Call.Take())
	other := stream.Inquire{Call: j.owner.Call, Number: j.owner.Number + 1}
	p.inquire(other)
	require.NotNil(t, p.m.withdraw(time.Now(), j.owner.Call, 0))
	p.inquire(known)
	require.Equal(t, []any{other, known}, asked)
}
