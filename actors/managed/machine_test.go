package managed

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/engine/process"
)

// bench drives a machine at a time of its own.
type bench struct {
	m   *machine
	now time.Time
}

func newBench() *bench {
	cfg := DefaultConfig()
	cfg.Backoff.Jitter = 0
	return &bench{newMachine(cfg, rand.New(rand.NewPCG(1, 1))), time.Unix(1_700_000_000, 0)}
}

// step takes an event and returns the effects' names, without what is told.
func (b *bench) step(event any) string {
	var names []string
	for _, e := range b.m.step(b.now, event) {
		switch e := e.(type) {
		case tell:
		case end:
			names = append(names, map[bool]string{true: "kill", false: "end"}[e.now])
		default:
			names = append(names, strings.TrimPrefix(fmt.Sprintf("%T", e), "managed."))
		}
	}
	return strings.Join(names, " ")
}

// at lets time pass to the tick that the machine wants.
func (b *bench) tick(t *testing.T) string {
	t.Helper()
	at, ok := b.m.next()
	require.True(t, ok, "it wants no tick")
	b.now = at
	return b.step(tick{})
}

func (b *bench) serving(t *testing.T) *bench {
	t.Helper()
	require.Equal(t, "spawn", b.step(begin{}))
	require.Empty(t, b.step(ran{1, 42}))
	require.Empty(t, b.step(ready{1}))
	require.Equal(t, Serving, b.m.phase)
	return b
}

func TestACrashIsFollowedByAStart(t *testing.T) {
	b := newBench().serving(t)
	require.Equal(t, 42, b.m.status(80).PID)
	require.Equal(t, "retire", b.step(exited{1, process.Exit{Signal: "killed"}}))
	require.Equal(t, Ending, b.m.phase, "what it left is still being ended")
	_, ok := b.m.next()
	require.False(t, ok)
	require.Empty(t, b.step(gone{1}))
	require.Equal(t, Waiting, b.m.phase)
	at, _ := b.m.next()
	require.Equal(t, 500*time.Millisecond, at.Sub(b.now))
	require.Empty(t, b.step(tick{}), "too early")
	require.Equal(t, "spawn", b.tick(t))
	s := b.m.status(81)
	require.Equal(t, Status{
		Phase: Starting, Since: b.now, Port: 81, Starts: 2, Strikes: 1, LastExit: "ended by signal: killed",
		LastExitAt: b.now.Add(-500 * time.Millisecond),
	}, *s)
}

func TestTheBackOffDoublesToItsCapAndIsForgiven(t *testing.T) {
	b := newBench()
	require.Equal(t, "spawn", b.step(begin{}))
	var waits []time.Duration
	for start := 1; start <= 9; start++ {
		b.step(exited{start, process.Exit{Code: 1}})
		b.step(gone{start})
		at, _ := b.m.next()
		waits = append(waits, at.Sub(b.now))
		require.Equal(t, "spawn", b.tick(t))
	}
	const ms = time.Millisecond
	require.Equal(t, []time.Duration{500 * ms, 1000 * ms, 2000 * ms, 4000 * ms, 8000 * ms, 16000 * ms, 30000 * ms, 30000 * ms, 30000 * ms}, waits)
	b.step(ready{10})
	b.now = b.now.Add(time.Hour)
	b.step(exited{10, process.Exit{}})
	b.step(gone{10})
	at, _ := b.m.next()
	require.Equal(t, 500*ms, at.Sub(b.now))
}

func TestOneThatDoesNotServeInTimeIsEnded(t *testing.T) {
	b := newBench()
	b.step(begin{})
	require.Equal(t, "retire end", b.tick(t))
	require.Empty(t, b.step(ready{1}), "too late")
	require.Equal(t, Ending, b.m.phase)
	b.step(exited{1, process.Exit{Code: 0}})
	b.step(gone{1})
	require.Equal(t, "the engine did not serve within 10m0s; exit code 0", b.m.status(0).LastExit)
	require.Equal(t, Waiting, b.m.phase)
}

func TestOneThatHangsIsKilled(t *testing.T) {
	b := newBench().serving(t)
	require.Equal(t, "retire kill", b.step(giveUp{1, "silent"}))
	require.Empty(t, b.step(giveUp{1, "silent"}), "once")
	b.step(exited{1, process.Exit{Signal: "killed"}})
	b.step(gone{1})
	require.Equal(t, "silent; ended by signal: killed", b.m.status(0).LastExit)
}

// What concerns another start, or comes at another time, changes nothing.
func TestOldNewsIsIgnored(t *testing.T) {
	b := newBench()
	b.step(begin{})
	for _, event := range []any{giveUp{1, "not yet"}, ready{2}, exited{2, process.Exit{}}, gone{2}, giveUp{2, ""}, ran{2, 7}, begin{}} {
		require.Empty(t, b.step(event), "%#v", event)
	}
	require.Equal(t, Starting, b.m.phase)
	require.Zero(t, b.m.pid)
	b.step(gone{1})
	for _, event := range []any{gone{1}, exited{1, process.Exit{}}, ready{1}, giveUp{1, ""}} {
		require.Empty(t, b.step(event), "%#v", event)
	}
	require.Equal(t, Waiting, b.m.phase)
}

func TestCloseEndsWhatRunsAndStartsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		before func(b *bench)
		want   string
		left   bool // something of the last start
	}{
		"never begun": {func(*bench) {}, "done", false},
		"starting":    {func(b *bench) { b.step(begin{}) }, "retire end", true},
		"serving":     {func(b *bench) { b.step(begin{}); b.step(ready{1}) }, "retire end", true},
		"ending":      {func(b *bench) { b.step(begin{}); b.step(exited{1, process.Exit{}}) }, "", true},
		"waiting":     {func(b *bench) { b.step(begin{}); b.step(gone{1}) }, "done", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench()
			c.before(b)
			require.Equal(t, c.want, b.step(closing{}))
			require.Empty(t, b.step(closing{}), "once")
			if c.left {
				b.step(exited{1, process.Exit{}})
				require.Equal(t, "done", b.step(gone{1}))
			}
			require.Equal(t, Closed, b.m.phase)
			_, ok := b.m.next()
			require.False(t, ok)
		})
	}
}

// A machine that failed is followed by one that counts on.
func TestAgain(t *testing.T) {
	b := newBench().serving(t)
	b.m = b.m.again(b.now)
	require.Equal(t, Waiting, b.m.phase)
	require.Equal(t, "spawn", b.tick(t))
	require.Equal(t, 2, b.m.starts)
	require.Equal(t, 1, b.m.status(0).Strikes)
}

// Whatever happens, there is one process at a time, and the next is started only when nothing of the last is left.
func TestOneProcessAtATime(t *testing.T) {
	spawned, closedAt := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		b := newBench()
		running, ended := 0, false // the start of which something is left; its main process has ended
		take := func(event any) {
			for _, e := range b.m.step(b.now, event) {
				switch e.(type) {
				case spawn:
					require.Zero(t, running, "another one is left")
					require.False(t, b.m.closing)
					running, ended = b.m.starts, false
					spawned++
				case end:
					require.NotZero(t, running, "nothing to end")
				case done:
					require.Zero(t, running, "it leaves something behind")
					closedAt++
				}
			}
		}
		take(begin{})
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			some := max(0, b.m.starts-rapid.IntRange(0, 1).Draw(t, "old"))
			switch rapid.SampledFrom([]string{"exit", "gone", "ready", "giveUp", "tick", "tick", "later", "ran", "closing"}).Draw(t, "event") {
			case "exit":
				if running != 0 && !ended {
					ended = true
					take(exited{running, process.Exit{Code: 1}})
				}
			case "gone":
				if start := running; start != 0 && ended {
					running = 0
					take(gone{start})
				}
			case "ready":
				take(ready{some})
			case "giveUp":
				take(giveUp{some, "silent"})
			case "tick":
				if at, ok := b.m.next(); ok {
					b.now = at
				}
				take(tick{})
			case "later":
				b.now = b.now.Add(time.Minute)
			case "ran":
				take(ran{some, 9})
			case "closing":
				if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
					take(closing{})
				}
			}
			require.Equal(t, running != 0, b.m.running(), "%s", b.m.phase)
		}
	})
	require.Positive(t, spawned)
	require.Positive(t, closedAt)
}
