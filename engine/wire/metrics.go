package wire

import (
	"bytes"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go" //nolint:depguard // reads what an engine exposes; nothing is reported here
	"github.com/prometheus/common/expfmt"       //nolint:depguard // reads what an engine exposes; nothing is reported here
	"github.com/prometheus/common/model"        //nolint:depguard // reads what an engine exposes; nothing is reported here
)

// Metrics is one scrape of a server's Prometheus text.
type Metrics struct{ families map[string]*dto.MetricFamily }

// ParseMetrics reads the Prometheus text format.
func ParseMetrics(text []byte) (Metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return Metrics{}, Broken("metrics: %w", err)
	}
	return Metrics{families}, nil
}

// Series are the samples of one metric.
type Series []*dto.Metric

// Series returns the samples of the metric with exactly this name; none if there is no such metric.
func (m Metrics) Series(name string) Series { return m.families[name].GetMetric() }

// HasPrefix says whether the name of some metric begins so.
func (m Metrics) HasPrefix(prefix string) bool {
	for name := range m.families {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// With returns the samples that have the label.
func (s Series) With(label, value string) Series {
	return slices.DeleteFunc(slices.Clone(s), func(m *dto.Metric) bool {
		got, ok := labelOf(m, label)
		return !ok || got != value
	})
}

// Labels returns the values that a label has, each once, in the order of the text.
func (s Series) Labels(label string) []string {
	var values []string
	for _, m := range s {
		if value, ok := labelOf(m, label); ok && !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	return values
}

func labelOf(m *dto.Metric, name string) (value string, ok bool) {
	for _, label := range m.GetLabel() {
		if label.GetName() == name {
			return label.GetValue(), true
		}
	}
	return "", false
}

// Number returns the value of a gauge or counter, or how often a histogram was fed. ok is false unless there is exactly
// one sample and it is a number that is not negative.
func (s Series) Number() (value float64, ok bool) {
	if len(s) != 1 {
		return 0, false
	}
	var number *float64
	switch m := s[0]; {
	case m.GetGauge() != nil:
		number = m.GetGauge().Value
	case m.GetCounter() != nil:
		number = m.GetCounter().Value
	case m.GetUntyped() != nil:
		number = m.GetUntyped().Value
	case m.GetHistogram() != nil:
		count := float64(m.GetHistogram().GetSampleCount())
		number = &count
	}
	if number == nil || !(*number >= 0) { // NaN too
		return 0, false
	}
	return *number, true
}

// Count returns what Number does as a whole number, nil if there is none.
func Count[N int | uint64](s Series) *N {
	const exact = 1 << 53
	number, ok := s.Number()
	if !ok || number >= exact {
		return nil
	}
	n := N(number)
	return &n
}
