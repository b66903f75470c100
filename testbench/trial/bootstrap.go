package trial

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Interval is a mean and where it lies with a confidence of 95 %.
type Interval struct{ Mean, Low, High float64 }

const resamples = 10_000

// studentTails are how many standard errors from the mean the outer 2.5 % of Student's distribution begin, by degrees of freedom
// from 1 on.
func studentTails() []float64 {
	return []float64{
		12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
		2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
	}
}

// beyond is the share of resamples on either side of an interval of n values. A few values differ less among themselves than
// what they are drawn from, so that 2.5 % would be too much: this is the expanded percentile interval of Hesterberg, "What
// Teachers Should Know About the Bootstrap" (The American Statistician 69, 2015).
func beyond(n int) float64 {
	t, tails := 1.96, studentTails()
	if n-2 < len(tails) {
		t = tails[n-2]
	}
	return math.Erfc(t*math.Sqrt(float64(n)/float64(n-1))/math.Sqrt2) / 2
}

// Bootstrap is the mean of values and its bootstrap interval of 95 %: of five values 94, of fewer the least and the greatest, which
// is less. A mean over an infinite value is infinite. The draws are the same each time.
func Bootstrap(values []float64) Interval {
	mean := Mean(values)
	if len(values) < 2 || math.IsInf(mean, 0) || math.IsNaN(mean) {
		return Interval{mean, mean, mean}
	}
	rng := rand.New(rand.NewPCG(uint64(len(values)), 0xb007))
	means, drawn := make([]float64, resamples), make([]float64, len(values))
	for i := range means {
		for j := range drawn {
			drawn[j] = values[rng.IntN(len(values))]
		}
		slices.Sort(drawn) // equal draws have equal means, to the last bit
		means[i] = Mean(drawn)
	}
	slices.Sort(means)
	// A few values have few means: what lies beyond is rather less than is allowed than more.
	low := int(beyond(len(values)) * resamples)
	high := resamples - 1 - low
	for edge := means[low]; low > 0 && means[low] == edge; {
		low--
	}
	for edge := means[high]; high < resamples-1 && means[high] == edge; {
		high++
	}
	return Interval{mean, means[low], means[high]}
}

// Mean is NaN of no values.
func Mean(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
