package llamacpp

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/wire"
)

// metrics is what we read of GET /metrics.
type metrics struct {
	load      engine.Load
	startTime string // of the process, on a clock of its own: it only differs between two lives
}

// metrics asks for the load. A route that is off, a main loop that is busy, and an answer that cannot be read leave it unknown:
// metrics are for watching, what the server can hold stands in its properties.
func (e *Engine) metrics(ctx context.Context) (metrics, error) {
	patience := e.cfg.MetricsTimeout
	if until, bounded := ctx.Deadline(); bounded { // a probe that ran out of time would take a busy server for a dead one
		patience = min(patience, time.Until(until)/2)
	}
	soon, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	header, body, err := e.client.Get(soon, "metrics")
	switch {
	case err == nil:
	case ctx.Err() == nil && soon.Err() != nil, isOff(err):
		return metrics{}, nil
	case isBroken(err):
		e.unread(err)
		return metrics{}, nil
	default:
		return metrics{}, err
	}
	load, err := readLoad(body)
	if err != nil {
		e.unread(err)
	} else {
		e.blind.Store(false)
	}
	return metrics{load: load, startTime: header.Get("Process-Start-Time-Unix")}, nil
}

// unread says once that the metrics are of no use, until they are again.
func (e *Engine) unread(reason error) {
	if !e.blind.Swap(true) {
		e.log.Warn("the engine's metrics cannot be read, its load is not known",
			slog.String("url", e.cfg.URL), slog.Any("reason", reason))
	}
}

// isBroken tells an answer that is none from errors of the connection, and from those of a server that loads or wants a key.
func isBroken(err error) bool {
	var f *engine.Failure
	return errors.As(err, &f) && f.Kind == engine.Broken
}

// readLoad reads the Prometheus text format. A metric that is missing stays nil.
func readLoad(text []byte) (engine.Load, error) {
	m, err := wire.ParseMetrics(text)
	if err != nil {
		return engine.Load{}, err
	}
	return engine.Load{
		RunningSequences: wire.Count[int](m.Series("llamacpp:requests_processing")),
		WaitingSequences: wire.Count[int](m.Series("llamacpp:requests_deferred")),
		Steps:            wire.Count[uint64](m.Series("llamacpp:n_decode_total")),
	}, nil
}
