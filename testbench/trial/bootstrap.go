package trial

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Interval is a mean and where it lies with a confidence of 95 %.
type Interval struct{ Mean, Low, High float64 }

const (
	resamples  = 2000
	confidence = 0.95
)

// Bootstrap is the mean of values and its percentile bootstrap interval. Of a single value the interval is that value; a mean
// over an infinite one is infinite. The draws are the same each time.
func Bootstrap(values []float64) Interval {
	mean := meanOf(values)
	if len(values) < 2 || math.IsInf(mean, 0) || math.IsNaN(mean) {
		return Interval{mean, mean, mean}
	}
	rng := rand.New(rand.NewPCG(uint64(len(values)), 0xb007))
	means, drawn := make([]float64, resamples), make([]float64, len(values))
	for i := range means {
		for j := range drawn {
			drawn[j] = values[rng.IntN(len(values))]
		}
		means[i] = meanOf(drawn)
	}
	slices.Sort(means)
	tail := int((1 - confidence) / 2 * resamples)
	return Interval{mean, means[tail], means[resamples-1-tail]}
}

func meanOf(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
