package meter

import (
	"slices"
	"strings"
	"sync"

	dto "github.com/prometheus/client_model/go"
)

// shownNames is what models are called in reports, where that is another name than what is metered under: a node may learn late
// how its engines call their model. It is safe for concurrent use.
type shownNames struct {
	mu sync.Mutex
	of map[string]string // guarded by mu; by the name that is metered under
}

// Shown says that a model is called otherwise from now on, in all that was counted of it before too.
func (m *Meter) Shown(model, name string) {
	if m == nil {
		return
	}
	model = m.models.value(model)
	m.shown.mu.Lock()
	defer m.shown.mu.Unlock()
	if m.shown.of == nil {
		m.shown.of = map[string]string{}
	}
	m.shown.of[model] = name
}

// apply gives series the names that are shown. What was counted under both is one series.
func (s *shownNames) apply(families []*dto.MetricFamily) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.of) == 0 {
		return
	}
	for _, family := range families {
		kept, by := family.Metric[:0], make(map[string]*dto.Metric, len(family.GetMetric()))
		for _, series := range family.GetMetric() {
			s.rename(series)
			key := labelsOf(series)
			if same := by[key]; same != nil {
				sum(same, series)
				continue
			}
			by[key] = series
			kept = append(kept, series)
		}
		family.Metric = kept
	}
}

// rename gives a series its shown name. The labels are the metric's own, and stay as they are.
func (s *shownNames) rename(series *dto.Metric) {
	for i, label := range series.GetLabel() {
		if name, ok := s.of[label.GetValue()]; ok && label.GetName() == labelModel {
			series.Label = slices.Clone(series.Label)
			series.Label[i] = &dto.LabelPair{Name: label.Name, Value: &name}
		}
	}
}

// labelsOf is a series' labels as one text.
func labelsOf(series *dto.Metric) string {
	var text strings.Builder
	for _, label := range series.GetLabel() {
		text.WriteString(label.GetName() + "\x00" + label.GetValue() + "\x00")
	}
	return text.String()
}

// sum adds a series to another of its family.
func sum(to, more *dto.Metric) {
	add := func(a, b *float64) *float64 {
		total := *a + *b
		return &total
	}
	switch {
	case to.Counter != nil:
		to.Counter.Value = add(to.Counter.Value, more.Counter.Value)
	case to.Gauge != nil:
		to.Gauge.Value = add(to.Gauge.Value, more.Gauge.Value)
	case to.Histogram != nil:
		a, b := to.Histogram, more.Histogram
		count := a.GetSampleCount() + b.GetSampleCount()
		a.SampleCount, a.SampleSum = &count, add(a.SampleSum, b.SampleSum)
		for i, bucket := range a.GetBucket() { // the same bounds: they are the family's
			count := bucket.GetCumulativeCount() + b.GetBucket()[i].GetCumulativeCount()
			bucket.CumulativeCount = &count
		}
	}
}
