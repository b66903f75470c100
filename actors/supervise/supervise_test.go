package supervise

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { os.Exit(code) }))
}

// TestBackoff: each failure doubles the delay up to the cap; a failure long after the one before starts anew.
func TestBackoff(t *testing.T) {
	const ms = time.Millisecond
	cfg := Config{First: 10 * ms, Cap: 100 * ms, Window: time.Second, Jitter: 0}
	for name, c := range map[string]struct {
		gaps []time.Duration // before each failure
		want []time.Duration
	}{
		"one":                          {[]time.Duration{0}, []time.Duration{10 * ms}},
		"doubles":                      {[]time.Duration{0, ms, ms, ms}, []time.Duration{10 * ms, 20 * ms, 40 * ms, 80 * ms}},
		"to the cap":                   {[]time.Duration{0, 0, 0, 0, 0, 0, 0}, []time.Duration{10 * ms, 20 * ms, 40 * ms, 80 * ms, 100 * ms, 100 * ms, 100 * ms}},
		"in the window it goes on":     {[]time.Duration{0, time.Second, time.Second}, []time.Duration{10 * ms, 20 * ms, 40 * ms}},
		"after the window it is anew":  {[]time.Duration{0, ms, time.Second + 1, ms}, []time.Duration{10 * ms, 20 * ms, 10 * ms, 20 * ms}},
		"the window counts from a gap": {[]time.Duration{0, 900 * ms, 900 * ms, 900 * ms}, []time.Duration{10 * ms, 20 * ms, 40 * ms, 80 * ms}},
	} {
		t.Run(name, func(t *testing.T) {
			b, now := NewBackoff(cfg), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			rng := rand.New(rand.NewPCG(1, 1))
			for i, gap := range c.gaps {
				now = now.Add(gap)
				require.Equal(t, c.want[i], b.Strike(now, rng), "failure %d", i)
			}
		})
	}
}

// TestBackoffNeverOverflows: however often it fails, the delay stays between the first and the cap with its jitter.
func TestBackoffNeverOverflows(t *testing.T) {
	cfg := DefaultConfig()
	b, rng := NewBackoff(cfg), rand.New(rand.NewPCG(1, 1))
	now := time.Now()
	jittered := map[time.Duration]bool{}
	for n := range 10_000 {
		d := b.Strike(now, rng)
		require.GreaterOrEqual(t, d, cfg.First)
		require.LessOrEqual(t, d, cfg.Cap+cfg.Cap/5)
		require.Equal(t, n+1, b.Strikes())
		jittered[d] = true
	}
	require.Greater(t, len(jittered), 1000, "actors that fail together do not come back together")
}

// crew is a parent with children that panic on demand.
type crew struct {
	*Strategy

	started *atomic.Int32
	child   *actor.PID
}

type (
	blow  struct{}
	relay struct{ message any }
)

// Receive implements actor.Actor.
func (p *crew) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		p.child = c.Spawn(actor.PropsFromFunc(func(c actor.Context) {
			switch c.Message().(type) {
			case *actor.Started:
				p.started.Add(1)
			case blow:
				panic("blown")
			case chan struct{}:
				close(c.Message().(chan struct{})) //nolint:forcetypeassert // the case says so
			}
		}))
	case *actor.Stopping, *actor.Restarting:
		p.Strategy.Close()
	case relay:
		c.Send(p.child, m.message)
	}
}

// TestStrategy restarts a child for ever, each time later, keeps its mailbox, and tells of each failure.
func TestStrategy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var failed []Failed
		cfg := Config{First: 10 * time.Millisecond, Cap: 40 * time.Millisecond, Window: time.Minute}
		system := quietSystem()
		var started atomic.Int32
		parent := system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor {
			return &crew{started: &started, Strategy: NewStrategy(cfg, 1, func(f Failed) {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, f)
			})}
		}))
		synctest.Wait()
		for n, want := range []time.Duration{10, 20, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40} {
			began := time.Now()
			answered := make(chan struct{})
			system.Root.Send(parent, relay{blow{}})
			system.Root.Send(parent, relay{answered})
			<-answered
			require.Equal(t, want, time.Since(began)/time.Millisecond, "failure %d", n)
			require.EqualValues(t, n+2, started.Load())
		}
		synctest.Wait()
		mu.Lock()
		require.Len(t, failed, 12)
		require.Equal(t, "blown", failed[0].Reason)
		require.Equal(t, blow{}, failed[0].Message)
		require.Equal(t, 12, failed[11].Strikes)
		require.Equal(t, 40*time.Millisecond, failed[11].Delay)
		mu.Unlock()

		// A supervisor that stops meanwhile takes its plans with it.
		system.Root.Send(parent, relay{blow{}})
		synctest.Wait()
		require.NoError(t, system.Root.StopFuture(parent).Wait())
		time.Sleep(time.Second) // virtual
		require.EqualValues(t, 13, started.Load())
		system.Shutdown()
		time.Sleep(2 * DeadLetterInterval) // virtual: a goroutine of the library must not outlive the bubble
	})
}

func quietSystem() *actor.ActorSystem {
	log := slog.New(slog.DiscardHandler)
	return NewSystem(log)
}

// TestGuard logs a panic with its stack, lets the owner answer, and lets it go on.
func TestGuard(t *testing.T) {
	var out bytes.Buffer
	var message, value any
	guard := Guard(slog.New(slog.NewTextHandler(&out, nil)), "thing", func(m, v any) { message, value = m, v })
	calm := guard(func(actor.ReceiverContext, *actor.MessageEnvelope) {})
	calm(nil, &actor.MessageEnvelope{Message: "fine"})
	require.Nil(t, message)
	require.Zero(t, out.Len())

	wild := guard(func(actor.ReceiverContext, *actor.MessageEnvelope) { panic("no") })
	require.PanicsWithValue(t, "no", func() { wild(nil, &actor.MessageEnvelope{Message: "bad"}) })
	require.Equal(t, "bad", message)
	require.Equal(t, "no", value)
	require.Contains(t, out.String(), "actor=thing")
	require.Contains(t, out.String(), "TestGuard", "the stack says where")

	silent := Guard(slog.New(slog.DiscardHandler), "thing", nil)(func(actor.ReceiverContext, *actor.MessageEnvelope) { panic("no") })
	require.Panics(t, func() { silent(nil, &actor.MessageEnvelope{}) })
}

// TestGo runs, tells of a panic before it is done, and is done once whatever happens.
func TestGo(t *testing.T) {
	for name, f := range map[string]func(){"well": func() {}, "badly": func() { panic("no") }} {
		var order []string
		done := make(chan struct{})
		Go(slog.New(slog.DiscardHandler), "test", func() { order = append(order, "ran"); f() },
			func(v any) { order = append(order, v.(string)) }, //nolint:forcetypeassert // it is what f panics with
			func() { order = append(order, "done"); close(done) })
		<-done
		want := []string{"ran", "done"}
		if name == "badly" {
			want = []string{"ran", "no", "done"}
		}
		require.Equal(t, want, order)
	}
	require.EqualError(t, &PanicError{Value: "no"}, "panic: no")
}

// note is an actor that notes what it gets.
type note struct{ got []any }

// Receive implements actor.Actor.
func (n *note) Receive(c actor.Context) { n.got = append(n.got, c.Message()) }

// said is a context with nothing but a message.
type said struct {
	actor.Context

	message any
}

// Message implements actor.Context.
func (s said) Message() any { return s.message }

// TestFinal: after Restarting or Stopping an instance gets nothing but the end of its life; the rest goes to late.
func TestFinal(t *testing.T) {
	for _, end := range []any{&actor.Restarting{}, &actor.Stopping{}} {
		inner := &note{}
		var late []any
		f := Final(inner, func(m any) { late = append(late, m) })
		stopped, terminated := &actor.Stopped{}, &actor.Terminated{}
		for _, m := range []any{&actor.Started{}, "early", end, "late", 1, terminated, stopped} {
			f.Receive(said{message: m})
		}
		require.Equal(t, []any{&actor.Started{}, "early", end, terminated, stopped}, inner.got)
		require.Equal(t, []any{"late", 1}, late)
	}
	dropped := Final(&note{}, nil)
	dropped.Receive(said{message: &actor.Stopping{}})
	require.NotPanics(t, func() { dropped.Receive(said{message: "late"}) })
}

// boss is an actor with a strategy of its own.
type boss struct {
	note

	asked int
}

// HandleFailure implements actor.SupervisorStrategy.
func (b *boss) HandleFailure(*actor.ActorSystem, actor.Supervisor, *actor.PID, *actor.RestartStatistics, any, any) {
	b.asked++
}

// TestFinalSupervises: the wrapped actor's strategy decides for its children.
func TestFinalSupervises(t *testing.T) {
	b := &boss{}
	for _, inner := range []actor.Actor{b, &note{}} {
		s, ok := Final(inner, nil).(actor.SupervisorStrategy)
		require.True(t, ok)
		s.HandleFailure(nil, nil, nil, nil, nil, nil)
	}
	require.Equal(t, 1, b.asked)
}
