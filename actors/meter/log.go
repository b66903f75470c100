package meter

import (
	"github.com/prometheus/client_golang/prometheus"

	"plimsoll/actors/logbook"
)

type logMetrics struct {
	dropped [logbook.NumCauses]prometheus.Counter
}

func newLogMetrics(b builder) logMetrics {
	var m logMetrics
	dropped := b.counter(logDropped)
	for cause := range logbook.NumCauses {
		m.dropped[cause] = dropped.WithLabelValues(cause.String())
	}
	return m
}

// LineDropped counts lines of the log that nobody can read.
func (m *Meter) LineDropped(cause logbook.Cause, lines int) {
	if m != nil && cause < logbook.NumCauses {
		m.log.dropped[cause].Add(float64(lines))
	}
}
