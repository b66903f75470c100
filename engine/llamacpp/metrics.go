package llamacpp

import (
	"bytes"
	"context"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"plimsoll/engine"
)

// metrics is what we read of GET /metrics.
type metrics struct {
	load      engine.Load
	startTime string // of the process, on a clock of its own: it only differs between two lives
}

// metrics asks for the load. A route that is off and a main loop that is busy leave it unknown.
func (e *Engine) metrics(ctx context.Context) (metrics, error) {
	soon, cancel := context.WithTimeout(ctx, e.cfg.MetricsTimeout)
	defer cancel()
	header, body, err := e.get(soon, "metrics")
	switch {
	case err == nil:
	case ctx.Err() == nil && soon.Err() != nil, isOff(err):
		return metrics{}, nil
	default:
		return metrics{}, err
	}
	load, err := readLoad(body)
	if err != nil {
		return metrics{}, err
	}
	return metrics{load: load, startTime: header.Get("Process-Start-Time-Unix")}, nil
}

// readLoad reads the Prometheus text format. A metric that is missing stays nil.
func readLoad(text []byte) (engine.Load, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return engine.Load{}, broken("metrics: %w", err)
	}
	load := engine.Load{
		RunningSequences: count[int](families["llamacpp:requests_processing"]),
		WaitingSequences: count[int](families["llamacpp:requests_deferred"]),
		Steps:            count[uint64](families["llamacpp:n_decode_total"]),
	}
	return load, nil
}

// count returns the value of a metric without labels, nil if there is none or it is no count.
func count[N int | uint64](family *dto.MetricFamily) *N {
	for _, m := range family.GetMetric() {
		value := m.GetCounter().GetValue()
		if m.GetGauge() != nil {
			value = m.GetGauge().GetValue()
		}
		const exact = 1 << 53
		if value >= 0 && value < exact {
			n := N(value)
			return &n
		}
	}
	return nil
}
