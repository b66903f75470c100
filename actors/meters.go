package actors

import (
	"plimsoll/actors/meter"
	"plimsoll/actors/stream"
)

// modelMeters are a model's handles to the metrics.
type modelMeters struct {
	router    *meter.Router
	tokenizer *meter.Tokenizer
	feeds     map[string]*meter.Feed
}

func newModelMeters(m *meter.Meter, parts Model) modelMeters {
	mm := modelMeters{
		router: m.Router(parts.Router.Model), tokenizer: m.Tokenizer(parts.Router.Model), feeds: map[string]*meter.Feed{},
	}
	for _, r := range parts.Replicas {
		mm.feeds[string(r.Config.ID)] = m.Feed(string(r.Config.ID))
	}
	return mm
}

// ended compares what the index predicted with what the engine found cached. Several legs at once warm each other's cache
// and tell nothing.
func (m modelMeters) ended(s stream.Summary) {
	if len(s.Replicas) == 1 && s.Usage.CachedKnown && s.Attempts == 1 {
		m.feeds[s.Replicas[0]].Cached(s.PredictedTokens, s.Usage.CachedTokens)
	}
}
