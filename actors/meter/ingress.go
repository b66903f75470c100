package meter

import (
	"slices"
	"strconv"
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
	Tenant     string // "" if the request is no chat or completion
	Class      string // "" likewise
	Status     int    // HTTP status; 499: the client left before there was one
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
	responses                  *prometheus.CounterVec
	tenants, tenantTokens      *prometheus.CounterVec
	open, bodyBytes            prometheus.Gauge
	stalls                     prometheus.Counter
	seconds, first, token      *prometheus.HistogramVec
	prompt, cached, completion *prometheus.CounterVec
}

func newIngressMetrics(b builder) ingressMetrics {
	return ingressMetrics{
		requests:  b.counter(ingressRequests),
		faults:    b.counter(ingressFaults),
		responses: b.counter(ingressResponses),
		tenants:   b.counter(ingressTenants), tenantTokens: b.counter(ingressTenantTokens),
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

// noModel is the label of a request that names no model.
const noModel = "none"

// Values of the label kind of a tenant's tokens.
const (
	kindPrompt     = "prompt"
	kindCompletion = "completion"
)

// Expected is what the edge can report: its counters are there, at zero, before anything is counted.
type Expected struct {
	Routes   []string // those that are counted
	Work     []string // those of Routes that are asked of a model
	Models   []string
	Tenants  []string
	Classes  []string
	Statuses []int
}

// Expect has all counters exist of which something can be counted.
func (i *Ingress) Expect(e Expected) {
	if i == nil {
		return
	}
	s := &i.m.ingress
	for _, route := range e.Routes {
		for _, status := range e.Statuses {
			s.responses.WithLabelValues(route, strconv.Itoa(status))
		}
		for kind := range fault.NumKinds {
			s.faults.WithLabelValues(route, kind.String())
		}
		models := []string{noModel}
		if slices.Contains(e.Work, route) {
			models = append(models, e.Models...)
		}
		for _, model := range models {
			if model != noModel {
				model = i.m.models.value(model)
			}
			for o := range NumOutcomes {
				s.requests.WithLabelValues(route, model, o.String())
			}
		}
	}
	for _, model := range e.Models {
		label := i.m.models.value(model)
		s.prompt.WithLabelValues(label)
		s.cached.WithLabelValues(label)
		s.completion.WithLabelValues(label)
	}
	for _, tenant := range e.Tenants {
		label := i.m.tenants.value(tenant)
		s.tenantTokens.WithLabelValues(label, kindPrompt)
		s.tenantTokens.WithLabelValues(label, kindCompletion)
		for _, class := range e.Classes {
			for o := range NumOutcomes {
				s.tenants.WithLabelValues(label, class, o.String())
			}
		}
	}
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
	model := noModel
	if r.Model != "" {
		model = i.m.models.value(r.Model)
	}
	s.requests.WithLabelValues(r.Route, model, r.Outcome.String()).Inc()
	s.responses.WithLabelValues(r.Route, strconv.Itoa(r.Status)).Inc()
	tenant := i.m.tenants.value(r.Tenant)
	if r.Class != "" {
		s.tenants.WithLabelValues(tenant, r.Class, r.Outcome.String()).Inc()
	}
	s.seconds.WithLabelValues(r.Route, model).Observe(r.Seconds)
	if r.Fault != nil {
		s.faults.WithLabelValues(r.Route, r.Fault.String()).Inc()
	}
	if r.FirstToken == nil {
		return
	}
	first := r.FirstToken.Seconds()
	s.first.WithLabelValues(model, r.Class).Observe(first)
	s.tenantTokens.WithLabelValues(tenant, kindPrompt).Add(float64(r.PromptTokens))
	s.tenantTokens.WithLabelValues(tenant, kindCompletion).Add(float64(r.CompletionTokens))
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
