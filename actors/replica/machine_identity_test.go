package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/engine"
	"plimsoll/scoring/ledger"
)

// described is an engine that tells all there is to know of its model.
func described(evidence string) engine.Status {
	s := status(evidence)
	s.Names, s.LengthTokens, s.VocabTokens = []string{"engine-model", "other-name"}, ptr(4096), ptr(32000)
	s.Adapters = []string{"poet"}
	return s
}

// An engine that lives on has one model. What tells that it has another one now takes it out, until it says the old thing again
// or another life begins.
func TestAnEngineThatChangesItsModelWhileItLivesIsDegraded(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*engine.Status)
		want   []string
	}{
		"its name":       {func(s *engine.Status) { s.Model, s.Names = "qwen", []string{"qwen"} }, []string{`"qwen"`, `"engine-model"`}},
		"its length":     {func(s *engine.Status) { s.LengthTokens = ptr(8192) }, []string{"length", "8192", "4096"}},
		"its vocabulary": {func(s *engine.Status) { s.VocabTokens = ptr(5) }, []string{"vocabulary", "of 5 ", "32000"}},
		"its blocks":     {func(s *engine.Status) { s.BlockTokens = ptr(32) }, []string{"block", "32", "16"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, testConfig(), withoutFeed)
			b.probed(described("a"))
			require.Equal(t, fleet.Ready, b.m.state)
			require.Equal(t, []string{"engine-model", "other-name"}, b.m.snapshot().EngineNames)
			s := described("a")
			c.change(&s)
			b.probed(s)
			require.Equal(t, fleet.Degraded, b.m.state)
			said, ok := find[alarm](b.last)
			require.True(t, ok, "an operator is told")
			for _, word := range c.want {
				require.Contains(t, said.what, word)
			}
			require.Equal(t, said.what, b.m.snapshot().LastError)
			require.Equal(t, ledger.Closed, b.reserve(b.claim()))
			require.Empty(t, b.m.snapshot().EngineNames, "nothing is routed here by names")
			require.Empty(t, b.m.snapshot().Adapters)
			require.False(t, has[alarm](b.probed(s)), "it is said once")
			b.probed(described("a"))
			require.Equal(t, fleet.Ready, b.m.state, "it is what it was")
			b.probed(s)
			require.Equal(t, fleet.Degraded, b.m.state)
			s.Incarnation = "b"
			b.probed(s)
			require.Equal(t, fleet.Ready, b.m.state, "another life may be another thing: that is the accord's to judge")
		})
	}
}

func TestWhatIsSaidLaterIsNoChange(t *testing.T) {
	b := newBench(t, testConfig(), withoutFeed)
	b.probed(status("a"))
	s := described("a")
	s.Model, s.Names = "other-name", []string{"other-name", "engine-model"}
	b.probed(s)
	b.probed(status("a"))
	require.NotEqual(t, fleet.Degraded, b.m.state, "another order of its names, and figures that were not told before")
	s.VocabTokens = ptr(1)
	b.probed(s)
	require.Equal(t, fleet.Degraded, b.m.state, "since they were told they hold")
}

// Whoever is of another model is out, says why, and may be drained and go.
func TestAnEngineOfAnotherModelIsDegraded(t *testing.T) {
	foreign := func(b *bench) []effect {
		return b.step(Probed{Status: described("a"), Began: b.now.Add(time.Second / 2), Foreign: "two models"})
	}
	b := newBench(t, testConfig(), withoutFeed)
	foreign(b)
	require.Equal(t, fleet.Degraded, b.m.state)
	require.Equal(t, "two models", b.m.snapshot().LastError)
	require.Equal(t, "engine-model", b.m.snapshot().EngineModel, "what it says is shown")
	require.Empty(t, b.m.snapshot().Adapters)
	b.step(fleet.Drain{})
	require.Equal(t, fleet.Gone, b.m.state)

	b = newBench(t, testConfig(), withoutFeed)
	b.probed(described("a"))
	ticket := b.granted()
	foreign(b)
	require.Equal(t, fleet.Degraded, b.m.state)
	b.step(fleet.Drain{})
	require.Equal(t, fleet.Draining, b.m.state)
	foreign(b)
	b.step(fleet.End{Ticket: ticket})
	require.Equal(t, fleet.Gone, b.m.state)
}

func TestAnAnswerThatComesEarlyWaits(t *testing.T) {
	b := newBench(t, testConfig(), withoutFeed)
	p := Probed{Status: described("a"), Began: b.now, Early: true}
	b.step(p)
	require.Equal(t, fleet.Starting, b.m.state)
	require.Empty(t, b.m.snapshot().EngineNames)
	p.Early = false
	b.step(p)
	require.Equal(t, fleet.Ready, b.m.state)
}
