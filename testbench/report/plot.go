package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// Line is one curve of a plot. NaN in Y leaves a gap.
type Line struct {
	Name string
	X, Y []float64
}

// Plot is curves over one axis, drawn as SVG. Its colours come from the page: the classes are c0, c1, ... in the order of the
// lines (modulo Colours), grid, tick, axis and name.
type Plot struct {
	Title    string
	X, Y     string // what the axes say, with units
	LogX     bool   // X above 0 only
	YMax     *float64
	Lines    []Line
	Uprights []float64 // marks on the X axis
}

// Colours is how many classes of lines there are.
const Colours = 12

// The plots' measures, in their own units.
const (
	plotWidth, plotHeight = 600.0, 300.0
	plotLeft, plotRight   = 56.0, 12.0
	plotTop, plotBottom   = 28.0, 44.0
	pointsMax             = 600 // of a line; more are thinned out
	ticksWanted           = 5
)

// scale turns values into places.
type scale struct {
	low, high float64
	log       bool
	from, to  float64 // places
}

func (s scale) at(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		v, low, high = math.Log10(v), math.Log10(low), math.Log10(high)
	}
	return s.from + (s.to-s.from)*(v-low)/(high-low)
}

// ticks are round values on the scale.
func (s scale) ticks() []float64 {
	var out []float64
	if s.log {
		for v := math.Pow(10, math.Floor(math.Log10(s.low))); v <= s.high*1.0001; v *= 10 {
			for _, m := range []float64{1, 2, 5} {
				if v*m >= s.low*0.9999 && v*m <= s.high*1.0001 && (m == 1 || s.high/s.low < 200) {
					out = append(out, v*m)
				}
			}
		}
		return out
	}
	step := math.Pow(10, math.Floor(math.Log10((s.high-s.low)/ticksWanted)))
	for _, m := range []float64{1, 2, 5, 10} {
		if (s.high-s.low)/(step*m) <= ticksWanted+1 {
			step *= m
			break
		}
	}
	for i := math.Ceil(s.low / step); i*step <= s.high*1.0001; i++ {
		out = append(out, i*step)
	}
	return out
}

// bounds are the least and the greatest of values that can be drawn.
func bounds(log bool, lists ...[]float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, list := range lists {
		for _, v := range list {
			if math.IsNaN(v) || math.IsInf(v, 0) || log && v <= 0 {
				continue
			}
			low, high = min(low, v), max(high, v)
		}
	}
	if low > high {
		low, high = 1, 2
	}
	if low == high {
		high = low*2 + 1
	}
	return low, high
}

// SVG draws the plot.
func (p Plot) SVG() template.HTML {
	xs, ys := make([][]float64, 0, len(p.Lines)), make([][]float64, 0, len(p.Lines))
	for _, l := range p.Lines {
		xs, ys = append(xs, l.X), append(ys, l.Y)
	}
	x := scale{log: p.LogX, from: plotLeft, to: plotWidth - plotRight}
	x.low, x.high = bounds(p.LogX, xs...)
	y := scale{from: plotHeight - plotBottom, to: plotTop}
	_, y.high = bounds(false, ys...)
	if p.YMax != nil {
		y.high = *p.YMax
	}
	var b strings.Builder
	svg := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format, args...) } // a builder takes everything
	svg(`<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s"><text class="name" x="%.0f" y="16">%s</text>`,
		plotWidth, plotHeight, template.HTMLEscapeString(p.Title), plotLeft, template.HTMLEscapeString(p.Title))
	for _, v := range y.ticks() {
		svg(`<line class="grid" x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f"/><text class="tick end" x="%.0f" y="%.1f">%s</text>`,
			x.from, x.to, y.at(v), y.at(v), plotLeft-6, y.at(v)+4, number(v))
	}
	for _, v := range x.ticks() {
		svg(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.0f" y2="%.0f"/><text class="tick" x="%.1f" y="%.0f">%s</text>`,
			x.at(v), x.at(v), y.from, y.to, x.at(v), y.from+16, number(v))
	}
	for _, v := range p.Uprights {
		if v >= x.low && v <= x.high {
			svg(`<line class="mark" x1="%.1f" x2="%.1f" y1="%.0f" y2="%.0f"/>`, x.at(v), x.at(v), y.from, y.to)
		}
	}
	svg(`<text class="axis" x="%.0f" y="%.0f">%s</text><text class="axis" x="%.0f" y="26">%s</text>`,
		(x.from+x.to)/2, plotHeight-8, template.HTMLEscapeString(p.X), plotLeft-4, template.HTMLEscapeString(p.Y))
	for i, l := range p.Lines {
		svg(`<path class="line c%d" d="%s"><title>%s</title></path>`, i%Colours, path(l, x, y), template.HTMLEscapeString(l.Name))
	}
	svg(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // its texts are escaped
}

// path is a line's course; it begins anew behind a gap.
func path(l Line, x, y scale) string {
	var b strings.Builder
	every := max(1, len(l.X)/pointsMax)
	pen := "M"
	for i := range l.X {
		if i%every != 0 && i != len(l.X)-1 {
			continue
		}
		if v := l.Y[i]; math.IsNaN(v) || math.IsInf(v, 0) || math.IsInf(l.X[i], 0) || x.log && l.X[i] <= 0 {
			pen = "M"
			continue
		}
		_, _ = fmt.Fprintf(&b, "%s%.1f %.1f", pen, x.at(l.X[i]), y.at(min(l.Y[i], y.high))) // a builder takes everything
		pen = "L"
	}
	return b.String()
}

// number writes a tick.
func number(v float64) string {
	if v != 0 && math.Abs(v) < 0.001 {
		return fmt.Sprintf("%.0e", v)
	}
	return fmt.Sprintf("%.4g", v)
}

// Heat is rows of values between 0 and 1 over one axis, drawn as SVG: class heat, opaque as the value is high.
type Heat struct {
	Title, X string
	Times    []float64   // where each column begins; the last one ends as long after as the one before
	Rows     [][]float64 // one value a column
	Names    []string    // of the rows
}

// columnsMax is how many columns are drawn; more are put together.
const columnsMax = 150

// SVG draws the map.
func (h Heat) SVG() template.HTML {
	height := min(14, 240/float64(max(1, len(h.Rows))))
	total := plotTop + height*float64(len(h.Rows)) + plotBottom
	var b strings.Builder
	svg := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format, args...) } // a builder takes everything
	svg(`<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s"><text class="name" x="%.0f" y="16">%s</text>`,
		plotWidth, total, template.HTMLEscapeString(h.Title), plotLeft, template.HTMLEscapeString(h.Title))
	x := scale{from: plotLeft, to: plotWidth - plotRight}
	x.low, x.high = bounds(false, h.Times)
	every := max(1, (len(h.Times)+columnsMax-1)/columnsMax)
	for r, row := range h.Rows {
		top := plotTop + height*float64(r)
		if height >= 8 || r%4 == 0 {
			svg(`<text class="tick end" x="%.0f" y="%.1f">%s</text>`, plotLeft-6, top+height*0.8, template.HTMLEscapeString(h.Names[r]))
		}
		for i := 0; i < len(row); i += every {
			sum := 0.0
			cells := row[i:min(i+every, len(row))]
			for _, v := range cells {
				sum += v
			}
			end := x.high
			if i+every < len(h.Times) {
				end = h.Times[i+every]
			}
			mean := sum / float64(len(cells))
			svg(`<rect class="heat" x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill-opacity="%.2f"><title>%s: %.2f</title></rect>`,
				x.at(h.Times[i]), top, max(0.5, x.at(end)-x.at(h.Times[i])), height-1, mean, template.HTMLEscapeString(h.Names[r]), mean)
		}
	}
	base := plotTop + height*float64(len(h.Rows))
	for _, v := range x.ticks() {
		svg(`<text class="tick" x="%.1f" y="%.1f">%s</text>`, x.at(v), base+14, number(v))
	}
	svg(`<text class="axis" x="%.0f" y="%.1f">%s</text></svg>`, (x.from+x.to)/2, base+32, template.HTMLEscapeString(h.X))
	return template.HTML(b.String()) //nolint:gosec // its texts are escaped
}
