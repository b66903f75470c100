package matrix_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring/policy"
	"plimsoll/testbench/matrix"
	"plimsoll/testbench/trace"
	"plimsoll/testbench/trial"
)

func small() matrix.Matrix {
	m := matrix.Default()
	m.Traces, m.Fleets, m.Policies = []string{trace.HeavyMixName}, []string{"8"}, []string{"token-load", "round-robin"}
	m.Loads, m.Seeds, m.Requests = []float64{0.5, 0.9}, 2, 60
	return m
}

// bench counts what it runs.
func bench(m matrix.Matrix, file string) (b *matrix.Bench, saturations, cells *int) {
	saturations, cells = new(int), new(int)
	return &matrix.Bench{Matrix: m, File: file, Build: "one", Workers: 2, Tell: func(_, _ int, l matrix.Line) {
		if l.Cell == nil {
			*saturations++
		} else {
			*cells++
		}
	}}, saturations, cells
}

func TestABenchGoesOnWhereItStopped(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "cells.jsonl")
	m := small()
	m.Seeds = 1
	b, saturations, cells := bench(m, file)
	_, err := b.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, [2]int{1, 4}, [2]int{*saturations, *cells})
	m.Seeds = 2
	b, saturations, cells = bench(m, file)
	known, err := b.Known()
	require.NoError(t, err)
	require.Len(t, known, 4)
	require.Equal(t, [2]int{0, 0}, [2]int{*saturations, *cells})

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, append(text, []byte(`{"build":"one","cell":{"tra`)...), 0o600)) // it was killed while it wrote
	m.Seeds = 2
	b, saturations, cells = bench(m, file)
	lines, err := b.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, [2]int{0, 4}, [2]int{*saturations, *cells}, "the second seed alone")
	require.Len(t, lines, 8)
	for i, c := range m.Cells() {
		require.Equal(t, c, *lines[i].Cell)
		require.InDelta(t, c.Load*lines[i].Saturation, lines[i].PerSecond, 1e-6)
		require.Equal(t, 60, lines[i].Summary.Requests)
	}

	again, saturations, cells := bench(m, file)
	same, err := again.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, [2]int{0, 0}, [2]int{*saturations, *cells})
	require.Equal(t, lines, same)

	other, saturations, cells := bench(m, file)
	other.Build = "two"
	fresh, err := other.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, [2]int{1, 8}, [2]int{*saturations, *cells}, "other code may come to other figures")
	for i := range fresh {
		require.Equal(t, lines[i].Digest, fresh[i].Digest, "this code does not")
	}

	reused, saturations, cells := bench(m, file)
	reused.Build, reused.Reuse = "three", true
	_, err = reused.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, [2]int{0, 0}, [2]int{*saturations, *cells})

	require.NoError(t, os.WriteFile(file, []byte("{\n"), 0o600))
	_, err = b.Run(t.Context())
	require.ErrorContains(t, err, "line 1")
}

func TestABenchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b, saturations, cells := bench(small(), filepath.Join(t.TempDir(), "cells.jsonl"))
	tell := b.Tell
	b.Workers, b.Tell = 1, func(done, all int, l matrix.Line) {
		tell(done, all, l)
		if l.Cell != nil {
			cancel()
		}
	}
	_, err := b.Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, [2]int{1, 1}, [2]int{*saturations, *cells})
}

func TestALargerFleetGetsMoreRequests(t *testing.T) {
	m := small()
	m.Fleets = []string{"8", "32", "8-tight"}
	for _, c := range m.Cells() {
		require.Equal(t, map[string]int{"8": 60, "32": 120, "8-tight": 60}[c.Fleet], c.Requests)
	}
	require.Len(t, m.Cells(), 3*2*2*2)
}

// TestContestantsAreAsPublished: each but the default without a queue, and two with it besides.
func TestContestantsAreAsPublished(t *testing.T) {
	names := matrix.Contestants()
	require.Equal(t, policy.Names()[0], names[0])
	require.Len(t, names, len(policy.Names())+4)
	for _, name := range policy.Names()[1:] {
		require.Contains(t, names, name+trial.Unqueued)
	}
	require.Subset(t, names, []string{"lmetric", "affinity-filter", "token-load-strict", "token-load-understated"})
	require.NoError(t, matrix.Default().Validate())
}

func TestMatricesThatMakeNoSense(t *testing.T) {
	for want, change := range map[string]func(*matrix.Matrix){
		`unknown trace "rain"`:  func(m *matrix.Matrix) { m.Traces = []string{"rain"} },
		`unknown fleet "9"`:     func(m *matrix.Matrix) { m.Fleets = []string{"9"} },
		`unknown policy "best"`: func(m *matrix.Matrix) { m.Policies = []string{"best"} },
		"no policy is named":    func(m *matrix.Matrix) { m.Policies = nil },
		"one seed":              func(m *matrix.Matrix) { m.Seeds = 0 },
		"its queue":             func(m *matrix.Matrix) { m.Policies = []string{"token-load" + trial.Unqueued} },
		"a load of 0":           func(m *matrix.Matrix) { m.Loads = []float64{0} },
	} {
		m := small()
		change(&m)
		require.ErrorContains(t, m.Validate(), want)
		b, _, _ := bench(m, "never written")
		_, err := b.Run(t.Context())
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, matrix.Default().Validate())
}

func TestCompare(t *testing.T) {
	inf := math.Inf(1)
	for _, tc := range []struct {
		name         string
		ours, theirs []float64
		higher       bool
		want         matrix.Word
	}{
		{"less is better", []float64{1, 2, 1}, []float64{2, 3, 2}, false, matrix.Better},
		{"more is better", []float64{1, 2, 1}, []float64{2, 3, 2}, true, matrix.Worse},
		{"pairs, not means: each seed is a little better", []float64{1, 100}, []float64{1.1, 100.1}, false, matrix.Better},
		{"now better, now worse", []float64{1, 3, 1, 3}, []float64{3, 1, 3, 1}, false, matrix.Same},
		{"equal", []float64{1, 2}, []float64{1, 2}, false, matrix.Same},
		{"infinite once", []float64{1, inf}, []float64{2, 2}, false, matrix.Worse},
		{"infinite less often", []float64{5, inf, 5}, []float64{inf, inf, 1}, false, matrix.Better},
		{"both infinite", []float64{inf, inf}, []float64{inf, inf}, false, matrix.Same},
		{"infinite as often, elsewhere less", []float64{inf, 1, 1}, []float64{inf, 2, 2}, false, matrix.Better},
	} {
		got, _ := matrix.Compare(tc.ours, tc.theirs, tc.higher)
		require.Equal(t, tc.want, got, tc.name)
	}
}

// TestMarkdown: figures worked out by hand.
func TestMarkdown(t *testing.T) {
	var lines []matrix.Line
	for i := range uint64(10) {
		for _, name := range []string{"ours", "theirs", "thirds"} {
			seed, g := i%5, matrix.Ground{Place: matrix.Place{Trace: "t", Fleet: "8"}, Load: []float64{0.8, 0.95}[i/5]}
			s := trial.Summary{Requests: 100, Good: 0.9, TTFTP50: 1, TTFTP99: 2, TPOTP99: 0.02, HitShare: 0.5}
			switch name {
			case "theirs":
				s.Good, s.TTFTP99 = 0.8, trial.Seconds(1.5+float64(seed)/10)
				s.Preemptions = 3
			case "thirds":
				s.TTFTP99, s.Refused = trial.Seconds(math.Inf(1)), 2
				if g.Load == 0.95 {
					s.Good = 0.69
				}
			}
			lines = append(lines, matrix.Line{
				Build: "b1", Cell: &matrix.Cell{Ground: g, Policy: name, Seed: seed, Requests: 100}, PerSecond: 8, Saturation: 10, Summary: &s,
			})
		}
	}
	text := matrix.Markdown(append(lines, matrix.Line{Build: "b2", Place: &matrix.Place{}}), []string{"ours", "theirs", "thirds"}, "make it")
	for _, want := range []string{
		"Made by `make it`, of build b1, b2",
		"| (ours) | | | | | | | | 0 of 1000 |",
		"| theirs | 2 | 0 | 2 | 2 | 0 | 2 | 0 of 1 | 30 of 1000 |",
		"| thirds | 2 | 2 | 2 | 2 | 2 | 2 | 1 of 1 | 0 of 1000 |",
		"### t/8 @0.8\n\n100 requests, 8.00 a second of 10.00.",
		"| ours | 5 |  | 90.0 | 1.000 | 2.000 | 20.0 | 50.0 | 0.0 | 0.0 |",
		"| theirs | 5 | +=-= | 80.0 | 1.000 | 1.700 (1.500-1.900) | 20.0 | 50.0 | 0.0 | 3.0 |",
		"| thirds | 5 | ==+= | 90.0 | 1.000 | inf | 20.0 | 50.0 | 2.0 | 0.0 |",
	} {
		require.Contains(t, text, want)
	}
	require.Equal(t, 2, strings.Count(text, "###"))
}
