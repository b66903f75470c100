package meter

import "github.com/prometheus/client_golang/prometheus"

type decisionMetrics struct {
	seconds, tokens  *prometheus.HistogramVec
	dropped, shadows *prometheus.CounterVec
}

func newDecisionMetrics(b builder) decisionMetrics {
	return decisionMetrics{
		seconds: b.histogram(decisionSecondsError, bothSides([]float64{0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10})),
		tokens:  b.histogram(decisionTokensError, bothSides([]float64{1, 16, 64, 256, 1024, 4096, 16384})),
		dropped: b.counter(decisionDropped), shadows: b.counter(shadowDecisions),
	}
}

// bothSides are the bounds of a histogram of differences: those of sizes, which ascend, below zero and above it.
func bothSides(sizes []float64) []float64 {
	out := make([]float64, 0, 2*len(sizes)+1)
	for i := len(sizes) - 1; i >= 0; i-- {
		out = append(out, -sizes[i])
	}
	return append(append(out, 0), sizes...)
}

// Decisions is what the watch over one model's decisions reports to.
type Decisions struct {
	m     *Meter
	model string
}

// Decisions returns the handle of a model's decisions.
func (m *Meter) Decisions(model string) *Decisions {
	if m == nil {
		return nil
	}
	return &Decisions{m: m, model: m.models.value(model)}
}

// SecondsError reports by how much longer something took on a replica than was predicted; below 0: shorter. term is a
// constant of the caller's.
func (d *Decisions) SecondsError(replica, term string, seconds float64) {
	if d != nil {
		d.m.replicas.reportOf(replica, func(label string) {
			d.m.decision.seconds.WithLabelValues(label, term).Observe(seconds)
		})
	}
}

// TokensError is SecondsError for a number of tokens.
func (d *Decisions) TokensError(replica, term string, tokens int) {
	if d != nil {
		d.m.replicas.reportOf(replica, func(label string) {
			d.m.decision.tokens.WithLabelValues(label, term).Observe(float64(tokens))
		})
	}
}

// Dropped counts what a router told and nobody had time to take in.
func (d *Decisions) Dropped(notes int) {
	if d != nil {
		d.m.decision.dropped.WithLabelValues(d.model).Add(float64(notes))
	}
}

// Shadow counts what a policy that is tried beside the acting one would have done. policy is one of the configured ones.
func (d *Decisions) Shadow(policy, outcome string, decisions int) {
	if d != nil {
		d.m.decision.shadows.WithLabelValues(d.model, policy, outcome).Add(float64(decisions))
	}
}
