package trial

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Interval is a mean and where it lies with a confidence of 95 %.
type Interval struct{ Mean, Low, High float64 }

const (
	resamples = 4000
	beyond    = 0.025 // share of them on either side of an interval
	// enough is from how many values on the spread of a few resampled ones says something of what they were drawn from.
	enough = 5
)

// Bootstrap is the mean of values and its studentised bootstrap interval of 95 % (Efron and Tibshirani, An Introduction to the
// Bootstrap, 12.5), which is right for a few values too, where the plain percentile interval is too narrow. Of less than five
// values it is the least and the greatest: too few for 95 %. A mean over an infinite value is infinite. The draws are the same each
// time.
func Bootstrap(values []float64) Interval {
	mean, deviation := spread(values)
	switch {
	case len(values) == 0:
		return Interval{math.NaN(), math.NaN(), math.NaN()}
	case math.IsInf(mean, 0) || math.IsNaN(mean) || deviation == 0:
		return Interval{mean, mean, mean}
	case len(values) < enough:
		return Interval{mean, slices.Min(values), slices.Max(values)}
	}
	rng := rand.New(rand.NewPCG(uint64(len(values)), 0xb007))
	off, drawn := make([]float64, resamples), make([]float64, len(values))
	for i := range off {
		for j := range drawn {
			drawn[j] = values[rng.IntN(len(values))]
		}
		m, d := spread(drawn)
		off[i] = (m - mean) / d
		if d == 0 {
			off[i] = math.Inf(int(math.Copysign(1, m-mean)))
		}
	}
	slices.Sort(off)
	tail := int(beyond * resamples)
	return Interval{mean, mean - deviation*off[resamples-1-tail], mean - deviation*off[tail]}
}

// spread is the mean and the standard deviation of values.
func spread(values []float64) (mean, deviation float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		deviation += (v - mean) * (v - mean) / float64(len(values))
	}
	return mean, math.Sqrt(deviation)
}
