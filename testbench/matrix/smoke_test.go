package matrix_test

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring/policy"
	"plimsoll/testbench/fleet"
	"plimsoll/testbench/matrix"
	"plimsoll/testbench/trace"
	"plimsoll/testbench/trial"
)

var rewrite = flag.Bool("rewrite", false, "measure the smoke cells' saturation and bounds anew, and write them")

const smokeFile = "testdata/smoke.json"

// bound is what the default policy keeps to in a cell.
type bound struct {
	Ground         matrix.Ground `json:"ground"`
	Saturation     float64       `json:"saturation_per_second"`
	GoodLeast      float64       `json:"good_least"`
	TTFTP99Most    float64       `json:"ttft_p99_most"` // seconds
	TPOTP99Most    float64       `json:"tpot_p99_most"`
	PreemptedMost  int           `json:"preempted_most"`
	TurnedAwayMost int           `json:"turned_away_most"`
}

// smoke is a matrix that runs in seconds and needs no file from elsewhere.
func smoke() matrix.Matrix {
	m := matrix.Default()
	m.Requests, m.Seeds = 500, 1
	return m
}

// grounds are those of the smoke: three traces on three fleets, and near saturation on the first.
func grounds() []matrix.Ground {
	var out []matrix.Ground
	for _, t := range []string{trace.AgentsName, trace.HeavyMixName, trace.BurstsName} {
		for _, f := range []string{fleet.SmallFleet, fleet.TightFleet, fleet.UnequalFleet} {
			out = append(out, matrix.Ground{Place: matrix.Place{Trace: t, Fleet: f}, Load: 0.8})
		}
		out = append(out, matrix.Ground{Place: matrix.Place{Trace: t, Fleet: fleet.SmallFleet}, Load: 0.95})
	}
	return out
}

// TestSmoke: in each of twelve cells the default policy is no worse than its committed bounds, which leave room for what a
// change elsewhere moves by chance. Measure them anew by -rewrite where a change is meant to move them, and say so.
func TestSmoke(t *testing.T) {
	m := smoke()
	if *rewrite {
		measureBounds(t, m)
	}
	text, err := os.ReadFile(smokeFile)
	require.NoError(t, err)
	var bounds []bound
	require.NoError(t, json.Unmarshal(text, &bounds))
	require.Len(t, bounds, 12)
	for i, g := range grounds() {
		b := bounds[i]
		require.Equal(t, g, b.Ground)
		s := runCell(t, m, g, b.Saturation).Summary
		t.Logf("%s: good %.1f %%, TTFT p99 %.2f s, TPOT p99 %.0f ms, %d preempted, %d turned away", g, 100*s.Good, float64(s.TTFTP99), 1000*float64(s.TPOTP99), s.Preemptions, s.Refused+s.Failed)
		require.GreaterOrEqual(t, s.Good, b.GoodLeast, "%s: share of good answers", g)
		require.LessOrEqual(t, float64(s.TTFTP99), b.TTFTP99Most, "%s: TTFT p99", g)
		require.LessOrEqual(t, float64(s.TPOTP99), b.TPOTP99Most, "%s: TPOT p99", g)
		require.LessOrEqual(t, s.Preemptions, b.PreemptedMost, "%s: preemptions", g)
		require.LessOrEqual(t, s.Refused+s.Failed, b.TurnedAwayMost, "%s: turned away", g)
	}
}

func runCell(t *testing.T, m matrix.Matrix, g matrix.Ground, saturation float64) matrix.Line {
	t.Helper()
	l, err := m.Run(matrix.Cell{Ground: g, Policy: policy.Names()[0], Seed: 1, Requests: m.Requests}, saturation)
	require.NoError(t, err)
	return l
}

// measureBounds writes bounds a little beyond what is measured.
func measureBounds(t *testing.T, m matrix.Matrix) {
	t.Helper()
	m.Policies, m.Traces, m.Fleets = policy.Names()[:1], nil, nil
	saturation := map[matrix.Place]float64{}
	bounds := make([]bound, 0, 12)
	for _, g := range grounds() {
		if saturation[g.Place] == 0 {
			c := trial.DefaultConfig(g.Trace)
			c.Traffic.Requests = matrix.Default().Requests // few would fill no fleet
			var err error
			c.Fleet, err = fleet.Named(g.Fleet)
			require.NoError(t, err)
			saturation[g.Place], err = trial.Saturation(c, trial.Deps{Tell: func(trial.Progress) {}})
			require.NoError(t, err)
		}
		s := runCell(t, m, g, saturation[g.Place]).Summary
		bounds = append(bounds, bound{
			Ground: g, Saturation: saturation[g.Place], GoodLeast: rounded(max(0, s.Good-0.1)), TTFTP99Most: rounded(1.25*float64(s.TTFTP99) + 0.05),
			TPOTP99Most: rounded(1.25*float64(s.TPOTP99) + 0.005), PreemptedMost: s.Preemptions, TurnedAwayMost: s.Refused + s.Failed,
		})
	}
	text, err := json.MarshalIndent(bounds, "", "  ")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(smokeFile), 0o750))
	require.NoError(t, os.WriteFile(smokeFile, append(text, '\n'), 0o600))
}

func rounded(v float64) float64 { return math.Round(v*1000) / 1000 }
