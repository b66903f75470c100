package meter

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// Config says what is metered.
type Config struct {
	Version string // of the program, for plimsoll_build_info
	// LabelValuesMax is how many models, and how many replicas at a time, are told apart; those that come later share the
	// value "other". At least 1.
	LabelValuesMax int
	Runtime        bool // also the Go runtime's and the process's own metrics (go_..., process_...)
}

// DefaultConfig returns what the program uses.
func DefaultConfig() Config { return Config{Version: "unknown", LabelValuesMax: 512, Runtime: true} }

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	if c.LabelValuesMax < 1 {
		return fmt.Errorf("meter: LabelValuesMax is %d, it must be at least 1", c.LabelValuesMax)
	}
	if c.Version == "" {
		return errors.New("meter: Version is empty")
	}
	return nil
}

// Meter holds all metrics of one node.
type Meter struct {
	registry *prometheus.Registry
	models   closedSet
	tenants  closedSet
	served   atomic.Pointer[func() []string] // what [Meter.Serves] was given
	replicas replicaSet
	shown    shownNames

	panics *prometheus.CounterVec

	ingress   ingressMetrics
	router    routerMetrics
	stream    streamMetrics
	replica   replicaMetrics
	tokenizer tokenizerMetrics
	feed      feedMetrics
	record    recordMetrics
	decision  decisionMetrics
	log       logMetrics
}

// New returns a meter with a registry of its own.
func New(cfg Config) (*Meter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := &Meter{
		registry: prometheus.NewRegistry(),
		models:   closedSet{max: cfg.LabelValuesMax},
		tenants:  closedSet{max: cfg.LabelValuesMax},
		replicas: replicaSet{max: cfg.LabelValuesMax, open: map[string]*Registered{}},
	}
	b := builder{m.registry, &m.replicas, &m.models}
	b.gauge(buildInfo).WithLabelValues(cfg.Version).Set(1)
	m.panics = b.counter(actorPanics)
	for _, kind := range []string{"node", "router", "worker", "replica", "connection", "feed", "request", "ingress"} {
		m.panics.WithLabelValues(kind)
	}
	m.ingress = newIngressMetrics(b)
	m.router = newRouterMetrics(b)
	m.stream = newStreamMetrics(b)
	m.replica = newReplicaMetrics(b)
	m.tokenizer = newTokenizerMetrics(b)
	m.feed = newFeedMetrics(b)
	m.record = newRecordMetrics(b)
	m.decision = newDecisionMetrics(b)
	m.log = newLogMetrics(b)
	if cfg.Runtime {
		m.registry.MustRegister(
			collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	return m, nil
}

// Handler serves the metrics in the Prometheus text formats. A nil meter serves none.
func (m *Meter) Handler() http.Handler {
	if m == nil {
		return http.NotFoundHandler()
	}
	return promhttp.HandlerFor(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		if names := m.served.Load(); names != nil {
			m.models.keep((*names)())
		}
		families, err := m.registry.Gather()
		m.shown.apply(families)
		return families, err
	}), promhttp.HandlerOpts{})
}

// Serves tells by what names models and LoRA adapters are served now. The series of a name that is none any more, as of an
// adapter that no engine has, go with the next scrape.
func (m *Meter) Serves(names func() []string) {
	if m != nil {
		m.served.Store(&names)
	}
}

// Panicked counts a panic that was survived; actor is the kind of actor or goroutine, a constant of the caller's.
func (m *Meter) Panicked(actor string) {
	if m != nil {
		m.panics.WithLabelValues(actor).Inc()
	}
}

// builder registers what is declared.
type builder struct {
	registry *prometheus.Registry
	replicas *replicaSet // is told of what has a replica's label
	models   *closedSet  // likewise, a model's
}

func add[V interface {
	prometheus.Collector
	DeletePartialMatch(labels prometheus.Labels) int
}](b builder, d metric, v V) V {
	b.registry.MustRegister(v)
	if slices.Contains(d.labels, labelReplica) {
		b.replicas.series = append(b.replicas.series, v)
	} else if slices.Contains(d.labels, labelModel) {
		b.models.series = append(b.models.series, v)
	}
	return v
}

func (b builder) counter(d metric) *prometheus.CounterVec {
	return add(b, d, prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.name, Help: d.help}, d.labels))
}

func (b builder) gauge(d metric) *prometheus.GaugeVec {
	return add(b, d, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.name, Help: d.help}, d.labels))
}

func (b builder) histogram(d metric, buckets []float64) *prometheus.HistogramVec {
	return add(b, d, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.name, Help: d.help, Buckets: buckets}, d.labels))
}

// secondsBuckets spans quick answers to long generations, decisionBuckets what takes microseconds.
func secondsBuckets() []float64 {
	return []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
}

func decisionBuckets() []float64 { return prometheus.ExponentialBuckets(1e-6, 4, 12) }

// closedSet keeps the number of distinct label values bounded.
type closedSet struct {
	max int

	series []interface { // all metrics with the label, but those of replicas
		DeletePartialMatch(labels prometheus.Labels) int
	}

	mu   sync.Mutex
	seen map[string]struct{}
}

// keep forgets all names but these, with their series. What is reported of another one afterwards makes a new series, until
// the next time.
func (s *closedSet) keep(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.seen {
		if slices.Contains(names, name) {
			continue
		}
		delete(s.seen, name)
		for _, v := range s.series {
			v.DeletePartialMatch(prometheus.Labels{labelModel: name})
		}
	}
}

// value returns name, or other once too many are known.
func (s *closedSet) value(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.seen[name]; ok {
		return name
	}
	if len(s.seen) >= s.max {
		return other
	}
	if s.seen == nil {
		s.seen = map[string]struct{}{}
	}
	s.seen[name] = struct{}{}
	return name
}
