package actors

import (
	"plimsoll/actors/meter"
	"plimsoll/actors/stream"
)

// modelMeters are a model's handles to the metrics.
type modelMeters struct {
	router    *meter.Router
	stream    *meter.Stream
	tokenizer *meter.Tokenizer
}

func newModelMeters(m *meter.Meter, name string) modelMeters {
	return modelMeters{
		router:    m.Router(name),
		stream:    m.Stream(name, meter.StreamLabels{Classes: words(stream.NumClasses), Outcomes: words(stream.NumOutcomes), Hedges: words(stream.NumHedgeEvents)}),
		tokenizer: m.Tokenizer(name),
	}
}

// words are those of an enumeration up to its end.
func words[E interface {
	~uint8
	String() string
}](end E) []string {
	all := make([]string, end)
	for e := range end {
		all[e] = e.String()
	}
	return all
}

// served are the names that requests can give, of models and of their adapters, and those that models have inside the node.
func (s *System) served() []string {
	var names []string
	for _, m := range s.models {
		names = append(append(names, m.Router.Model, m.name()), m.engineNames()...)
		names = append(names, m.adapters()...)
	}
	return names
}
