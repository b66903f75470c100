package trial

import (
	"errors"
	"fmt"
	"time"

	"plimsoll/testbench/trace"
)

// Traffic says what is replayed.
type Traffic struct {
	Trace    string `json:"trace"` // as trace.Open takes it
	Skip     int    `json:"skip,omitempty"`
	Requests int    `json:"requests"`
	Squeeze  int    `json:"squeeze,omitempty"` // all lengths are divided by it; 1: they stay
	// Spread moves each request to a random moment of so long a time after its own, by the seed; nil: as coarse as the trace is.
	Spread *time.Duration `json:"spread,omitempty"`
}

// DefaultTraffic is the first 4,000 requests of a trace.
func DefaultTraffic(name string) Traffic { return Traffic{Trace: name, Requests: 4000, Squeeze: 1} }

// Validate reports what makes no sense.
func (t Traffic) Validate() error {
	switch {
	case t.Trace == "":
		return errors.New("a trace is needed")
	case t.Requests < 1 || t.Skip < 0:
		return errors.New("at least one request must be replayed, and none less than none be left out")
	case t.Squeeze < 1:
		return errors.New("lengths can be squeezed by 1 and more")
	case t.Spread != nil && *t.Spread < 0:
		return errors.New("requests cannot be spread over a negative time")
	}
	return nil
}

// open opens the traffic of a seed at the trace's own pace.
func (t Traffic) open(seed uint64) (trace.Source, func() error, error) {
	file, err := trace.Open(t.Trace, seed)
	if err != nil {
		return nil, nil, err
	}
	tick := file.Tick
	if t.Spread != nil {
		tick = *t.Spread
	}
	source, err := trace.Squeezed(trace.Cut(file, t.Skip, t.Requests), t.Squeeze)
	if err != nil {
		_ = file.Close() // it was only read from
		return nil, nil, err
	}
	return trace.Spread(source, tick, seed), file.Close, nil
}

// measure is the traffic at its own pace.
type measure struct {
	Requests      int           `json:"requests"`
	Span          time.Duration `json:"span"` // from the first to the last
	PromptTokens  int           `json:"prompt_tokens"`
	OutputTokens  int           `json:"output_tokens"`
	LongestPrompt int           `json:"longest_prompt"`
}

// rate is how many requests come a second.
func (m measure) rate() float64 { return float64(m.Requests-1) / m.Span.Seconds() }

// measure reads the traffic of a seed through.
func (t Traffic) measure(seed uint64) (measure, error) {
	var m measure
	source, done, err := t.open(seed)
	if err != nil {
		return m, err
	}
	defer done() //nolint:errcheck // it is only read from
	first := time.Duration(0)
	list, err := trace.Take(source, t.Requests)
	if err != nil {
		return m, err
	}
	for i, r := range list {
		if i == 0 {
			first = r.At
		}
		m.Requests++
		m.Span = r.At - first
		m.PromptTokens += r.PromptTokens
		m.OutputTokens += r.OutputTokens
		m.LongestPrompt = max(m.LongestPrompt, r.PromptTokens)
	}
	if m.Requests < 2 || m.Span <= 0 {
		return m, fmt.Errorf("%s: %d requests in %s have no rate: at least two at two times are needed", t.Trace, m.Requests, m.Span)
	}
	return m, nil
}
