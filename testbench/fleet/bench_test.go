package fleet_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/fleet"
	"plimsoll/testbench/shared"
	"plimsoll/testbench/trace"
)

// BenchmarkConversation replays requests of the conversation trace on eight replicas, near 0.8 of what they can do.
func BenchmarkConversation(b *testing.B) {
	const requests, faster = 1000, 1.6
	path := shared.Path(b, "testdata", "traces", "mooncake-conversation.jsonl.gz")
	for _, blockTokens := range []int{16, 64} {
		b.Run("block="+strconv.Itoa(blockTokens), func(b *testing.B) {
			b.ReportAllocs()
			tokens := 0
			for b.Loop() {
				spec := fleet.DefaultSpec()
				spec.BlockTokens = blockTokens
				engines, err := spec.Engines()
				require.NoError(b, err)
				file, err := trace.Open(path, 1)
				require.NoError(b, err)
				source, err := trace.Scaled(trace.Spread(trace.Cut(file, 0, requests), 3*time.Second, 1), faster)
				require.NoError(b, err)
				r, err := fleet.Run(fleet.DefaultConfig(engines), source, nil)
				require.NoError(b, err)
				require.NoError(b, file.Close())
				for i := range r.Samples {
					tokens += r.Samples[i].PromptTokens + r.Samples[i].Produced
				}
			}
			b.ReportMetric(float64(requests*b.N)/b.Elapsed().Seconds(), "requests/s")
			b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}
