package router

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
)

// hedgeOf is a request for a second attempt beside one on a replica.
func (r *rig) hedgeOf(first scoring.ReplicaID) *stream.Submit {
	sub := r.ask(1, 40, nil)
	sub.Number, sub.Again, sub.Hedge = 2, true, true
	sub.Legs[0].Excluded = []stream.Exclusion{{Replica: first, Incarnation: 1, Process: true}}
	return sub
}

// TestAHedgeIsPlacedAtOnceOrNot: it never waits, and is neither counted as a request nor as one that was refused.
func TestAHedgeIsPlacedAtOnceOrNot(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(r *rig)
		on      scoring.ReplicaID // "": it is declined
	}{
		"on another replica":              {func(*rig) {}, "b"},
		"the other one is full":           {func(r *rig) { r.site("b").fill() }, ""},
		"the other one is of its process": {func(r *rig) { r.site("b").ref.Process = "a" }, ""},
		"the other one lives anew":        {func(r *rig) { r.site("b").ref.Process, r.site("a").snap.Incarnation = "a", 2; r.site("a").fill() }, "b"},
		"the other one is down":           {func(r *rig) { r.site("b").snap.State = fleet.Down }, ""},
		"the other one is suspect":        {func(r *rig) { r.site("b").snap.Suspect = true }, ""},
		"the other one is too small": {func(r *rig) {
			limits := testLimits()
			limits.SequenceTokens = 16
			r.site("b").ledger.SetLimits(limits)
		}, ""},
		"the other one ceases to serve": {func(r *rig) { r.site("b").snap.Recovering = true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, testConfig(), 2)
			c.prepare(r)
			sub := r.submit(r.hedgeOf("a"))
			if c.on != "" {
				require.Equal(t, c.on, r.places(sub)[0].Ref.ID)
			} else {
				require.Equal(t, fault.Contended, r.fault(sub).Kind)
			}
			require.Empty(t, r.kinds, "it is no refusal of a request")
			require.Zero(t, r.ranks)
			r.empty()
		})
	}
}

// TestAHedgeDisplacesNobody: as long as somebody waits, the room is theirs.
func TestAHedgeDisplacesNobody(t *testing.T) {
	r := newRig(t, testConfig(), 2)
	r.site("a").fill()
	r.site("b").hold(60)
	most := 500
	waits := r.submit(r.ask(2, 450, &most)) // needs more than b has
	require.True(t, r.waits(waits))
	hedge := r.submit(r.hedgeOf("a"))
	require.Equal(t, fault.Contended, r.fault(hedge).Kind)
	require.True(t, r.waits(waits))
	r.site("b").free()
	r.step(fleet.Room{Replica: "b"})
	r.deliver()
	require.Len(t, r.places(waits), 1)
}

// reserving is a hedge whose reservation is on its way to a replica.
func reserving(t *testing.T) (*rig, *stream.Submit) {
	t.Helper()
	r := newRig(t, testConfig(), 3)
	r.site("c").snap.State = fleet.Down
	r.site("b").hangs = true
	sub := r.submit(r.hedgeOf("a"))
	require.Empty(t, r.answers(sub))
	require.Len(t, r.sent, 1)
	return r, sub
}

// TestAHedgeThatIsRefused is not tried on yet another replica.
func TestAHedgeThatIsRefused(t *testing.T) {
	r, sub := reserving(t)
	r.site("c").snap.State = fleet.Ready
	r.site("b").fill() // its snapshot showed room
	r.site("b").hangs = false
	r.deliver()
	require.Equal(t, fault.Contended, r.fault(sub).Kind)
	require.Zero(t, r.ranks)
	r.empty()
}

// TestAHedgeThatNobodyAnswers is declined when its reservation is overdue; a grant that comes later is given back.
func TestAHedgeThatNobodyAnswers(t *testing.T) {
	r, sub := reserving(t)
	r.pass(testConfig().ReserveWait)
	require.Equal(t, fault.Contended, r.fault(sub).Kind)
	r.empty()
	r.site("b").hangs = false
	r.deliver()
	require.Equal(t, 1, r.back)
	require.True(t, r.site("b").ledger.Empty())
}

// TestAHedgeThatIsWithdrawn holds nothing.
func TestAHedgeThatIsWithdrawn(t *testing.T) {
	r, sub := reserving(t)
	r.step(stream.Withdraw{Call: sub.Call, Number: 2})
	require.Equal(t, []any{stream.Withdrawn{Number: 2}}, r.answers(sub))
	r.site("b").hangs = false
	r.deliver()
	require.Equal(t, 1, r.back)
	require.True(t, r.site("b").ledger.Empty())
	r.pass(time.Second)
	r.empty()
}
