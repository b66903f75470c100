package cost

import (
	"math/bits"
	"slices"

	"plimsoll/scoring"
)

// Forecast is how long an answer becomes.
type Forecast struct {
	MeanTokens scoring.Tokens
	// MostTokens is what few answers exceed: the quantile that the learner is configured for.
	MostTokens scoring.Tokens
	// Variance is that of the length, in square tokens.
	Variance float64
}

// lengths remembers how long answers were: by the size of their prompts, by what they took of their limits, and all together.
type lengths struct {
	all    sample
	prompt [lengthBits]sample // by the bits of the prompt's length: its logarithm to base 2
	shares [lengthBits]sample // of their limits, in thousandths, by the bits of the limit
}

const (
	lengthBits = 33
	// sharesEnough is from how many answers with limits of one size on their shares mean something; likewise promptsEnough.
	sharesEnough  = 8
	promptsEnough = 20
)

func newLengths(keep int) lengths {
	var l lengths
	l.all.keep = keep
	for i := range lengthBits {
		l.prompt[i].keep, l.shares[i].keep = keep, keep
	}
	return l
}

func sizeOf(n scoring.Tokens) int {
	return min(bits.Len64(uint64(max(0, n))), lengthBits-1) //nolint:gosec // not negative
}

func (l *lengths) observe(prompt, produced, limit scoring.Tokens) {
	l.all.push(int(produced))
	if prompt > 0 {
		l.prompt[sizeOf(prompt)].push(int(produced))
	}
	if limit > 0 {
		l.shares[sizeOf(limit)].push(int(min(1000, (1000*produced+limit-1)/limit)))
	}
}

// forecast predicts from what answers took of limits about as large: who sets a low limit often means it, and the first answers
// to finish are the short ones, whose lengths say too little of the others while their shares of their limits do not. Where too
// few had such a limit it predicts from the lengths of answers to prompts about as long, else from all.
func (l *lengths) forecast(prompt, limit scoring.Tokens, quantile float64, first scoring.Tokens) Forecast {
	if shares := &l.shares[sizeOf(limit)]; len(shares.sorted) >= sharesEnough {
		part := float64(limit) / 1000
		return capped(Forecast{
			MeanTokens: scoring.Tokens(shares.mean()*part + 0.5),
			MostTokens: (scoring.Tokens(shares.at(quantile))*limit + 999) / 1000,
			Variance:   shares.variance() * part * part,
		}, limit)
	}
	from := &l.prompt[sizeOf(prompt)]
	if len(from.sorted) < promptsEnough {
		from = &l.all
	}
	if len(from.sorted) == 0 {
		return capped(Forecast{MeanTokens: first, MostTokens: first, Variance: float64(first) * float64(first)}, limit)
	}
	return capped(Forecast{
		MeanTokens: scoring.Tokens(from.mean() + 0.5), MostTokens: scoring.Tokens(from.at(quantile)), Variance: from.variance(),
	}, limit)
}

// capped is a forecast of an answer that may have limit tokens, at least 1. A length between 0 and the limit varies by at most
// half of it to either side.
func capped(f Forecast, limit scoring.Tokens) Forecast {
	half := float64(limit) / 2
	return Forecast{
		MeanTokens: max(1, min(f.MeanTokens, limit)), MostTokens: max(1, min(f.MostTokens, limit)), Variance: min(f.Variance, half*half),
	}
}

// sample keeps the last values twice, in the order they came and sorted, with their sums.
type sample struct {
	keep    int
	ring    []int
	next    int
	sorted  []int
	sum     int
	squares float64
}

func (q *sample) push(v int) {
	if len(q.ring) < q.keep {
		q.ring = append(q.ring, v)
	} else {
		old := q.ring[q.next]
		at, _ := slices.BinarySearch(q.sorted, old)
		q.sorted = slices.Delete(q.sorted, at, at+1)
		q.sum -= old
		q.squares -= float64(old) * float64(old)
		q.ring[q.next] = v
		q.next = (q.next + 1) % q.keep
	}
	at, _ := slices.BinarySearch(q.sorted, v)
	q.sorted = slices.Insert(q.sorted, at, v)
	q.sum += v
	q.squares += float64(v) * float64(v)
}

func (q *sample) mean() float64 { return float64(q.sum) / float64(len(q.sorted)) }

func (q *sample) variance() float64 {
	mean := q.mean()
	return max(0, q.squares/float64(len(q.sorted))-mean*mean)
}

// at returns the smallest value that at least the share p of all does not exceed.
func (q *sample) at(p float64) int {
	n := len(q.sorted)
	i := int(p * float64(n))
	if float64(i) == p*float64(n) && i > 0 {
		i--
	}
	return q.sorted[min(max(0, i), n-1)]
}
