package agenda_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/testbench/agenda"
)

type entry struct {
	at    time.Duration
	order int
}

// TestOrder: by time, then by when it was entered, against a list that is sorted anew each time.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a agenda.Agenda[entry]
		var list []entry
		taken := 0
		for order := range rapid.IntRange(1, 200).Draw(t, "steps") {
			if len(list) > 0 && rapid.Bool().Draw(t, "take") {
				slices.SortStableFunc(list, func(x, y entry) int { return int(x.at - y.at) })
				at, ok := a.Peek()
				require.True(t, ok)
				e := a.Next()
				require.Equal(t, at, a.Now())
				require.Equal(t, list[0], *e)
				require.Equal(t, list[0].at, a.Now())
				a.Done(e)
				list = list[1:]
				taken++
				continue
			}
			at := time.Duration(rapid.IntRange(0, 20).Draw(t, "at"))
			e := a.At(at)
			require.Zero(t, *e, "memory of an event that is done")
			*e = entry{max(at, a.Now()), order}
			list = append(list, *e)
		}
		for range list {
			require.NotNil(t, a.Next())
		}
		require.Nil(t, a.Next())
		_, ok := a.Peek()
		require.False(t, ok)
	})
}
