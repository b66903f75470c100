package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/wire"
)

const scrape = `# TYPE e:waiting gauge
e:waiting{rank="0",model="a,b=\"}"} 3
e:waiting{rank="1"} 4
# TYPE e:waiting_by_reason gauge
e:waiting_by_reason{rank="0"} 9
# TYPE e:tokens_total counter
e:tokens_total 12
# TYPE e:steps histogram
e:steps_bucket{rank="0",le="+Inf"} 7
e:steps_count{rank="0"} 7
e:steps_sum{rank="0"} 1.5
e:plain 5
e:part 0.5
e:negative -1
e:nothing NaN
e:huge 1e300
`

func TestMetrics(t *testing.T) {
	m, err := wire.ParseMetrics([]byte(scrape))
	require.NoError(t, err)
	count := func(s wire.Series) any {
		if n := wire.Count[int](s); n != nil {
			return *n
		}
		return nil
	}
	for name, want := range map[string]any{
		"e:tokens_total": 12, "e:steps": 7, "e:plain": 5, "e:part": 0, "e:negative": nil, "e:nothing": nil, "e:huge": nil, "e:absent": nil,
		"e:waiting": nil, // of two ranks: not one number
	} {
		require.Equal(t, want, count(m.Series(name)), name)
	}
	waiting := m.Series("e:waiting")
	require.Equal(t, []string{"0", "1"}, waiting.Labels("rank"))
	require.Equal(t, []string{`a,b="}`}, waiting.Labels("model"))
	require.Empty(t, waiting.Labels("reason"), "a name that begins alike is another metric")
	require.Equal(t, 3, count(waiting.With("rank", "0")))
	require.Equal(t, 4, count(waiting.With("rank", "1")))
	require.Nil(t, count(waiting.With("rank", "2")))
	require.Len(t, waiting, 2, "With takes nothing away")
	part, ok := m.Series("e:part").Number()
	require.True(t, ok)
	require.InDelta(t, 0.5, part, 0)
}

func TestMetricsThatAreNoneAreBroken(t *testing.T) {
	_, err := wire.ParseMetrics([]byte("<html>"))
	require.Equal(t, engine.Broken, engine.KindOf(err))
}
