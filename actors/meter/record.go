package meter

import "github.com/prometheus/client_golang/prometheus"

type recordMetrics struct{ requests *prometheus.CounterVec }

func newRecordMetrics(b builder) recordMetrics { return recordMetrics{b.counter(recordRequests)} }

// Record is what the recorder of a node's traffic reports to.
type Record struct{ written, dropped prometheus.Counter }

// Record returns the handle of the recorder.
func (m *Meter) Record() *Record {
	if m == nil {
		return nil
	}
	return &Record{m.record.requests.WithLabelValues("written"), m.record.requests.WithLabelValues("dropped")}
}

// Written counts requests that stand in the trace.
func (r *Record) Written(n int) {
	if r != nil {
		r.written.Add(float64(n))
	}
}

// Dropped counts requests that do not: the recorder was behind, they ran on for too long, or their prompt never became known.
func (r *Record) Dropped(n int) {
	if r != nil {
		r.dropped.Add(float64(n))
	}
}
