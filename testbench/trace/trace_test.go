package trace_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/shared"
	"plimsoll/testbench/trace"
)

const small = `{"timestamp":0,"input_length":1000,"output_length":8,"hash_ids":[0,1]}
{"timestamp":1500,"input_length":1025,"output_length":500,"hash_ids":[0,1,2]}
{"timestamp":1500,"input_length":600,"output_length":1,"hash_ids":[0,3]}
`

func read(t *testing.T, text string, most int) []trace.Request {
	t.Helper()
	list, err := trace.Read(strings.NewReader(text), most)
	require.NoError(t, err)
	return list
}

func TestRead(t *testing.T) {
	list := read(t, small, 10)
	require.Len(t, list, 3)
	require.Equal(t, trace.Request{
		Number: 1, At: 1500 * time.Millisecond, PromptTokens: 1025, OutputTokens: 500, Parts: []trace.Part{{0, 512}, {1, 512}, {2, 1}},
	}, list[1])
	require.Len(t, read(t, small, 2), 2)
	require.InDelta(t, (1024.0+512)/(1000+1025+600), trace.Shared(list), 1e-9)
	for want, text := range map[string]string{
		"line 1: 1 hash_ids for 513": `{"timestamp":0,"input_length":513,"output_length":1,"hash_ids":[0]}`,
		"at least 1":                 `{"timestamp":0,"input_length":0,"output_length":1,"hash_ids":[]}`,
		"line 4: it comes before":    small + `{"timestamp":1,"input_length":1,"output_length":1,"hash_ids":[0]}`,
		"line 4: unexpected":         small + `{"timestamp":`,
	} {
		_, err := trace.Read(strings.NewReader(text), 10)
		require.ErrorContains(t, err, want)
	}
}

func TestPromptsShareWhatTheTraceShares(t *testing.T) {
	list := read(t, small, 10)
	for _, factor := range []int{1, 3, 8} {
		squeezed, err := trace.Squeeze(list, factor)
		require.NoError(t, err)
		text := trace.Text{VocabSize: 4096}
		var prompts [][]uint32
		for i, r := range squeezed {
			ids := text.Prompt(nil, r)
			require.Len(t, ids, list[i].PromptTokens/factor)
			for _, id := range ids {
				require.Less(t, id, uint32(4096))
			}
			prompts = append(prompts, ids)
		}
		require.InDelta(t, 1000/factor, common(prompts[0], prompts[1]), 1, "two blocks, the second one in part")
		require.Less(t, common(prompts[0], prompts[2]), 512/factor+8, "one block, and chance")
		require.GreaterOrEqual(t, common(prompts[0], prompts[2]), 512/factor)
		require.Equal(t, list[1].At, squeezed[1].At)
	}
	_, err := trace.Squeeze(list, 0)
	require.Error(t, err)
	require.Equal(t, 500*time.Millisecond, trace.Faster(list, 3)[1].At)
}

func common(a, b []uint32) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// TestTheTracesReadWhole: each file, and where it is known what part an endless cache would hit, with that.
func TestTheTracesReadWhole(t *testing.T) {
	want := map[string]float64{"mooncake-conversation": 0.374, "mooncake-synthetic": 0.651}
	for _, file := range shared.Glob(t, "testdata", "traces", "*.jsonl.gz") {
		list, err := trace.Read(shared.Open(t, file), 1<<20)
		require.NoError(t, err)
		require.NotEmpty(t, list, "%s", file)
		for name, part := range want {
			if strings.Contains(file, name) {
				require.InDelta(t, part, trace.Shared(list), 0.01, name)
			}
		}
	}
}
