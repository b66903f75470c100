package matrix

import (
	"math"
	"slices"

	"plimsoll/testbench/trial"
)

// judged lists the figures by which one policy is no worse than another.
func judged() []string { return []string{"good", "ttft_p50", "ttft_p99", "tpot_p99"} }

// Word is how one policy compares with another in a figure.
type Word uint8

// Words of a comparison.
const (
	Same   Word = iota // the interval of the differences holds 0
	Better             // it does not, on the better side
	Worse              // on the worse one

	NumWords
)

// Sign is what tables show.
func (w Word) Sign() string {
	switch w {
	case Same:
		return "="
	case Better:
		return "+"
	case Worse:
		return "-"
	case NumWords:
	}
	return "?"
}

// Compare compares figures of two policies, seed by seed, by the interval of their differences. What is infinite is worse than
// what is not; of two that are infinite in parts, it is the one that is so more often.
func Compare(ours, theirs []float64, higher bool) (Word, trial.Interval) {
	endless := 0
	var diffs []float64
	for i := range ours {
		a, b := math.IsInf(ours[i], 0), math.IsInf(theirs[i], 0)
		switch {
		case a && !b:
			endless++
		case b && !a:
			endless--
		case !a:
			diffs = append(diffs, ours[i]-theirs[i])
		}
	}
	switch {
	case endless > 0:
		return Worse, trial.Interval{Mean: math.Inf(1), Low: math.Inf(1), High: math.Inf(1)}
	case endless < 0:
		return Better, trial.Interval{Mean: math.Inf(-1), Low: math.Inf(-1), High: math.Inf(-1)}
	case len(diffs) == 0:
		return Same, trial.Interval{}
	}
	x := trial.Bootstrap(diffs)
	switch {
	case x.Low > 0 && higher, x.High < 0 && !higher:
		return Better, x
	case x.High < 0 && higher, x.Low > 0 && !higher:
		return Worse, x
	}
	return Same, x
}

// results are the lines of one ground.
type results struct {
	ground   Ground
	policies map[string][]*Line // by seed
}

// gather sorts lines by where policies met, in the order of their first lines.
func gather(lines []Line) []*results {
	var out []*results
	at := map[Ground]*results{}
	for i := range lines {
		c := lines[i].Cell
		if c == nil || lines[i].Summary == nil {
			continue
		}
		r := at[c.Ground]
		if r == nil {
			r = &results{ground: c.Ground, policies: map[string][]*Line{}}
			at[c.Ground] = r
			out = append(out, r)
		}
		r.policies[c.Policy] = append(r.policies[c.Policy], &lines[i])
	}
	for _, r := range out {
		for _, list := range r.policies {
			slices.SortFunc(list, func(a, b *Line) int { return int(a.Cell.Seed) - int(b.Cell.Seed) }) //nolint:gosec // small numbers
		}
	}
	return out
}

// values are a policy's figures, one a seed.
func (r *results) values(policy string, m trial.Metric) []float64 {
	out := make([]float64, len(r.policies[policy]))
	for i, l := range r.policies[policy] {
		out[i] = m.Of(l.Summary)
	}
	return out
}

// paired are the figures of two policies on the seeds that both have run.
func (r *results) paired(a, b string, m trial.Metric) (ours, theirs []float64) {
	for _, l := range r.policies[a] {
		for _, o := range r.policies[b] {
			if l.Cell.Seed == o.Cell.Seed {
				ours, theirs = append(ours, m.Of(l.Summary)), append(theirs, m.Of(o.Summary))
			}
		}
	}
	return ours, theirs
}

// What is wanted where a fleet is nearly saturated: so many times the other's good share, or nearly all.
const (
	nearSaturation = 0.95
	aheadTimes     = 1.3
	nearlyAll      = 0.99
)

// ahead says whether policy a's mean good share is as far ahead of b's as is wanted, on the seeds that both have run.
func (r *results) ahead(a, b string) bool {
	good := trial.Metric{Of: func(s *trial.Summary) float64 { return s.Good }}
	ours, theirs := r.paired(a, b, good)
	return trial.Mean(ours) >= min(aheadTimes*trial.Mean(theirs), nearlyAll)
}

// seedsJudged is from how many seeds in common on the interval of their differences means something.
const seedsJudged = 5

// words compare two policies in every judged figure; nil if they have too few seeds in common.
func (r *results) words(a, b string) []Word {
	var out []Word
	for _, m := range trial.Metrics() {
		if !slices.Contains(judged(), m.Name) {
			continue
		}
		ours, theirs := r.paired(a, b, m)
		if len(ours) < seedsJudged {
			return nil
		}
		w, _ := Compare(ours, theirs, m.Higher)
		out = append(out, w)
	}
	return out
}
