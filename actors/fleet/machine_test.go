package fleet

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/engine"
	"plimsoll/scoring"
)

// asked notes what a Membership asks of its shell.
type asked struct{ list []string }

func (a *asked) note(what string, ref *Ref) { a.list = append(a.list, what+" "+string(ref.ID)) }

func (a *asked) Spawn(ref *Ref)  { a.note("spawn", ref) }
func (a *asked) Forget(ref *Ref) { a.note("forget", ref) }
func (a *asked) Stop(ref *Ref)   { a.note("stop", ref) }
func (a *asked) Close(ref *Ref)  { a.note("close", ref) }
func (a *asked) Tell(ref *Ref, order any) {
	word := fmt.Sprintf("%T", order)
	if d, ok := order.(Drain); ok {
		word = fmt.Sprintf("drain keep=%t", d.Keep)
	}
	a.note(word, ref)
}

func (a *asked) take() []string {
	list := a.list
	a.list = nil
	return list
}

type noEngine struct{ engine.Engine }

func (noEngine) Capabilities() engine.Capabilities { return engine.Capabilities{} }

func newTestRef(id scoring.ReplicaID) *Ref { return NewRef(id, "m", noEngine{}, nil) }

// An order waits for the replica's actor, and is told to each new one: the message may have been lost with the one before.
func TestOrdersWaitForTheActor(t *testing.T) {
	var to asked
	m := NewMembership("m", "other")
	a, b := newTestRef("a"), newTestRef("b")
	require.Nil(t, m.Add(b, &to))
	require.Nil(t, m.Add(a, &to))
	require.Equal(t, []*Ref{a, b}, m.Roster("m").Refs())
	require.Empty(t, m.Roster("other").Refs())
	require.Nil(t, m.Order("a", Drain{Keep: true}, &to))
	require.Empty(t, to.take(), "the node's actor has not begun")
	m.Begin(&to)
	require.Equal(t, []string{"spawn a", "drain keep=true a", "spawn b"}, to.take())

	require.Nil(t, m.Order("a", Undrain{}, &to))
	require.Equal(t, []string{"fleet.Undrain a"}, to.take())
	m.Ended(a, &to) // with the node's actor
	require.Nil(t, m.Order("a", Drain{}, &to))
	require.Empty(t, to.take(), "nobody is there")
	m.Ended(b, &to)
	m.Begin(&to)
	require.Equal(t, []string{"spawn a", "drain keep=false a", "spawn b"}, to.take(), "the last order counts")
}

// Who is to leave does not stay, and its name is free when it is gone. Its engine is closed once, when its actor has ended.
func TestWhoLeavesIsForgotten(t *testing.T) {
	var to asked
	m := NewMembership("m")
	a := newTestRef("a")
	require.Nil(t, m.Add(a, &to))
	m.Begin(&to)
	require.Nil(t, m.Order("a", Drain{Leave: new(start)}, &to))
	require.Equal(t, fault.BadInput, m.Order("a", Drain{Keep: true}, &to).Kind)
	require.Equal(t, fault.BadInput, m.Order("a", Undrain{}, &to).Kind)
	require.Nil(t, m.Order("a", Drain{}, &to), "at once")
	require.Equal(t, fault.BadInput, m.Check("m", "a").Kind, "its name is taken")
	to.take()

	m.Gone(a, &to)
	m.Gone(a, &to)
	require.Equal(t, []string{"forget a", "stop a"}, to.take())
	require.Empty(t, m.Roster("m").Refs())
	require.Equal(t, fault.NotFound, m.Order("a", Undrain{}, &to).Kind)
	again := newTestRef("a")
	require.Nil(t, m.Add(again, &to))
	m.Gone(a, &to) // the old one says it once more
	require.Equal(t, []string{"spawn a"}, to.take())
	m.Ended(a, &to)
	m.Ended(a, &to)
	require.Equal(t, []string{"close a"}, to.take())

	m.Gone(again, &to)
	to.take()
	m.Begin(&to) // its actor has ended with the node's, and nobody has said so
	require.Equal(t, []string{"close a"}, to.take())
	m.Begin(&to)
	require.Empty(t, to.take())
	require.Equal(t, fault.ModelNotFound, m.Check("nobody", "a").Kind)
}

// What a replica hears of the others of its model: whether one takes new work, and whether one will soon.
func TestWhoServesAndWhoRises(t *testing.T) {
	m := NewMembership("m")
	a, b := newTestRef("a"), newTestRef("b")
	require.Nil(t, m.Add(a, nil))
	require.Nil(t, m.Add(b, nil))
	refs := m.Roster("m").Refs()
	for _, c := range []struct {
		of            Snapshot
		serves, rises bool
	}{
		{Snapshot{State: Ready}, true, false},
		{Snapshot{State: Ready, Suspect: true}, false, false},
		{Snapshot{State: Ready, Recovering: true}, false, false},
		{Snapshot{State: Starting}, false, true},
		{Snapshot{State: Warming, Incarnation: 2}, false, true},
		{Snapshot{State: Down}, false, true},
		{Snapshot{State: Down, Incarnation: 1}, false, false},
		{Snapshot{State: Draining}, false, false},
	} {
		b.Publish(&c.of)
		require.Equal(t, c.serves, OtherServes(refs, a), "%+v", c.of)
		peers := Peers(refs, a)
		require.Len(t, peers, 1)
		require.Equal(t, c.serves, peers[0].Serves, "%+v", c.of)
		require.Equal(t, c.rises, peers[0].Rises, "%+v", c.of)
	}
	require.Same(t, b, m.Roster("m").Find("b"))
	require.Nil(t, m.Roster("m").Find("c"))
}
