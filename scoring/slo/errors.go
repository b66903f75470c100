package slo

import (
	"math"
	"slices"
	"time"
)

const (
	// Quantile is the part of requests whose first token comes by the time that is told: 8 of 10.
	Quantile = 0.8
	// FactorPrior is that of the prediction while too little was seen.
	FactorPrior = 1.25
	// FactorLeast and FactorMost bound what is learned: nothing is taken to come in no time or never.
	FactorLeast = 0.25
	FactorMost  = 4.0

	bands    = 12
	firstMax = 0.05 // seconds; each band after the first is twice as wide as the one before
	kept     = 64   // in a band
	enough   = 16   // to learn from
	memory   = time.Minute
)

// Errors remembers how long first tokens took against what was predicted. The zero value knows of none. Not safe for
// concurrent use.
type Errors struct {
	bands   [bands]band
	scratch [3 * kept]float64
}

// band is what came where waits of one length were predicted.
type band struct {
	seen [kept]seen
	next int
	n    int
}

type seen struct {
	at    time.Time
	ratio float64
}

// bandOf returns the band of a predicted wait.
func bandOf(seconds float64) int {
	if seconds < firstMax {
		return 0
	}
	return min(bands-1, 1+int(math.Log2(seconds/firstMax)))
}

// Observe notes that a first token which was predicted after some seconds came after others, or has not come in that time and
// will not be waited for.
func (e *Errors) Observe(now time.Time, predicted, came float64) {
	if !(predicted > 0 && came >= 0) {
		return
	}
	b := &e.bands[bandOf(predicted)]
	b.seen[b.next] = seen{now, min(max(came/predicted, FactorLeast), FactorMost)}
	b.next = (b.next + 1) % kept
	b.n = min(b.n+1, kept)
}

// Factor is what a predicted wait is to be multiplied with, so that 8 of 10 first tokens come by then: learned from waits of that
// length, and of the lengths next to it where those are too few, in the last minute.
func (e *Errors) Factor(now time.Time, predicted float64) float64 {
	at := bandOf(predicted)
	ratios := e.bands[at].since(now.Add(-memory), e.scratch[:0])
	if len(ratios) < enough && at > 0 {
		ratios = e.bands[at-1].since(now.Add(-memory), ratios)
	}
	if len(ratios) < enough && at+1 < bands {
		ratios = e.bands[at+1].since(now.Add(-memory), ratios)
	}
	if len(ratios) < enough {
		return FactorPrior
	}
	slices.Sort(ratios)
	return ratios[min(len(ratios)-1, int(Quantile*float64(len(ratios))))]
}

// since appends what was seen after a time.
func (b *band) since(after time.Time, dst []float64) []float64 {
	for _, s := range b.seen[:b.n] {
		if s.at.After(after) {
			dst = append(dst, s.ratio)
		}
	}
	return dst
}

// RetrySeconds is when a client is told to come back that would find room after some seconds: a whole number from 1 to 60, jittered
// by up to a quarter so that those which were refused together do not come together. chance is drawn from [0, 1).
func RetrySeconds(room, chance float64) int {
	jittered := min(max(room, 1), retryMost) * (1 + retryJitter*chance)
	// What lies between two whole numbers falls to either as often as it lies near it.
	return int(min(retryMost, math.Floor(jittered+math.Mod(chance*jitterFine, 1))))
}

const (
	retryMost   = 60.0
	retryJitter = 0.25
	jitterFine  = 1009 // makes a second chance, all but independent, of the first
)
