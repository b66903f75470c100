package meter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plimsoll/actors/fault"
)

type routerMetrics struct {
	queuedRequests, queuedTokens *prometheus.GaugeVec
	queueSeconds, decision       *prometheus.HistogramVec
	refusals, reranks, ejections *prometheus.CounterVec
}

func newRouterMetrics(b builder) routerMetrics {
	return routerMetrics{
		queuedRequests: b.gauge(routerQueuedRequests),
		queuedTokens:   b.gauge(routerQueuedTokens),
		queueSeconds:   b.histogram(routerQueueSeconds, secondsBuckets()),
		decision:       b.histogram(routerDecision, decisionBuckets()),
		refusals:       b.counter(routerRefusals),
		reranks:        b.counter(routerReranks),
		ejections:      b.counter(routerEjections),
	}
}

// kindOf is the kind of error that a cause comes with as a rule: those counters are there from the start.
var kindOf = [fault.NumCauses]fault.Kind{
	fault.Malformed: fault.BadInput, fault.TooLarge: fault.ContextLength,
	fault.SLOFirstToken: fault.Contended, fault.SLOPace: fault.Contended, fault.SLOShed: fault.Contended,
	fault.QueueFull: fault.Contended, fault.QueueTimeout: fault.Contended, fault.Unserved: fault.NoReplica,
	fault.Shed: fault.Contended, fault.Broken: fault.EngineFailed, fault.Defect: fault.Internal,
}

// Router is what one model's router reports to.
type Router struct {
	model                        string
	queuedRequests, queuedTokens prometheus.Gauge
	queueSeconds, decision       prometheus.Observer
	refusals, ejections          *prometheus.CounterVec
	reranks                      prometheus.Counter
	replicas                     *replicaSet
}

// Router returns the handle of a model's router.
func (m *Meter) Router(model string) *Router {
	if m == nil {
		return nil
	}
	model = m.models.value(model)
	for cause, kind := range kindOf {
		m.router.refusals.WithLabelValues(model, kind.String(), fault.Cause(cause).String()) //nolint:gosec // an index of causes
	}
	return &Router{
		model:          model,
		queuedRequests: m.router.queuedRequests.WithLabelValues(model),
		queuedTokens:   m.router.queuedTokens.WithLabelValues(model),
		queueSeconds:   m.router.queueSeconds.WithLabelValues(model),
		decision:       m.router.decision.WithLabelValues(model),
		refusals:       m.router.refusals,
		ejections:      m.router.ejections,
		replicas:       &m.replicas,
		reranks:        m.router.reranks.WithLabelValues(model),
	}
}

// Queue reports what waits now.
func (r *Router) Queue(requests, promptTokens int) {
	if r != nil {
		r.queuedRequests.Set(float64(requests))
		r.queuedTokens.Set(float64(promptTokens))
	}
}

// Dispatched reports how long a request had waited; 0 for one that went at once.
func (r *Router) Dispatched(waited time.Duration) {
	if r != nil {
		r.queueSeconds.Observe(waited.Seconds())
	}
}

// Decided reports how long one ranking took.
func (r *Router) Decided(took time.Duration) {
	if r != nil {
		r.decision.Observe(took.Seconds())
	}
}

// Refused counts a request the router answered with an error.
func (r *Router) Refused(kind fault.Kind, cause fault.Cause) {
	if r != nil {
		r.refusals.WithLabelValues(r.model, kind.String(), cause.String()).Inc()
	}
}

// Reranked counts a reservation that a replica refused.
func (r *Router) Reranked() {
	if r != nil {
		r.reranks.Inc()
	}
}

// Ejected counts a replica that is left alone for a while because it has become slow.
func (r *Router) Ejected(replica string) {
	if r != nil {
		r.replicas.reportOf(replica, func(label string) { r.ejections.WithLabelValues(label, r.model).Inc() })
	}
}
