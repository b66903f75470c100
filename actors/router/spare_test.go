package router

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// members walks a line, both ways.
func (l *line) members(t require.TestingT) []*asked {
	var all []*asked
	var last *asked
	for a := l.first; a != nil; a = a.links[l.which].after {
		require.Same(t, last, a.links[l.which].before)
		all, last = append(all, a), a
	}
	require.Same(t, l.last, last)
	return all
}

// TestALineLosesAnyOfItsMembers: the others stay in order.
func TestALineLosesAnyOfItsMembers(t *testing.T) {
	for gone := range 3 {
		for _, which := range []int{ofReplica, unanswered} {
			l, all := line{which: which}, []*asked{{at: 0}, {at: 1}, {at: 2}}
			for _, a := range all {
				l.add(a)
			}
			l.remove(all[gone])
			rest := append(append([]*asked{}, all[:gone]...), all[gone+1:]...)
			require.Equal(t, rest, l.members(t))
			l.add(all[gone])
			require.Equal(t, append(rest, all[gone]), l.members(t))
			for _, a := range all {
				l.remove(a)
			}
			require.Empty(t, l.members(t))
		}
	}
}

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
