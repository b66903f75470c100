package meter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plimsoll/actors/fault"
)

// Outcome is how a request ended: exactly one of these.
type Outcome uint8

// The outcomes.
const (
	Finished  Outcome = iota // answered whole
	Refused                  // answered with an error before work on it began
	Failed                   // broke after work had begun
	Cancelled                // its client left

	NumOutcomes
)

// String returns the label used in logs and metrics.
func (o Outcome) String() string {
	switch o {
	case Finished:
		return "finished"
	case Refused:
		return "refused"
	case Failed:
		return "failed"
	case Cancelled:
		return "cancelled"
	case NumOutcomes:
	}
	return "unknown"
}

// Request is a request that has ended.
type Request struct {
	Route      string // one of the ingress's route names
	Model      string // a served model, "" if the request named none
	Outcome    Outcome
	Fault      *fault.Kind // nil if it ended well
	Seconds    float64
	FirstToken *time.Duration // from arrival; nil if there was no token
	// Token counts; zero where no token was given. CachedTokens is nil where the engine did not tell.
	PromptTokens     int
	CachedTokens     *int
	CompletionTokens int
}

type ingressMetrics struct {
	requests, faults           *prometheus.CounterVec
	open, bodyBytes            prometheus.Gauge
	stalls                     prometheus.Counter
	seconds, first, token      *prometheus.HistogramVec
	prompt, cached, completion *prometheus.CounterVec
}

func newIngressMetrics(b builder) ingressMetrics {
	return ingressMetrics{
		requests:   b.counter(ingressRequests),
		faults:     b.counter(ingressFaults),
		open:       b.gauge(ingressOpen).WithLabelValues(),
		bodyBytes:  b.gauge(ingressBodyBytes).WithLabelValues(),
		stalls:     b.counter(ingressStalls).WithLabelValues(),
		seconds:    b.histogram(ingressSeconds, secondsBuckets()),
		first:      b.histogram(ingressFirstToken, secondsBuckets()),
		token:      b.histogram(ingressTokenSeconds, secondsBuckets()),
		prompt:     b.counter(ingressPrompt),
		cached:     b.counter(ingressCached),
		completion: b.counter(ingressCompletion),
	}
}

// Ingress is what the HTTP edge reports to.
type Ingress struct{ m *Meter }

// Ingress returns the edge's handle.
func (m *Meter) Ingress() *Ingress {
	if m == nil {
		return nil
	}
	return &Ingress{m}
}

// Opened counts a request in that is work, as against a probe; Closed counts it out.
func (i *Ingress) Opened() {
	if i != nil {
		i.m.ingress.open.Inc()
	}
}

// Closed counts a request out that Opened counted in.
func (i *Ingress) Closed() {
	if i != nil {
		i.m.ingress.open.Dec()
	}
}

// Ended counts a request that has ended, of whatever kind.
func (i *Ingress) Ended(r Request) {
	if i == nil {
		return
	}
	s := &i.m.ingress
	model := "none"
	if r.Model != "" {
		model = i.m.models.value(r.Model)
	}
	s.requests.WithLabelValues(r.Route, model, r.Outcome.String()).Inc()
	s.seconds.WithLabelValues(r.Route, model).Observe(r.Seconds)
	if r.Fault != nil {
		s.faults.WithLabelValues(r.Route, r.Fault.String()).Inc()
	}
	if r.FirstToken == nil {
		return
	}
	first := r.FirstToken.Seconds()
	s.first.WithLabelValues(model).Observe(first)
	if r.CompletionTokens > 1 {
		s.token.WithLabelValues(model).Observe((r.Seconds - first) / float64(r.CompletionTokens-1))
	}
	s.prompt.WithLabelValues(model).Add(float64(r.PromptTokens))
	s.completion.WithLabelValues(model).Add(float64(r.CompletionTokens))
	if r.CachedTokens != nil {
		s.cached.WithLabelValues(model).Add(float64(*r.CachedTokens))
	}
}

// Stalled counts a client that took nothing for too long.
func (i *Ingress) Stalled() {
	if i != nil {
		i.m.ingress.stalls.Inc()
	}
}

// BodyBytes reports the bytes of request bodies held in memory.
func (i *Ingress) BodyBytes(n int64) {
	if i != nil {
		i.m.ingress.bodyBytes.Set(float64(n))
	}
}

// Panicked counts a panic in a handler.
func (i *Ingress) Panicked() {
	if i != nil {
		i.m.Panicked("ingress")
	}
}
