package dst

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheWallClockJumpsAlone(t *testing.T) {
	t.Parallel()
	base := dawn()
	require.Equal(t, int64(1_800_000_000), base.Unix())
	for _, jump := range []time.Duration{time.Hour, -time.Hour, time.Nanosecond, 0, -1500 * time.Millisecond} {
		after := skewed(base.Add(3*time.Second), jump)
		require.Equal(t, 3*time.Second, after.Sub(base), "by the monotonic clock")
		require.Equal(t, 3*time.Second+jump, after.Round(0).Sub(base.Round(0)), "by the wall clock")
		require.Equal(t, 4*time.Second, after.Add(time.Second).Sub(base))
	}
}
