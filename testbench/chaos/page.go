package chaos

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// Page draws a run as a page that needs nothing from elsewhere: verdicts, and on one axis of time the engines' states, the
// faults, tokens a second, and the gaps that faults made in answers.
func Page(p Plan, r *Result) ([]byte, error) {
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, map[string]any{
		"Plan": r.Plan, "About": p.About, "Began": r.Began.UTC().Format(time.RFC1123), "Held": r.Held(), "Verdicts": r.Verdicts,
		"Picture": template.HTML(picture(r)), //nolint:gosec // its texts are escaped
		"Summary": Summary(r),
	})
	return b.Bytes(), err
}

// The picture's measures, in its own units.
const (
	pictureWidth = 1200.0
	leftMargin   = 60.0
	laneHeight   = 22.0
	laneGap      = 6.0
	graphHeight  = 110.0
)

// canvas draws on one axis of time.
type canvas struct {
	strings.Builder
	end time.Duration
	y   float64 // the top of what is drawn next
}

func (c *canvas) x(at time.Duration) float64 {
	return leftMargin + (pictureWidth-leftMargin-10)*float64(at)/float64(max(c.end, time.Second))
}

func (c *canvas) add(format string, args ...any) { _, _ = fmt.Fprintf(c, format, args...) } // a builder takes everything

func (c *canvas) label(text string, y float64) {
	c.add(`<text class="label" x="%.0f" y="%.1f">%s</text>`, leftMargin-8, y, template.HTMLEscapeString(text))
}

func picture(r *Result) string {
	c := &canvas{y: 20}
	for _, s := range r.Samples {
		c.end = max(c.end, s.At)
	}
	for i := range r.Engines {
		c.lane(r, i)
	}
	c.y += 14
	c.graph(r, "tokens/s", tokenRate)
	c.graph(r, "open", func(s Sample, _ time.Duration) float64 { return float64(s.Open) })
	c.gaps(r)
	c.axis()
	return fmt.Sprintf(`<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="timeline">%s</svg>`, pictureWidth, c.y+30, c.String())
}

// lane draws one engine: its states as Plimsoll saw them, and its faults over them.
func (c *canvas) lane(r *Result, engine int) {
	c.label(fmt.Sprintf("e%d", engine), c.y+laneHeight*0.7)
	for i, from := 0, 0; i < len(r.Samples); i++ {
		if i+1 < len(r.Samples) && r.Samples[i+1].States[engine] == r.Samples[from].States[engine] {
			continue
		}
		begin, end := r.Samples[from].At, c.end
		if i+1 < len(r.Samples) {
			end = r.Samples[i+1].At
		}
		state := r.Samples[from].States[engine]
		c.add(`<rect class="state %s" x="%.1f" y="%.1f" width="%.1f" height="%.0f"><title>e%d %s, %s to %s</title></rect>`,
			state, c.x(begin), c.y, c.x(end)-c.x(begin), laneHeight, engine, state, seconds(begin), seconds(end))
		from = i + 1
	}
	for _, f := range r.Faults {
		if f.Engine != engine {
			continue
		}
		over := f.Over
		if over == 0 {
			over = c.end
		}
		c.add(`<rect class="fault %s" x="%.1f" y="%.1f" width="%.1f" height="%.0f" rx="2"><title>%s of e%d, %s to %s, %d answers under way</title></rect>`,
			f.Kind, c.x(f.At), c.y+4, max(3, c.x(over)-c.x(f.At)), laneHeight-8, f.Kind, engine, seconds(f.At), seconds(over), f.Under)
		c.add(`<text class="word" x="%.1f" y="%.1f">%s</text>`, c.x(f.At)+2, c.y+laneHeight*0.68, f.Kind)
	}
	c.y += laneHeight + laneGap
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// tokenRate is the tokens a second since the sample before.
func tokenRate(s Sample, before time.Duration) float64 {
	if s.At <= before {
		return 0
	}
	return float64(s.Tokens) / (s.At - before).Seconds()
}

// graph draws a line of the samples; value is also given the time of the sample before.
func (c *canvas) graph(r *Result, title string, value func(Sample, time.Duration) float64) {
	values, most, before := make([]float64, len(r.Samples)), 1.0, time.Duration(0)
	for i, s := range r.Samples {
		values[i] = value(s, before)
		before, most = s.At, max(most, values[i])
	}
	c.label(title, c.y+12)
	c.label(fmt.Sprintf("%.0f", most), c.y+28)
	c.add(`<polyline class="graph" points="`)
	for i, s := range r.Samples {
		c.add("%.1f,%.1f ", c.x(s.At), c.y+graphHeight*(1-values[i]/most))
	}
	c.add(`"/>`)
	c.y += graphHeight + laneGap
}

// gaps draws each gap that spans a fault as a dot over its fault, on a scale of powers of ten from 10 ms to 100 s.
func (c *canvas) gaps(r *Result) {
	const least, decades = 0.01, 4.0
	height := graphHeight * 1.5
	y := func(seconds float64) float64 {
		return c.y + height*(1-min(max(math.Log10(seconds/least)/decades, 0), 1))
	}
	for s := least * 10; s <= 100; s *= 10 {
		c.label(fmt.Sprintf("%g s", s), y(s)+4)
		c.add(`<line class="grid" x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f"/>`, leftMargin, pictureWidth-10, y(s), y(s))
	}
	for _, h := range r.Hits {
		if h.Gap == 0 {
			continue
		}
		f := r.Faults[h.Fault]
		class := ""
		if h.Bound > 0 && h.Gap > h.Bound {
			class = " over"
		}
		c.add(`<circle class="gap %s%s" cx="%.1f" cy="%.1f" r="3"><title>request %d, %s of e%d: %d ms</title></circle>`,
			f.Kind, class, c.x(f.At), y(h.Gap.Seconds()), h.Stream, f.Kind, f.Engine, h.Gap.Milliseconds())
	}
	c.label("gaps", c.y+10)
	c.y += height + laneGap
}

// axis draws the time.
func (c *canvas) axis() {
	every := 10 * time.Second
	for c.end/every > 20 {
		every *= 2
	}
	for at := time.Duration(0); at <= c.end; at += every {
		c.add(`<line class="grid" x1="%.1f" x2="%.1f" y1="12" y2="%.1f"/><text class="tick" x="%.1f" y="%.1f">%.0f s</text>`,
			c.x(at), c.x(at), c.y, c.x(at), c.y+16, at.Seconds())
	}
}
