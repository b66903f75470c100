package dst

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
)

// TestAnOrderToDrainOutlivesAPanic: what an actor fails at the next instance takes, so the replica drains, and the checkers
// must count on it.
func TestAnOrderToDrainOutlivesAPanic(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]bool{"it stays": true, "it leaves": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(Config{Seed: 1})
			w.drawPlan()
			w.plan.recalls = recalls{}
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
			h.panics = true
			h.receive(fleet.Drain{Keep: keep})
			require.True(t, h.box.suspended)
			require.False(t, h.draining())
			for h.box.suspended {
				next()
			}
			require.Equal(t, !keep, h.drained)
			require.True(t, h.draining() || !keep && h.gone)
			require.Nil(t, w.bad)
		})
	}
}
