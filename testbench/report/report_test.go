package report_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/report"
)

func TestQuantileIsTheNearestRank(t *testing.T) {
	values := []int{50, 10, 40, 20, 30}
	for q, want := range map[float64]int{0: 10, 0.2: 10, 0.21: 20, 0.5: 30, 0.99: 50, 1: 50} {
		got, ok := report.Quantile(values, q)
		require.True(t, ok)
		require.Equal(t, want, got, "%g", q)
	}
	require.Equal(t, []int{50, 10, 40, 20, 30}, values)
	_, ok := report.Quantile([]int{}, 0.5)
	require.False(t, ok)
}

func TestMilliseconds(t *testing.T) {
	require.Equal(t, "1500.3", report.Milliseconds([]time.Duration{1500260 * time.Microsecond}, 0.5))
	require.Equal(t, "-", report.Milliseconds(nil, 0.5))
}

func TestTable(t *testing.T) {
	require.Equal(t, "  policy  ttft\n  a-long   1.5\n       b  10.0\n", report.Table([][]string{{"policy", "ttft"}, {"a-long", "1.5"}, {"b", "10.0"}}))
}
