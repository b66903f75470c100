package trial

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"slices"
	"time"

	"plimsoll/testbench/fleet"
	"plimsoll/testbench/report"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// row is a policy in the page's table.
type row struct {
	Colour int
	Policy string
	Cells  []string
}

// Page lays a report out as a page that needs nothing from elsewhere: the table, and plots of the first seed's runs where they
// were kept.
func Page(r *Report, made time.Time) ([]byte, error) {
	metrics := r.metrics()
	columns := heads(metrics)
	rows := make([]row, 0, len(r.Policies))
	for i, p := range r.Policies {
		rows = append(rows, row{Colour: i % report.Colours, Policy: p, Cells: r.cells(p, metrics)})
	}
	colours := make([]int, report.Colours)
	for i := range colours {
		colours[i] = i
	}
	var seed uint64
	if len(r.Seeds) > 0 {
		seed = r.Seeds[0]
	}
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, map[string]any{
		"Head": r.Head(), "Made": made.UTC().Format(time.RFC1123), "Columns": columns, "Rows": rows, "Plots": r.plots(), "Colours": colours, "Seed": seed,
	})
	return b.Bytes(), err
}

// plots draws the runs that were kept.
func (r *Report) plots() []template.HTML {
	var kept []*Run
	for i := range r.Runs {
		if r.Runs[i].Result != nil {
			kept = append(kept, &r.Runs[i])
		}
	}
	if len(kept) == 0 {
		return nil
	}
	lines := func(of func(*Run) report.Line) []report.Line {
		out := make([]report.Line, 0, len(kept))
		for _, run := range kept {
			l := of(run)
			l.Name = run.Policy
			out = append(out, l)
		}
		return out
	}
	one := new(1.0)
	out := []template.HTML{
		report.Plot{
			Title: "Time to first token", X: "seconds", Y: "share of all requests", LogX: true, YMax: one,
			Lines: lines(func(run *Run) report.Line { return distribution(run.Result.Samples, firstToken) }),
		}.SVG(),
		report.Plot{
			Title: "Time per output token", X: "seconds", Y: "share of all requests", LogX: true, YMax: one, Uprights: []float64{r.SLO.TPOT.Seconds()},
			Lines: lines(func(run *Run) report.Line { return distribution(run.Result.Samples, perToken) }),
		}.SVG(),
		report.Plot{
			Title: "Good answers", X: "when they came, seconds", Y: "a second",
			Lines: lines(func(run *Run) report.Line { return r.overTime(run, goodRate) }),
		}.SVG(),
		report.Plot{
			Title: "Prompt tokens found in caches", X: "when they came, seconds", Y: "share", YMax: one,
			Lines: lines(func(run *Run) report.Line { return r.overTime(run, hitShare) }),
		}.SVG(),
	}
	if len(kept[0].Result.Series) == 0 {
		return out
	}
	out = append(out, report.Plot{
		Title: "Waiting in the router's queue", X: "seconds", Y: "requests",
		Lines: lines(func(run *Run) report.Line {
			return overSeries(run, func(p *fleet.Point) float64 { return float64(p.Queued) })
		}),
	}.SVG(), report.Plot{
		Title: "Waiting and running in the engines", X: "seconds", Y: "sequences",
		Lines: lines(func(run *Run) report.Line { return overSeries(run, inEngines) }),
	}.SVG())
	for _, run := range kept {
		out = append(out, loads(run).SVG())
	}
	return out
}

func firstToken(s *fleet.Sample) (time.Duration, bool) { return s.TTFT(), true }
func perToken(s *fleet.Sample) (time.Duration, bool)   { return s.TPOT() }

// distribution is the share of all requests whose figure is at most so long. What never got one is missing at its end.
func distribution(samples []fleet.Sample, of func(*fleet.Sample) (time.Duration, bool)) report.Line {
	var times []float64
	all := 0
	for i := range samples {
		s := &samples[i]
		if s.Outcome != fleet.Finished {
			all++
			continue
		}
		if v, ok := of(s); ok {
			all++
			times = append(times, v.Seconds())
		}
	}
	slices.Sort(times)
	l := report.Line{X: times, Y: make([]float64, len(times))}
	for i := range times {
		l.Y[i] = float64(i+1) / float64(all)
	}
	return l
}

// bins is how many points a curve over the time of arrival has.
const bins = 60

// overTime gathers samples by when they came.
func (r *Report) overTime(run *Run, of func(slo SLO, in []*fleet.Sample, seconds float64) float64) report.Line {
	samples := run.Result.Samples
	span := time.Duration(1)
	for i := range samples {
		span = max(span, samples[i].At+1)
	}
	var in [bins][]*fleet.Sample
	for i := range samples {
		at := int(samples[i].At * bins / span)
		in[at] = append(in[at], &samples[i])
	}
	l := report.Line{}
	width := span.Seconds() / bins
	for i := range in {
		l.X, l.Y = append(l.X, (float64(i)+0.5)*width), append(l.Y, of(r.SLO, in[i], width))
	}
	return l
}

func goodRate(slo SLO, in []*fleet.Sample, seconds float64) float64 {
	good := 0
	for _, s := range in {
		if slo.good(s) {
			good++
		}
	}
	return float64(good) / seconds
}

func hitShare(_ SLO, in []*fleet.Sample, _ float64) float64 {
	hits, all := 0, 0
	for _, s := range in {
		if s.Outcome == fleet.Finished {
			hits, all = hits+s.CachedTokens, all+s.PromptTokens
		}
	}
	if all == 0 {
		return math.NaN()
	}
	return float64(hits) / float64(all)
}

func overSeries(run *Run, of func(*fleet.Point) float64) report.Line {
	l := report.Line{}
	for i := range run.Result.Series {
		p := &run.Result.Series[i]
		l.X, l.Y = append(l.X, p.At.Seconds()), append(l.Y, of(p))
	}
	return l
}

func inEngines(p *fleet.Point) float64 {
	n := 0
	for _, l := range p.Replicas {
		n += l.Running + l.Waiting
	}
	return float64(n)
}

// loads is how full each replica's cache is of what runs.
func loads(run *Run) report.Heat {
	series := run.Result.Series
	h := report.Heat{Title: run.Policy + ": cache in use, replica by replica", X: "seconds"}
	h.Rows = make([][]float64, len(run.Result.Replicas))
	for i := range h.Rows {
		h.Names = append(h.Names, fmt.Sprintf("r%03d", i+1))
	}
	for i := range series {
		h.Times = append(h.Times, series[i].At.Seconds())
		for j, l := range series[i].Replicas {
			h.Rows[j] = append(h.Rows[j], l.Used)
		}
	}
	return h
}
