package trial

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"plimsoll/scoring/cost"
	"plimsoll/testbench/fleet"
	"plimsoll/testbench/report"
)

// Report is what a trial has come to.
type Report struct {
	Traffic    Traffic     `json:"traffic"`
	Fleet      *fleet.Spec `json:"fleet,omitempty"`  // nil: a live endpoint
	Target     string      `json:"target,omitempty"` // its address
	Weights    *Weights    `json:"weights,omitempty"`
	SLO        SLO         `json:"slo"`
	Load       *float64    `json:"load,omitempty"`
	Saturation float64     `json:"saturation_per_second,omitempty"`
	Policies   []string    `json:"policies"`
	Seeds      []uint64    `json:"seeds"`
	Runs       []Run       `json:"runs"`
}

// Weights are how the policies were leaned that weigh anything.
type Weights struct {
	Reuse float64 `json:"reuse"`
	TTFT  float64 `json:"ttft"`
}

// Run is one policy on one seed.
type Run struct {
	Policy    string          `json:"policy"`
	Seed      uint64          `json:"seed"`
	Speed     float64         `json:"speed"`      // times the trace's own pace
	PerSecond float64         `json:"per_second"` // requests that came
	Digest    string          `json:"digest,omitempty"`
	Summary   Summary         `json:"summary"`
	Replicas  []fleet.Figures `json:"replicas,omitempty"`
	LateP99   *Seconds        `json:"late_p99,omitempty"` // of a live endpoint: how late requests were sent

	Result *fleet.Result `json:"-"` // nil: not kept
}

// Metric is a figure of a run that policies are compared by.
type Metric struct {
	Name   string // in JSON and tables
	Head   string // of a column
	Higher bool   // is better
	Of     func(*Summary) float64
	Text   func(float64) string
}

// Metrics lists the figures, the weightiest first.
func Metrics() []Metric {
	seconds := func(v float64) string { return decimals(v, 3) }
	millis := func(v float64) string { return decimals(1000*v, 1) }
	percent := func(v float64) string { return decimals(100*v, 1) }
	count := func(v float64) string { return decimals(v, 1) }
	return []Metric{
		{"good", "good %", true, func(s *Summary) float64 { return s.Good }, percent},
		{"good_rate", "good/s", true, func(s *Summary) float64 { return s.GoodRate }, seconds},
		{"ttft_p50", "TTFT p50 s", false, func(s *Summary) float64 { return float64(s.TTFTP50) }, seconds},
		{"ttft_p90", "p90", false, func(s *Summary) float64 { return float64(s.TTFTP90) }, seconds},
		{"ttft_p99", "p99", false, func(s *Summary) float64 { return float64(s.TTFTP99) }, seconds},
		{"tpot_p50", "TPOT p50 ms", false, func(s *Summary) float64 { return float64(s.TPOTP50) }, millis},
		{"tpot_p99", "p99", false, func(s *Summary) float64 { return float64(s.TPOTP99) }, millis},
		{"wait_p99", "queue p99 s", false, func(s *Summary) float64 { return float64(s.WaitP99) }, seconds},
		{"hit_share", "hits %", true, func(s *Summary) float64 { return s.HitShare }, percent},
		{"busiest_part", "busiest", false, func(s *Summary) float64 { return s.BusiestPart }, func(v float64) string { return decimals(v, 2) }},
		{"refused", "refused", false, func(s *Summary) float64 { return float64(s.Refused + s.Failed) }, count},
		{"preemptions", "preempted", false, func(s *Summary) float64 { return float64(s.Preemptions) }, count},
	}
}

func decimals(v float64, n int) string {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return "inf"
	}
	return strconv.FormatFloat(v, 'f', n, 64)
}

// values are a metric's of a policy, one a seed, in the order of the runs.
func (r *Report) values(policy string, m Metric) []float64 {
	var out []float64
	for i := range r.Runs {
		if r.Runs[i].Policy == policy {
			out = append(out, m.Of(&r.Runs[i].Summary))
		}
	}
	return out
}

// Table lays the policies out, a line each: means over the seeds, with the bounds of their 95 % intervals where there are
// several.
func (r *Report) Table() string {
	metrics := r.metrics()
	rows := make([][]string, 0, 1+len(r.Policies))
	rows = append(rows, heads(metrics))
	for _, p := range r.Policies {
		rows = append(rows, append([]string{p}, r.cells(p, metrics)...))
	}
	return report.Table(rows)
}

// metrics are those that the runs have: of a live endpoint only what clients see.
func (r *Report) metrics() []Metric {
	return slices.DeleteFunc(Metrics(), func(m Metric) bool {
		return r.Target != "" && (m.Name == "wait_p99" || m.Name == "preemptions")
	})
}

// heads are those of a table's columns.
func heads(metrics []Metric) []string {
	out := make([]string, 0, 1+len(metrics))
	out = append(out, "policy")
	for _, m := range metrics {
		out = append(out, m.Head)
	}
	return out
}

// cells are a policy's figures.
func (r *Report) cells(policy string, metrics []Metric) []string {
	out := make([]string, len(metrics))
	for i, m := range metrics {
		out[i] = cell(m, Bootstrap(r.values(policy, m)))
	}
	return out
}

// cell writes a mean and how far off it may be.
func cell(m Metric, i Interval) string {
	text := m.Text(i.Mean)
	if i.Low < i.High {
		text += fmt.Sprintf(" (%s-%s)", m.Text(i.Low), m.Text(i.High))
	}
	return text
}

// Head says in a line what was compared.
func (r *Report) Head() string {
	text := fmt.Sprintf("%s, %d requests", r.Traffic.Trace, r.Traffic.Requests)
	if len(r.Runs) > 0 {
		run := &r.Runs[0]
		text = fmt.Sprintf("%s, %d requests, %.2f a second (%.3g x the trace)", r.Traffic.Trace, run.Summary.Requests, run.PerSecond, run.Speed)
	}
	if r.Fleet != nil {
		text += fmt.Sprintf("; %d x %s", r.Fleet.Replicas, r.Fleet.Profile)
		if r.Fleet.KVTokens != nil {
			text += fmt.Sprintf(" of %d KV tokens", *r.Fleet.KVTokens)
		}
		if r.Fleet.Unequal {
			text += ", every second one at 1/3 of the speed with 1/2 of the cache"
		}
	} else {
		text += "; " + r.Target
		if len(r.Runs) > 0 && r.Runs[0].LateP99 != nil {
			text += fmt.Sprintf(", asked at most %.1f ms late (p99)", 1000*float64(*r.Runs[0].LateP99))
		}
	}
	if r.Weights != nil && *r.Weights != Weights(cost.DefaultWeights()) {
		text += fmt.Sprintf("; weights: reuse %g, TTFT %g", r.Weights.Reuse, r.Weights.TTFT)
	}
	if r.Load != nil {
		text += fmt.Sprintf("; load %g of %.2f a second", *r.Load, r.Saturation)
	}
	return text + fmt.Sprintf("; %d seeds; good: TTFT <= %s + %s a prompt token, TPOT <= %s", len(r.Seeds), r.SLO.TTFT, r.SLO.TTFTPerToken, r.SLO.TPOT)
}
