package fleet

import (
	"math"
	"time"
)

// The buckets of a pace grow by a fifth each, from half a millisecond to more than half a minute.
const (
	PaceBuckets = 64
	paceLeast   = 500 * time.Microsecond
	paceGrowth  = 1.2
)

// PaceBucket is the bucket of a gap between two tokens.
func PaceBucket(gap time.Duration) int {
	if gap <= paceLeast {
		return 0
	}
	i := int(math.Ceil(math.Log(float64(gap)/float64(paceLeast)) / math.Log(paceGrowth)))
	return min(i, PaceBuckets-1)
}

// PaceOf is the longest gap that falls into a bucket; the last bucket has no end.
func PaceOf(bucket int) time.Duration {
	return time.Duration(float64(paceLeast) * math.Pow(paceGrowth, float64(bucket)))
}
