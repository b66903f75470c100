package meter

import (
	"github.com/prometheus/client_golang/prometheus"

	"plimsoll/scoring/prefix"
)

type feedMetrics struct {
	events                    *prometheus.CounterVec
	gaps, predicted, reported *prometheus.CounterVec
	blocks, orphans           *prometheus.GaugeVec
}

func newFeedMetrics(b builder) feedMetrics {
	return feedMetrics{
		events:    b.counter(feedEvents),
		gaps:      b.counter(feedGaps),
		predicted: b.counter(feedPredicted),
		reported:  b.counter(feedReported),
		blocks:    b.gauge(feedBlocks),
		orphans:   b.gauge(feedOrphans),
	}
}

// Feed is what one replica's KV feed reports to.
type Feed struct {
	events              [prefix.NumEventKinds]prometheus.Counter
	gaps                prometheus.Counter
	predicted, reported prometheus.Counter
	blocks, orphans     prometheus.Gauge
}

// Feed returns the handle of a replica's KV feed.
func (m *Meter) Feed(replica string) *Feed {
	if m == nil {
		return nil
	}
	replica = m.replicas.value(replica)
	f := &Feed{
		gaps:      m.feed.gaps.WithLabelValues(replica),
		predicted: m.feed.predicted.WithLabelValues(replica),
		reported:  m.feed.reported.WithLabelValues(replica),
		blocks:    m.feed.blocks.WithLabelValues(replica),
		orphans:   m.feed.orphans.WithLabelValues(replica),
	}
	for kind := range prefix.NumEventKinds {
		f.events[kind] = m.feed.events.WithLabelValues(replica, eventLabel(kind))
	}
	return f
}

func eventLabel(kind prefix.EventKind) string {
	switch kind {
	case prefix.Stored:
		return "stored"
	case prefix.Removed:
		return "removed"
	case prefix.Cleared:
		return "cleared"
	case prefix.NumEventKinds:
	}
	return "unknown"
}

// Events counts the events of a batch.
func (f *Feed) Events(events []prefix.Event) {
	if f == nil {
		return
	}
	for _, e := range events {
		if e.Kind < prefix.NumEventKinds {
			f.events[e.Kind].Inc()
		}
	}
}

// Gap counts a hole in the sequence of batches.
func (f *Feed) Gap() {
	if f != nil {
		f.gaps.Inc()
	}
}

// Index reports what the index holds of the replica.
func (f *Feed) Index(s prefix.Stats) {
	if f != nil {
		f.blocks.Set(float64(s.Blocks))
		f.orphans.Set(float64(s.Orphans))
	}
}

// Cached reports the cached prompt tokens that were predicted for a request and what its engine said.
func (f *Feed) Cached(predicted, reported int) {
	if f != nil {
		f.predicted.Add(float64(predicted))
		f.reported.Add(float64(reported))
	}
}
