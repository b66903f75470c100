package cost

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// speed fits the time of passes that computed prompts on what was predicted for these: measured = pass + factor * predicted, over the
// last passes, each weighing the less the longer it was to take. A pass takes its time however short its prompts are, and those that
// are computed together share it; a fit without it makes of the first tokens of short prompts that a replica is slow, and of many
// prompts at once that they follow each other. Passes that took more than speedMost times the median are left out, so that a
// replica that stood still for a moment is not taken for a slow one.
type speed struct {
	last  []prefill // a ring, as far as speedKept
	next  int
	order []prefill // scratch
	// Over all of last but those that took too long: sums of 1, predicted and its square, of measured, and of both.
	n, p, pp, m, pm float64
	longest         float64 // prefill that is kept, as it was to take
}

// prefill is how long the prompts of a pass took and were to take, in seconds, and what that weighs.
type prefill struct{ measured, predicted, weight float64 }

const (
	speedKept = 64
	speedMost = 2
	// together is the part of its predicted time below which a prefill ended with the one before it.
	together = 0.02
	// passLength is, in seconds that the prior predicts, the length of a prompt from which on its own work says more than its pass.
	passLength = 0.010
	// passPull is how many short passes the prior of their time weighs, passPullFleet that of the fleet's.
	passPull, passPullFleet = 8, 1
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
	s.n, s.p, s.pp, s.m, s.pm, s.longest = 0, 0, 0, 0, 0, 0
	for _, p := range s.last {
		s.longest = max(s.longest, p.predicted)
		if p.measured <= most*p.length() {
			w := p.weight / p.length()
			s.n += w
			s.p += w * p.predicted
			s.pp += w * p.predicted * p.predicted
			s.m += w * p.measured
			s.pm += w * p.predicted * p.measured
		}
	}
}

// length is what the time of a pass is held against: its prompts, and itself.
func (p prefill) length() float64 { return p.predicted + passLength }

// median is the ratio that half of the predicted time does not exceed.
func (s *speed) median() float64 {
	s.order = append(s.order[:0], s.last...)
	slices.SortFunc(s.order, func(a, b prefill) int { return cmp.Compare(a.measured*b.length(), b.measured*a.length()) })
	total := 0.0
	for _, p := range s.order {
		total += p.weight * p.predicted
	}
	half := total / 2
	for _, p := range s.order {
		if half -= p.weight * p.predicted; half <= 0 {
			return p.measured / p.length()
		}
	}
	return 1
}

// fit is how long a pass takes and how many times as long as predicted its prompts take beside, pulled to the prior as if passes with
// no prompt and weight seconds of prompts had been seen at it, as these count here.
func (s *speed) fit(prior pace, passes, weight float64) pace {
	if s.n+weight == 0 {
		return prior
	}
	const least = 1e-6 // a replica that seems to need no time still orders its prompts by length
	n, m := s.n+passes, s.m+passes*prior.pass
	pp, pm := s.pp+weight, s.pm+weight*prior.factor
	if det := n*pp - s.p*s.p; det > 0 {
		if pass := (m*pp - s.p*pm) / det; pass > 0 {
			return pace{pass: pass, factor: max(least, (pm-pass*s.p)/pp)}
		}
	}
	return pace{factor: max(least, pm/pp)}
}

// pace is how long a pass takes that computes prompts, beside a decode step, and how many times as long as predicted they take.
type pace struct{ pass, factor float64 }

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
