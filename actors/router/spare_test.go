package router

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMemoryIsLentAgainAfterTheStep: what a step gives back is not lent before the next one, names nothing then, and is bounded.
func TestMemoryIsLentAgainAfterTheStep(t *testing.T) {
	s := newSpare()
	first := s.asked.take()
	first.by = &asking{}
	s.asked.give(first)
	require.NotSame(t, first, s.asked.take())
	require.NotNil(t, first.by, "effects name it yet")
	s.turn()
	require.Same(t, first, s.asked.take())
	require.Equal(t, asked{}, *first)
	for range 2 * spareMax {
		s.asked.give(&asked{})
	}
	s.turn()
	require.Len(t, s.asked.ready, spareMax)
}

// spareOnly fails if memory that is to be lent is in use, is there twice, or names something of before.
func (m *machine) spareOnly(t require.TestingT) {
	entries, askings, askeds, bookings := map[*entry]bool{}, map[*asking]bool{}, map[*asked]bool{}, map[*booking]bool{}
	for _, e := range m.queuedAs {
		entries[e] = true
	}
	for _, by := range m.byCall {
		askings[by] = true
	}
	for _, a := range m.tickets {
		askeds[a], askings[a.by] = true, true
	}
	for by := range askings {
		entries[by.entry] = true
	}
	for _, b := range m.booked {
		bookings[b] = true
	}
	unused(t, &m.spare.entries, entries)
	unused(t, &m.spare.asking, askings)
	unused(t, &m.spare.asked, askeds)
	unused(t, &m.spare.bookings, bookings)
	for _, e := range m.spare.entries.ready {
		require.Nil(t, e.sub)
		require.Nil(t, e.noted)
		for _, k := range e.keys[:cap(e.keys)] {
			for _, keys := range k.byPrompt[:cap(k.byPrompt)] {
				require.Nil(t, keys)
			}
		}
	}
	for _, a := range m.spare.asked.ready {
		require.Equal(t, asked{}, *a)
	}
	for _, by := range m.spare.asking.ready {
		require.Equal(t, asking{}, *by)
	}
	for _, b := range m.spare.bookings.ready {
		require.Equal(t, booking{}, *b)
	}
}

// unused fails if a pool has something that is in use, or has it twice.
func unused[T any](t require.TestingT, p *pool[T], used map[*T]bool) {
	for _, list := range [][]*T{p.ready, p.ended} {
		for _, x := range list {
			require.False(t, used[x])
			used[x] = true
		}
	}
}
