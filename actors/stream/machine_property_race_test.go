package stream

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/engine"
)

// rivals are the attempts of a leg that count.
func (w *world) rivals(leg int) []*generating {
	var out []*generating
	for _, c := range w.calls {
		if c.place.Leg == leg && !c.aborted {
			out = append(out, c)
		}
	}
	return out
}

// lapsed says whether a submission is the hedge's, and not wanted any more.
func (w *world) lapsed(number uint64) bool { return w.recalled && number == w.hedge }

// budget holds the retry budget to what is known of the hedge: it has a share while it is asked for or runs, and none is left
// behind.
func (w *world) budget() {
	switch {
	case w.ended > 0:
		require.Zero(w.t, w.r.of.taken)
	case w.hedge != 0 && !w.over():
		require.Positive(w.t, w.r.of.taken)
	}
}

// over says whether a hedge that was asked for is not under way any more.
func (w *world) over() bool {
	h := w.hedges
	return h[HedgeRefused]+h[HedgeWithdrawn]+h[HedgeWon]+h[HedgeLost]+h[HedgeFailed] > 0
}

// raced requires that a hedge has had one beginning and one end.
func (w *world) raced() {
	h := w.hedges
	require.Equal(w.t, map[bool]int{true: 1}[w.hedge != 0], h[HedgeBegun]+h[HedgeRefused]+h[HedgeWithdrawn])
	require.Equal(w.t, h[HedgeBegun], h[HedgeWon]+h[HedgeLost]+h[HedgeFailed])
}

// TestRacesAtRandom is TestMachineAtRandom from the moment on at which a hedge is asked for.
func TestRacesAtRandom(t *testing.T) {
	hits := map[string]int{}
	for range 40 { // each is 100 worlds
		rapid.Check(t, func(t *rapid.T) { race(t, hits) })
	}
	t.Log(hits)
	var whats []string
	for e := range NumHedgeEvents {
		whats = append(whats, "hedge "+e.String())
	}
	for k := range engine.NumFailKinds {
		whats = append(whats, "fails before a token: "+k.String())
	}
	floors(t, hits, append(whats, "ended well", "a stall", "routed anew", "goes on", "resumed", "a grant that was forgotten", "leaves while all run",
		"the router restarts while legs wait", "announced lingering", "announced reserved", "a place for an older submission", "a place after the end"))
}

func race(t *rapid.T, hits map[string]int) {
	cfg := DefaultConfig()
	cfg.AttemptsMax, cfg.ResubmitsMax, cfg.HedgeAfter = 4, 2, 1
	w := newWorldOf(t, hits, cfg, &Request{
		N: 1, Whole: rapid.Bool().Draw(t, "whole"), Stop: []string{"b!", "aab"}, StopTokenIDs: []uint32{idWord},
		Input: Input{Tokens: [][]uint32{{1, 2, 3}}},
	})
	w.grant(1)
	if w.r.m.waiting.asks == nil && len(w.calls) == 1 {
		at, ok := w.r.m.nextTimeout()
		require.True(t, ok)
		w.r.now = at
		w.step(timeout{})
	}
	if rapid.IntRange(0, 2).Draw(t, "restarts") == 0 {
		w.replicaRestarts()
	}
	if _, asked := w.open[2]; asked && rapid.Bool().Draw(t, "begun") {
		w.grant(2)
	}
	happen(t, w)
}
