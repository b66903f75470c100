package actors

import "plimsoll/actors/meter"

// modelMeters are a model's handles to the metrics.
type modelMeters struct {
	router    *meter.Router
	stream    *meter.Stream
	tokenizer *meter.Tokenizer
}

func newModelMeters(m *meter.Meter, name string) modelMeters {
	return modelMeters{router: m.Router(name), stream: m.Stream(name), tokenizer: m.Tokenizer(name)}
}
