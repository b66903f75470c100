package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring/ledger"
)

// TestWhatIsShortOfOursIsNotTheEngines: this process's open files have no part in what a replica is taken for.
func TestWhatIsShortOfOursIsNotTheEngines(t *testing.T) {
	for _, s := range []fleet.State{fleet.Ready, fleet.Degraded, fleet.Draining} {
		b := reach(t, s)
		for range 10 {
			b.probeFailed(engine.Local)
			require.False(t, has[hurryProbe](b.last), "nor is it asked at once: that would take another file")
		}
		require.Equal(t, s, b.m.state)
		require.Equal(t, "engine local: no", b.m.snapshot().LastError, "it is said")
	}
	b := reach(t, fleet.Ready)
	b.m.cfg.BreaksMax = 1
	for range 10 {
		ticket := b.granted()
		b.failed(ticket, engine.Local)
		require.Equal(t, ledger.Ended, b.m.ledger.State(ticket))
		require.False(t, has[hurryProbe](b.last))
	}
	require.Equal(t, fleet.Ready, b.m.state)
	require.Zero(t, b.m.snapshot().Strikes)
	require.False(t, b.now.Before(b.m.coolingUntil), "it has shed nothing")
}

// TestACanaryThatCouldNotBeSentProvesNothing: a replica is struck after a canary that is late, not for want of one.
func TestACanaryThatCouldNotBeSentProvesNothing(t *testing.T) {
	for _, c := range []struct {
		kind    engine.FailKind
		strikes int
	}{{engine.Local, 0}, {engine.Broken, 1}} {
		w := newWatched(t, 100, false)
		w.run(1)
		for range 1000 {
			w.pass(10*time.Millisecond, true)
			if canary := w.m.watch.canary; canary != nil && w.m.watch.phase == suspect {
				w.at(0, canaryDone{number: *canary, err: &engine.Failure{Kind: c.kind}})
			}
			if w.m.snapshot().Strikes > 0 {
				break
			}
		}
		require.Equal(t, c.strikes, w.m.snapshot().Strikes, c.kind.String())
	}
}
