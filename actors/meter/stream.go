package meter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type streamMetrics struct {
	breaks, carried, hedges *prometheus.CounterVec
	gap                     *prometheus.HistogramVec
}

func newStreamMetrics(b builder) streamMetrics {
	return streamMetrics{
		breaks: b.counter(streamBreaks), carried: b.counter(streamCarried), gap: b.histogram(streamGap, secondsBuckets()),
		hedges: b.counter(streamHedges),
	}
}

// Stream is what one model's requests report to.
type Stream struct {
	model   string
	breaks  *prometheus.CounterVec
	hedges  *prometheus.CounterVec
	carried prometheus.Counter
	gap     prometheus.Observer
}

// StreamLabels are the words that Broken and Hedged are called with.
type StreamLabels struct{ Classes, Outcomes, Hedges []string }

// Stream returns the handle of a model's requests.
func (m *Meter) Stream(model string, words StreamLabels) *Stream {
	if m == nil {
		return nil
	}
	model = m.models.value(model)
	for _, class := range words.Classes {
		for _, outcome := range words.Outcomes {
			m.stream.breaks.WithLabelValues(model, class, outcome)
		}
	}
	for _, event := range words.Hedges {
		m.stream.hedges.WithLabelValues(model, event)
	}
	return &Stream{
		model: model, breaks: m.stream.breaks, hedges: m.stream.hedges,
		carried: m.stream.carried.WithLabelValues(model), gap: m.stream.gap.WithLabelValues(model),
	}
}

// Broken counts an answer whose engine failed after its first token: the class of its continuation, what became of it, how
// many of its tokens another replica went on from, and how long no token came; the gap is nil if none came after it.
func (s *Stream) Broken(class, outcome string, carried int, gap *time.Duration) {
	if s == nil {
		return
	}
	s.breaks.WithLabelValues(s.model, class, outcome).Inc()
	s.carried.Add(float64(carried))
	if gap != nil {
		s.gap.Observe(gap.Seconds())
	}
}

// Hedged counts an event of a second attempt beside one that is slow with its first token: begun, won, lost or failed; refused
// or withdrawn where none was begun.
func (s *Stream) Hedged(event string) {
	if s != nil {
		s.hedges.WithLabelValues(s.model, event).Inc()
	}
}
