package replica

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
)

// TestIndexes: those of one block size share an index, which lasts as long as the last of them.
func TestIndexes(t *testing.T) {
	x := NewIndexes("m")
	life := tune{capacity: 1000}
	place := func(size scoring.Tokens) *fleet.Place { return newPlace(x, life, size, prefix.Events, prefix.Counted) }
	a, b, c := place(16), place(16), place(32)
	require.Same(t, a.Index, b.Index)
	require.NotSame(t, a.Index, c.Index)
	require.Equal(t, 32, c.Index.BlockTokens())
	free(a, x)
	d := place(16)
	require.Same(t, b.Index, d.Index)
	free(b, x)
	free(d, x)
	require.NotSame(t, b.Index, place(16).Index)
	for size := scoring.Tokens(100); size < 200; size++ { // a publisher whose blocks grow
		free(place(size), x)
	}
	require.Len(t, x.byBlock, 2)
}
