package dst

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/replica"
)

// TestAnOrderToDrainCanBeLost: what an actor fails at is lost with it, so the replica serves on, and the checkers must
// count on it; an order that it has heard before stands.
func TestAnOrderToDrainCanBeLost(t *testing.T) {
	t.Parallel()
	w := newWorld(Config{Seed: 1})
	w.drawPlan()
	w.begins()
	next := func() {
		e := w.next()
		w.dispatch(e)
		w.done(e)
	}
	h := w.hosts[0]
	for h.readyAt == none {
		next()
	}
	lose := func() {
		h.drained, h.panics = true, true
		h.receive(replica.Drain{Keep: true})
		require.True(t, h.box.suspended)
		for h.box.suspended {
			next()
		}
	}
	lose()
	require.False(t, h.drained)
	require.False(t, h.draining())

	h.drained = false // another order before it was lost
	h.receive(replica.Drain{Keep: true})
	require.True(t, h.drained)
	lose()
	require.True(t, h.drained)
	require.True(t, h.draining())
	require.Nil(t, w.bad)
}
