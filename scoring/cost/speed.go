package cost

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// speed compares measured with predicted prefill time over the last prefills. It is a mean, because prompts that are computed
// together show all of their time at the first of them; but those that took more than speedMost times the median are
// left out, so that a replica that stood still for a moment is not taken for a slow one.
type speed struct {
	last  []prefill // a ring, as far as speedKept
	next  int
	order []prefill // scratch
	// Over all of last but those that took too long.
	measured, predicted float64
}

// prefill is how long a prefill took and was to take, in seconds, and what that weighs.
type prefill struct{ measured, predicted, weight float64 }

const (
	speedKept = 64
	speedMost = 2
	// together is the part of its predicted time below which a prefill ended with the one before it.
	together = 0.02
)

func (s *speed) observe(measured, predicted float64) {
	if n := len(s.last); n > 0 && measured < together*predicted {
		p := &s.last[(s.next+n-1)%n]
		p.measured += measured
		p.predicted += predicted
	} else if n < speedKept {
		s.last = append(s.last, prefill{measured, predicted, 1})
	} else {
		s.last[s.next] = prefill{measured, predicted, 1}
		s.next = (s.next + 1) % speedKept
	}
	s.sum()
}

// fade has what is kept weigh less.
func (s *speed) fade(kept float64) {
	for i := range s.last {
		s.last[i].weight *= kept
	}
	s.sum()
}

// sum adds up what is kept and no outlier.
func (s *speed) sum() {
	most := speedMost * s.median()
	s.measured, s.predicted = 0, 0
	for _, p := range s.last {
		if p.measured <= most*p.predicted {
			s.measured += p.weight * p.measured
			s.predicted += p.weight * p.predicted
		}
	}
}

// longest is the longest prefill that is kept, as it was to take.
func (s *speed) longest() float64 {
	most := 0.0
	for _, p := range s.last {
		most = max(most, p.predicted)
	}
	return most
}

// median is the ratio that half of the predicted time does not exceed.
func (s *speed) median() float64 {
	s.order = append(s.order[:0], s.last...)
	slices.SortFunc(s.order, func(a, b prefill) int { return cmp.Compare(a.measured*b.predicted, b.measured*a.predicted) })
	total := 0.0
	for _, p := range s.order {
		total += p.weight * p.predicted
	}
	half := total / 2
	for _, p := range s.order {
		if half -= p.weight * p.predicted; half <= 0 {
			return p.measured / p.predicted
		}
	}
	return 1
}

// factor is measured over predicted, pulled to prior as if weight seconds had been seen at it.
func (s *speed) factor(prior, weight float64) float64 {
	if s.predicted+weight == 0 {
		return prior
	}
	const least = 1e-6 // a replica that seems to need no time still orders its prompts by length
	return max(least, (s.measured+weight*prior)/(s.predicted+weight))
}

// busy is the share of its time that a replica has spent on prefill of late, forgotten by a factor e in busyMemory.
type busy struct {
	seconds float64 // of prefill, decayed to at
	at      time.Time
}

const busyMemory = 30 * time.Second

func (b *busy) left(now time.Time) float64 {
	if b.at.IsZero() {
		return 0
	}
	return b.seconds * math.Exp(-max(0, now.Sub(b.at).Seconds())/busyMemory.Seconds())
}

func (b *busy) add(now time.Time, seconds float64) {
	b.seconds = b.left(now) + seconds
	b.at = now
}

// share is never all: what was measured may overlap.
func (b *busy) share(now time.Time) float64 { return min(busyMost, b.left(now)/busyMemory.Seconds()) }

const busyMost = 0.99
