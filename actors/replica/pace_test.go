package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/actors/fleet"
)

// TestPaceAgainstSorting: the quantile of a histogram is that of the sorted gaps, rounded up by a fifth at most.
func TestPaceAgainstSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gaps := rapid.SliceOfN(rapid.IntRange(1, 30_000_000), paceEnough, 300).Draw(t, "microseconds")
		var p pace
		var b fleet.Beats
		for _, us := range gaps {
			b.Gaps[fleet.PaceBucket(time.Duration(us)*time.Microsecond)]++
		}
		p.add(&b.Gaps)
		got, ok := p.step()
		require.True(t, ok)
		below, within := 0, 0
		for _, us := range gaps {
			gap := time.Duration(us) * time.Microsecond
			if gap <= got {
				within++
			}
			if float64(gap) <= float64(got)/(float64(fleet.PaceOf(1))/float64(fleet.PaceOf(0)))/(1+1e-9) {
				below++
			}
		}
		require.GreaterOrEqual(t, float64(within), stepWithin*float64(len(gaps)))
		if got > fleet.PaceOf(0) {
			require.Less(t, float64(below), stepWithin*float64(len(gaps)), "a bucket less would not do")
		}
	})
}

// TestPaceForgets: what was long ago weighs little.
func TestPaceForgets(t *testing.T) {
	var p pace
	_, ok := p.step()
	require.False(t, ok)
	feed := func(gap time.Duration, n uint32) {
		var gaps [fleet.PaceBuckets]uint32
		gaps[fleet.PaceBucket(gap)] = n
		p.add(&gaps)
	}
	feed(time.Second, paceKept)
	for range 10 {
		feed(10*time.Millisecond, paceKept)
	}
	got, ok := p.step()
	require.True(t, ok)
	require.Less(t, got, 13*time.Millisecond)
	require.LessOrEqual(t, p.total, float64(paceKept))
	feed(time.Hour, 10*paceKept)
	got, _ = p.step()
	require.Less(t, got, time.Minute, "the last bucket has no end")
}
