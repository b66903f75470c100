package actors

import (
	"plimsoll/actors/meter"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
)

// modelMeters are a model's handles to the metrics.
type modelMeters struct {
	router    *meter.Router
	stream    *meter.Stream
	tokenizer *meter.Tokenizer
}

func newModelMeters(m *meter.Meter, name string) modelMeters {
	return modelMeters{router: m.Router(name), stream: m.Stream(name), tokenizer: m.Tokenizer(name)}
}

// ended compares what the index predicted with what the engine found cached. Several legs at once warm each other's cache
// and tell nothing, and of a prompt that the engine rendered the index knows nothing.
func (m *model) ended(s stream.Summary) {
	if len(s.Replicas) != 1 || !s.Usage.CachedKnown || s.Attempts != 1 || s.Raw {
		return
	}
	if served, ok := m.fleet.find(scoring.ReplicaID(s.Replicas[0])); ok {
		served.feed.Cached(s.PredictedTokens, s.Usage.CachedTokens)
	}
}
