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
