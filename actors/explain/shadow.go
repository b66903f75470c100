package explain

import (
	"math/rand/v2"

	"plimsoll/scoring/policy"
)

// Outcome is how a shadow's decision stands to the one that was acted on.
type Outcome uint8

// Outcomes.
const (
	Agree      Outcome = iota // the same: to the same replica, to wait, or to refuse
	Differ                    // both dispatch it, to different replicas
	Dispatches                // the shadow alone would dispatch it now
	Holds                     // the shadow alone would let it wait
	Refuses                   // the shadow alone would refuse it
	Dropped                   // it was not asked: it was behind

	NumOutcomes
)

// String is the word used in records and metrics.
func (o Outcome) String() string {
	switch o {
	case Agree:
		return "agree"
	case Differ:
		return "differ"
	case Dispatches:
		return "dispatch"
	case Holds:
		return "hold"
	case Refuses:
		return "refuse"
	case Dropped:
		return "dropped"
	case NumOutcomes:
	}
	return "unknown"
}

// judged compares two decisions on the same fleet.
func judged(acting, would policy.Decision) Outcome {
	switch {
	case acting.Verdict != would.Verdict:
		return [policy.NumVerdicts]Outcome{policy.Dispatch: Dispatches, policy.Hold: Holds, policy.Refuse: Refuses}[would.Verdict]
	case acting.Verdict == policy.Dispatch && acting.Index != would.Index:
		return Differ
	}
	return Agree
}

// shadow is a policy that is tried on what happens. It hears of what the acting policy dispatches as if it had done so itself.
type shadow struct {
	cfg    policy.Config
	rng    *rand.Rand
	policy policy.Policy
}

// renew makes it forget all.
func (s *shadow) renew() error {
	p, err := policy.New(s.cfg, s.rng)
	if err != nil {
		return err
	}
	s.policy = p
	return nil
}

func (s *shadow) judge(d *policy.Demand, fits []policy.Fit, acting policy.Decision) (policy.Decision, Outcome) {
	would := s.policy.Decide(d, fits)
	return would, judged(acting, would)
}

// said is what goes into a record.
func (s *shadow) said(after float64, would policy.Decision, outcome Outcome, t *policy.Table) Shadow {
	out := Shadow{Policy: s.cfg.Name, AfterSeconds: after, Outcome: outcome.String(), Verdict: would.Verdict.String()}
	if would.Cause != policy.NoCause {
		out.Cause = would.Cause.String()
	}
	if i, ok := would.Aim(); ok {
		row := &t.Rows[i]
		first := finite(row.FirstTokenSeconds())
		out.Replica, out.FirstTokenSeconds = string(row.ID), &first
	}
	return out
}
