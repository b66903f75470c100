package llamacpp

import (
	"bytes"
	"context"

	dto "github.com/prometheus/client_model/go" //nolint:depguard // reads what an engine exposes; nothing is reported here
	"github.com/prometheus/common/expfmt"       //nolint:depguard // reads what an engine exposes; nothing is reported here
	"github.com/prometheus/common/model"        //nolint:depguard // reads what an engine exposes; nothing is reported here

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
	return engine.Load{
		RunningSequences: value[int](families["llamacpp:requests_processing"]),
		WaitingSequences: value[int](families["llamacpp:requests_deferred"]),
		Steps:            value[uint64](families["llamacpp:n_decode_total"]),
	}, nil
}

// value returns the count that a metric without labels has, nil if there is none.
func value[N int | uint64](family *dto.MetricFamily) *N {
	if len(family.GetMetric()) != 1 {
		return nil
	}
	var number *float64
	switch m := family.GetMetric()[0]; {
	case m.GetGauge() != nil:
		number = m.GetGauge().Value
	case m.GetCounter() != nil:
		number = m.GetCounter().Value
	case m.GetUntyped() != nil:
		number = m.GetUntyped().Value
	}
	const exact = 1 << 53
	if number == nil || !(*number >= 0 && *number < exact) { // NaN too
		return nil
	}
	n := N(*number)
	return &n
}
