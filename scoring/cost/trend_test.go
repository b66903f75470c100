package cost

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring"
)

// TestSlowdownComparesWithItsOwnPast: not with the prior, not with others, and not with a light load.
func TestSlowdownComparesWithItsOwnPast(t *testing.T) {
	step := func(l *Learner, id scoring.ReplicaID, kv scoring.Tokens, gap time.Duration, n int) {
		for range n {
			l.Step(time.Time{}, id, 1, kv, gap)
		}
	}
	l := NewLearner(DefaultConfig())
	require.InDelta(t, 1, l.Slowdown("a"), 0, "nothing is known")
	step(l, "quick", 1000, 10*time.Millisecond, 500)
	step(l, "slow", 1000, 500*time.Millisecond, 500)
	require.InDelta(t, 1, l.Slowdown("quick"), 0.2)
	require.InDelta(t, 1, l.Slowdown("slow"), 0.2, "a slow device is no sick one")

	for _, kv := range []scoring.Tokens{1000, 50_000} { // steps grow with the load
		step(l, "loaded", kv, time.Duration(10+kv/1000)*time.Millisecond, 1000)
	}
	step(l, "loaded", 100_000, 110*time.Millisecond, 50)
	require.InDelta(t, 1, l.Slowdown("loaded"), 0.5, "that is what is predicted for it")

	for factor := 2; factor <= 20; factor *= 2 {
		l := NewLearner(DefaultConfig())
		step(l, "a", 1000, 10*time.Millisecond, 500)
		step(l, "a", 1000, time.Duration(factor)*10*time.Millisecond, 20)
		require.InEpsilon(t, float64(factor), l.Slowdown("a"), 0.4, "its past moves with it, slowly")
		l.Forgive("a")
		require.InDelta(t, 1, l.Slowdown("a"), 0)
		step(l, "a", 1000, 10*time.Millisecond, 20)
		require.InDelta(t, 1, l.Slowdown("a"), 0.3, "its past was not forgotten")
		l.Forget("a")
		require.InDelta(t, 1, l.Slowdown("a"), 0)
	}
	l.Forgive("nobody")
}

// TestKnowsPrefill: only what a replica has shown itself counts.
func TestKnowsPrefill(t *testing.T) {
	l := NewLearner(DefaultConfig())
	for range 10 {
		l.FirstToken(time.Time{}, "a", 1000, 0, time.Second)
	}
	require.True(t, l.KnowsPrefill("a", 1000, 0))
	require.True(t, l.KnowsPrefill("a", 3500, 0))
	require.False(t, l.KnowsPrefill("a", 9000, 0), "nothing like it was seen")
	require.True(t, l.KnowsPrefill("a", 500, 9000), "most of it is cached")
	require.False(t, l.KnowsPrefill("b", 1, 0))
	for range prefillsKnown {
		require.False(t, l.KnowsPrefill("b", 1000, 0))
		l.FirstToken(time.Time{}, "b", 1000, 0, time.Second)
	}
	require.True(t, l.KnowsPrefill("b", 1000, 0))
	l.Forget("b")
	require.False(t, l.KnowsPrefill("b", 1000, 0))
}
