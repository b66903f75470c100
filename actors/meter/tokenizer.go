package meter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plimsoll/actors/fault"
)

type tokenizerMetrics struct {
	seconds, wait    *prometheus.HistogramVec
	tokens, refusals *prometheus.CounterVec
	passed           *prometheus.CounterVec
	queued, bytes    *prometheus.GaugeVec
}

func newTokenizerMetrics(b builder) tokenizerMetrics {
	return tokenizerMetrics{
		seconds:  b.histogram(tokenizerSeconds, prometheus.ExponentialBuckets(1e-5, 4, 10)),
		wait:     b.histogram(tokenizerWait, prometheus.ExponentialBuckets(1e-5, 4, 12)),
		tokens:   b.counter(tokenizerTokens),
		refusals: b.counter(tokenizerRefusals),
		passed:   b.counter(tokenizerPassed),
		queued:   b.gauge(tokenizerQueued),
		bytes:    b.gauge(tokenizerBytes),
	}
}

// Tokenizer is what one model's tokenizer workers report to.
type Tokenizer struct {
	model         string
	seconds       prometheus.Observer
	short, long   prometheus.Observer // waits
	tokens        prometheus.Counter
	refusals      *prometheus.CounterVec
	passed        *prometheus.CounterVec
	queued, bytes prometheus.Gauge
}

// Tokenizer returns the handle of a model's tokenizer workers.
func (m *Meter) Tokenizer(model string) *Tokenizer {
	if m == nil {
		return nil
	}
	model = m.models.value(model)
	return &Tokenizer{
		model:    model,
		seconds:  m.tokenizer.seconds.WithLabelValues(model),
		short:    m.tokenizer.wait.WithLabelValues(model, "short"),
		long:     m.tokenizer.wait.WithLabelValues(model, "long"),
		tokens:   m.tokenizer.tokens.WithLabelValues(model),
		refusals: m.tokenizer.refusals,
		passed:   m.tokenizer.passed,
		queued:   m.tokenizer.queued.WithLabelValues(model),
		bytes:    m.tokenizer.bytes.WithLabelValues(model),
	}
}

// Encoded reports a request that became tokens, and how long a worker took.
func (t *Tokenizer) Encoded(took time.Duration, tokens int) {
	if t != nil {
		t.seconds.Observe(took.Seconds())
		t.tokens.Add(float64(tokens))
	}
}

// Waited reports how long a request waited for workers, whatever became of it.
func (t *Tokenizer) Waited(short bool, d time.Duration) {
	switch {
	case t == nil:
	case short:
		t.short.Observe(d.Seconds())
	default:
		t.long.Observe(d.Seconds())
	}
}

// PassedOn counts a chat that goes to the engine as it came; reason is a constant of the caller's.
func (t *Tokenizer) PassedOn(reason string) {
	if t != nil {
		t.passed.WithLabelValues(t.model, reason).Inc()
	}
}

// Refused counts a request that could not be turned into tokens.
func (t *Tokenizer) Refused(kind fault.Kind) {
	if t != nil {
		t.refusals.WithLabelValues(t.model, kind.String()).Inc()
	}
}

// Queue reports what is there now: requests that wait or run, and the bytes of those that have not begun.
func (t *Tokenizer) Queue(requests, bytes int) {
	if t != nil {
		t.queued.Set(float64(requests))
		t.bytes.Set(float64(bytes))
	}
}
