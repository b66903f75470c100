package scoring_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring"
)

func TestBlocksRoundUp(t *testing.T) {
	for _, tc := range []struct {
		tokens, size scoring.Tokens
		want         scoring.Blocks
	}{
		{-1, 16, 0}, {0, 16, 0}, {1, 16, 1}, {15, 16, 1}, {16, 16, 1}, {17, 16, 2}, {32, 16, 2}, {5, 1, 5},
	} {
		require.Equal(t, tc.want, tc.tokens.Blocks(tc.size), "%d tokens in blocks of %d", tc.tokens, tc.size)
	}
	require.Panics(t, func() { scoring.Tokens(1).Blocks(0) })
}

func TestTicketsAreOrderedByBootThenNumber(t *testing.T) {
	sorted := []scoring.Ticket{{Boot: 1, Number: 2}, {Boot: 1, Number: 10}, {Boot: 2, Number: 1}}
	for i, a := range sorted {
		for j, b := range sorted {
			require.Equal(t, i < j, a.Less(b))
			require.Equal(t, i == j, a.Compare(b) == 0)
		}
	}
	require.True(t, slices.IsSortedFunc(sorted, scoring.Ticket.Compare))
	require.Equal(t, "ff/10", scoring.Ticket{Boot: 255, Number: 10}.String())
}
