package replica

import (
	"time"

	"plimsoll/actors/fleet"
)

const (
	// paceKept is how many gaps are remembered: then all weigh half.
	paceKept = 2000
	// paceEnough is from how many gaps on their quantile means something.
	paceEnough = 32
	// stepWithin is the share of the gaps that do not exceed the step.
	stepWithin = 0.99
)

// pace is how long a replica's streams go from token to token: a histogram that forgets.
type pace struct {
	counts [fleet.PaceBuckets]float64
	total  float64
}

func (p *pace) add(gaps *[fleet.PaceBuckets]uint32) {
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
			return fleet.PaceOf(i), true
		}
	}
	return fleet.PaceOf(fleet.PaceBuckets - 1), true
}
