package replica

import (
	"math"
	"time"
)

// The buckets of a pace grow by a fifth each, from half a millisecond to more than half a minute.
const (
	paceBuckets = 64
	paceLeast   = 500 * time.Microsecond
	paceGrowth  = 1.2
	// paceKept is how many gaps are remembered: then all weigh half.
	paceKept = 2000
	// paceEnough is from how many gaps on their quantile means something.
	paceEnough = 32
	// stepWithin is the share of the gaps that do not exceed the step.
	stepWithin = 0.99
)

// paceBucket is the bucket of a gap between two tokens.
func paceBucket(gap time.Duration) int {
	if gap <= paceLeast {
		return 0
	}
	i := int(math.Ceil(math.Log(float64(gap)/float64(paceLeast)) / math.Log(paceGrowth)))
	return min(i, paceBuckets-1)
}

// pace is how long a replica's streams go from token to token: a histogram that forgets.
type pace struct {
	counts [paceBuckets]float64
	total  float64
}

func (p *pace) add(gaps *[paceBuckets]uint32) {
	for i, n := range gaps {
		p.counts[i] += float64(n)
		p.total += float64(n)
	}
	for p.total > paceKept {
		p.total /= 2
		for i := range p.counts {
			p.counts[i] /= 2
		}
	}
}

// step is the gap that 99 of 100 do not exceed, rounded up to its bucket; false while too few are known.
func (p *pace) step() (time.Duration, bool) {
	if p.total < paceEnough {
		return 0, false
	}
	sum := 0.0
	for i, n := range p.counts {
		if sum += n; sum >= stepWithin*p.total {
			return time.Duration(float64(paceLeast) * math.Pow(paceGrowth, float64(i))), true
		}
	}
	return time.Duration(float64(paceLeast) * math.Pow(paceGrowth, paceBuckets-1)), true
}
