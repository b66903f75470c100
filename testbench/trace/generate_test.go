package trace_test

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/trace"
)

func generate(t *testing.T, name string, seed uint64, n int) []trace.Request {
	t.Helper()
	s, err := trace.Generate(name, seed)
	require.NoError(t, err)
	list, err := trace.Take(s, n)
	require.NoError(t, err)
	require.Len(t, list, n)
	return list
}

func TestGenerators(t *testing.T) {
	for name, want := range map[string]struct {
		perSecond, prompt, shared [2]float64 // from, to
		longest                   int
	}{
		trace.AgentsName:       {[2]float64{18, 30}, [2]float64{8_000, 20_000}, [2]float64{0.85, 0.99}, 115_000},
		trace.HeavyMixName:     {[2]float64{19, 21}, [2]float64{2_000, 5_000}, [2]float64{0.01, 0.1}, 121_000},
		trace.SharedPromptName: {[2]float64{19, 21}, [2]float64{6_000, 6_500}, [2]float64{0.9, 1}, 8_001},
		trace.BurstsName:       {[2]float64{17, 23}, [2]float64{3_000, 9_000}, [2]float64{0.6, 0.95}, 41_000},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 8000
			list := generate(t, name, 7, n)
			require.Equal(t, list, generate(t, name, 7, n), "equal seeds")
			require.NotEqual(t, list[:50], generate(t, name, 8, 50), "other seeds")
			prompts, longest := 0, 0
			for i, r := range list {
				require.Equal(t, uint64(i), r.Number)
				require.GreaterOrEqual(t, min(r.PromptTokens, r.OutputTokens), 1)
				sum := 0
				for _, p := range r.Parts {
					sum += p.Tokens
				}
				require.Equal(t, r.PromptTokens+r.OutputTokens, sum, "the parts are the whole sequence")
				prompts, longest = prompts+r.PromptTokens, max(longest, r.PromptTokens)
			}
			require.True(t, slices.IsSortedFunc(list, func(a, b trace.Request) int { return int(a.At - b.At) }))
			within := func(what string, value float64, bounds [2]float64) {
				require.InDelta(t, (bounds[0]+bounds[1])/2, value, (bounds[1]-bounds[0])/2, what)
			}
			within("requests a second", n/(list[n-1].At-list[0].At).Seconds(), want.perSecond)
			within("prompt tokens", float64(prompts)/n, want.prompt)
			within("shared", trace.Shared(list), want.shared)
			require.LessOrEqual(t, longest, want.longest)
		})
	}
	_, err := trace.Generate("rain", 1)
	require.ErrorContains(t, err, "choose one of agents")
}

// TestAgentsGoOn: a session's next prompt begins with the whole sequence before it.
func TestAgentsGoOn(t *testing.T) {
	last, turns := map[string]trace.Request{}, 0
	for _, r := range generate(t, trace.AgentsName, 1, 3000) {
		if before, ok := last[r.Session]; ok {
			require.Equal(t, before.Parts, r.Parts[:len(before.Parts)])
			require.Greater(t, r.At, before.At)
			turns++
		}
		last[r.Session] = r
	}
	require.Greater(t, turns, 2000)
}

// TestBurstsCome: many requests about one long text within a second.
func TestBurstsCome(t *testing.T) {
	begins, many := map[uint64]time.Duration{}, map[uint64]int{}
	for _, r := range generate(t, trace.BurstsName, 1, 5000) {
		if text := r.Parts[0]; text.Tokens >= 20_000 {
			if many[text.ID] == 0 {
				begins[text.ID] = r.At
			}
			many[text.ID]++
			require.Less(t, r.At-begins[text.ID], 5*time.Second)
		}
	}
	require.Greater(t, len(many), 5)
	for id, n := range many {
		require.True(t, begins[id] > 0 && n <= 125)
	}
}

func TestOpenFindsTheFormat(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write([]byte(small))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	for name, tokens := range map[string]int{
		write("a.jsonl", small): 1000, write("b.jsonl.gz", packed.String()): 1000,
		write("c.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"): 374,
		write("d.jsonl", `{"at":12.5,"prompt_tokens":40,"output_tokens":9}`):                            40,
		// As spreadsheets and some editors write them.
		write("marked.jsonl", "\ufeff"+small): 1000,
		write("marked.csv", "\ufeffTIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,375,44\r\n"): 375,
	} {
		s, err := trace.Open(name, 1)
		require.NoError(t, err)
		r, err := s.Next()
		require.NoError(t, err)
		require.Equal(t, tokens, r.PromptTokens, name)
		require.Equal(t, tokens == 1000, s.Tick > 0, name)
		require.NoError(t, s.Close())
	}
	s, err := trace.Open(trace.AgentsName, 1)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = s.Next()
	require.NoError(t, err)
	_, err = trace.Open("agent", 1)
	require.ErrorContains(t, err, "neither a file nor one of the generators")
	_, err = trace.Open(filepath.Join(dir, "none.csv"), 1)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = trace.Open(write("e.jsonl.gz", "plain"), 1)
	require.ErrorContains(t, err, "e.jsonl.gz")
}
