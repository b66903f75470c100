package tokenize

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/stream"
	"plimsoll/tokenizer/chat"
)

// TestGate: no more slots of a lane than there are; who finds it closed is called once after a release there, all who wait.
func TestGate(t *testing.T) {
	g := NewGate(2)
	woken := map[string]int{}
	wake := func(who string) func() { return func() { woken[who]++ } }
	require.True(t, g.Idle())
	require.True(t, g.TryAcquire(Short, "a", wake("a")))
	require.True(t, g.TryAcquire(Short, "b", wake("b")))
	require.False(t, g.TryAcquire(Short, "a", wake("a")))
	require.False(t, g.TryAcquire(Short, "a", wake("a")), "who waits twice is called once")
	require.False(t, g.TryAcquire(Short, "b", wake("b")))
	for _, lane := range []Lane{Render, Slices, Whole} {
		require.True(t, g.TryAcquire(lane, "a", nil), "other lanes have slots of their own: %s", lane)
		require.False(t, g.TryAcquire(lane, "b", wake(lane.String())))
		g.Release(lane)
		require.Equal(t, 1, woken[lane.String()])
	}
	require.Zero(t, woken["a"])
	g.Release(Short)
	require.Equal(t, 1, woken["a"])
	require.Equal(t, 1, woken["b"])
	require.True(t, g.TryAcquire(Short, "b", wake("b")))
	require.False(t, g.TryAcquire(Short, "a", wake("a")))
	require.False(t, g.Idle())
	g.Release(Short)
	require.Equal(t, 2, woken["a"])
	require.Equal(t, 1, woken["b"])
	g.Release(Short)
	require.True(t, g.Idle())

	j := &job{}
	require.True(t, g.TryAcquire(Whole, "a", nil))
	before := j.take(Whole)
	for range 3 {
		before.release(g)
	}
	require.True(t, g.Idle(), "a step gives its slot back once")
	require.True(t, g.TryAcquire(Slices, "a", nil))
	now := j.take(Slices)
	before.release(g)
	require.False(t, g.Idle(), "and never that of the next one")
	now.release(g)
	require.True(t, g.Idle())
}

// TestSlots: short inputs have as many as were asked for, slices one less, and every lane has one.
func TestSlots(t *testing.T) {
	require.Equal(t, [NumLanes]int{Short: 8, Render: 1, Slices: 7, Whole: 1}, slots(8))
	require.Equal(t, [NumLanes]int{Short: 1, Render: 1, Slices: 1, Whole: 1}, slots(1))
}

// TestInputBytes: all that an input holds counts, and something for each.
func TestInputBytes(t *testing.T) {
	least := inputBytes(stream.Input{})
	require.Positive(t, least)
	require.GreaterOrEqual(t, inputBytes(stream.Input{Texts: []string{"abc", "de"}}), least+5)
	require.GreaterOrEqual(t, inputBytes(stream.Input{Tokens: [][]uint32{make([]uint32, 100)}}), least+400)
	part := []byte(`["0123456789"]`)
	all := chat.Request{Messages: part, Tools: part, ToolChoice: part, Documents: part, Kwargs: part, ChatTemplate: part}
	require.GreaterOrEqual(t, inputBytes(stream.Input{Chat: &all}), least+6*len(part))
}
