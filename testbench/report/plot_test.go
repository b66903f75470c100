package report_test

import (
	"encoding/xml"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/report"
)

// elements counts a drawing's elements by class, and fails if it is no XML.
func elements(t *testing.T, svg string) map[string]int {
	t.Helper()
	out := map[string]int{}
	dec := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := dec.Token()
		if err == io.EOF { //nolint:errorlint // Token returns it as it is
			return out
		}
		require.NoError(t, err)
		if start, ok := token.(xml.StartElement); ok {
			for _, a := range start.Attr {
				if a.Name.Local == "class" {
					out[a.Value]++
				}
			}
		}
	}
}

func TestPlotDrawsEveryLine(t *testing.T) {
	p := report.Plot{
		Title: "a <b>", X: "s", Y: "share", LogX: true, Uprights: []float64{0.5, 1e9},
		Lines: []report.Line{
			{Name: "one & two", X: []float64{0.1, 1, 10}, Y: []float64{0, 0.5, 1}},
			{Name: "with a gap", X: []float64{0, 0.1, 1, 10, math.Inf(1)}, Y: []float64{0, 0.2, math.NaN(), 1, 1}},
			{Name: "nothing"},
		},
	}
	svg := string(p.SVG())
	got := elements(t, svg)
	require.Equal(t, 1, got["line c0"])
	require.Equal(t, 1, got["line c1"])
	require.Equal(t, 1, got["line c2"])
	require.Equal(t, 1, got["mark"], "the one that is on the axis")
	require.Contains(t, svg, "a &lt;b&gt;")
	require.NotContains(t, svg, "NaN")
	require.NotContains(t, svg, "Inf")
	require.Contains(t, svg, ">0.1<")
	require.Contains(t, svg, ">10<")
	require.Contains(t, svg, `d="M56.0 256.0L322.0 142.0L588.0 28.0"`, "a straight line on a logarithmic axis")
}

func TestPlotThinsOutLongLines(t *testing.T) {
	long := report.Line{X: make([]float64, 100_000), Y: make([]float64, 100_000)}
	for i := range long.X {
		long.X[i] = float64(i)
	}
	require.Less(t, len(report.Plot{Lines: []report.Line{long}}.SVG()), 20_000)
}

func TestHeatDrawsRowsAndPutsColumnsTogether(t *testing.T) {
	h := report.Heat{Title: "load", X: "s", Names: []string{"r1", "r2"}, Rows: make([][]float64, 2)}
	for i := range 300 {
		h.Times = append(h.Times, float64(i))
		h.Rows[0], h.Rows[1] = append(h.Rows[0], 1), append(h.Rows[1], float64(i%2))
	}
	svg := string(h.SVG())
	require.Equal(t, 300, elements(t, svg)["heat"])
	require.Contains(t, svg, "r1: 1.00")
	require.Contains(t, svg, "r2: 0.50")
	require.NotPanics(t, func() { report.Heat{}.SVG() })
}
