package replica

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring/ledger"
)

// TestBusyIsNotDead: probes that bring no answer in time count against a replica that has nothing to do. Those of a busy one only
// miss a sample: while its streams go on it lives, and when they stop it is the hang rule that finds it. What somebody says, or
// the kernel, counts as ever.
func TestBusyIsNotDead(t *testing.T) {
	late := &engine.Failure{Kind: engine.Broken, Err: fmt.Errorf("probe: %w", context.DeadlineExceeded)}
	dial := &engine.Failure{Kind: engine.Refused, Err: fmt.Errorf("dial: %w", context.DeadlineExceeded)}
	refused := &engine.Failure{Kind: engine.Refused, Message: "connection refused"}
	reset := &engine.Failure{Kind: engine.Broken, Message: "connection reset"}
	said := &engine.Failure{Kind: engine.Broken, FromEngine: true, Status: 500, Message: "internal error"}
	for name, c := range map[string]struct {
		failure *engine.Failure
		streams bool
		tokens  bool
		want    fleet.State
		hangs   bool
	}{
		"late, its streams go on":        {late, true, true, fleet.Ready, false},
		"late, its streams are silent":   {late, true, false, fleet.Down, true},
		"late, it has nothing to do":     {late, false, false, fleet.Down, false},
		"nobody connects, streams go on": {dial, true, true, fleet.Ready, false},
		"refused, its streams go on":     {refused, true, true, fleet.Down, false},
		"reset, its streams go on":       {reset, true, true, fleet.Down, false},
		"5xx, its streams go on":         {said, true, true, fleet.Down, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatched(t, 100, false)
			if c.streams {
				w.run(2)
			}
			for range 5 {
				began := w.now
				for range 20 {
					w.pass(100*time.Millisecond, false)
					if c.tokens {
						w.last = w.now
					}
				}
				last := w.last
				w.at(0, fleet.Beats{Last: &last})
				w.at(0, ProbeFailed{Failure: c.failure, Began: began})
			}
			require.Equal(t, c.want, w.m.state)
			require.Equal(t, c.hangs, w.m.watch.phase == hung)
		})
	}
}

// TestANewProcessIsFoundSoon: whether somebody listens again is asked once a second at least, and at once when the cache feed has
// begun again. Who does not answer is left alone for longer.
func TestANewProcessIsFoundSoon(t *testing.T) {
	cfg := testConfig()
	for kind, want := range map[engine.FailKind][]time.Duration{
		engine.Refused: {250 * time.Millisecond, 500 * time.Millisecond, time.Second, time.Second, time.Second},
		engine.Broken:  {250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second},
	} {
		retry := cfg.ProbeFirst
		var pauses []time.Duration
		for range want {
			var pause time.Duration
			pause, retry = cfg.ProbePause(retry, &engine.Failure{Kind: kind})
			pauses = append(pauses, pause)
		}
		require.Equal(t, want, pauses, kind)
	}
	pause, _ := cfg.ProbePause(cfg.ProbeCap, &engine.Failure{Kind: engine.Refused})
	require.Equal(t, cfg.RefusedCap, pause, "it was silent, and now nobody is there")

	for _, st := range []fleet.State{fleet.Starting, fleet.Warming, fleet.Ready, fleet.Degraded, fleet.Draining, fleet.Down} {
		b := reach(t, st)
		b.step(FeedReady{b.m.life.incarnation})
		require.Equal(t, st == fleet.Starting || st == fleet.Down, has[hurryProbe](b.last), st)
	}
}

// TestWhatIsCounted of a replica that is doubted: that it was suspected, and why it was taken out.
func TestWhatIsCounted(t *testing.T) {
	counts := func(effects []effect) (suspicions int, strikes []strikeKind) {
		for _, e := range effects {
			if s, ok := e.(struck); ok {
				strikes = append(strikes, s.kind)
			}
		}
		return count[suspected](effects), strikes
	}
	for name, c := range map[string]struct {
		happens    func(w *watched)
		suspicions int
		strikes    []strikeKind
	}{
		"all is well": {func(w *watched) {
			for range 20 {
				w.pass(100*time.Millisecond, true)
				w.last = w.now
			}
		}, 0, nil},
		"only slow": {func(w *watched) {
			w.pass(300*time.Millisecond, true)
			w.last = w.now
			w.pass(100*time.Millisecond, true)
		}, 1, nil},
		"hangs": {func(w *watched) { w.pass(time.Second, false) }, 1, []strikeKind{hangs}},
		"breaks whatever it is sent": {func(w *watched) {
			for range w.m.cfg.BreaksMax {
				ticket := w.run(1)[0]
				w.failed(ticket, engine.Broken)
				w.at(0, fleet.End{Ticket: ticket, Reason: ledger.Failed})
			}
		}, 0, []strikeKind{breaks}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatched(t, 100, false)
			w.run(1)
			c.happens(w)
			suspicions, strikes := counts(w.all)
			require.Equal(t, c.suspicions, suspicions)
			require.Equal(t, c.strikes, strikes)
		})
	}
}
