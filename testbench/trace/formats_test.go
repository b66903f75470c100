package trace_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/testbench/trace"
)

func TestAzure(t *testing.T) {
	for name, text := range map[string]string{
		"2023": "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,0\r\n",
		"2024": "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-12 00:00:00.000000+00:00,374,44\n2024-05-12 00:00:04.314579+00:00,396,0\n",
	} {
		list, err := trace.Take(trace.Azure(strings.NewReader(text)), 10)
		require.NoError(t, err, name)
		require.Equal(t, []trace.Request{
			{PromptTokens: 374, OutputTokens: 44}, {Number: 1, At: 4314579 * time.Microsecond, PromptTokens: 396, OutputTokens: 1},
		}, list, name)
	}
	const head = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
	for want, text := range map[string]string{
		"line 1 is not the head":          "2023-11-16 18:15:46.6805900,374,44\n",
		"line 2: TIMESTAMP \"yesterday\"": head + "yesterday,374,44\n",
		"line 3: ContextTokens":           head + "2023-11-16 18:15:46,374,44\n2023-11-16 18:15:46,many,44\n",
		"line 2: 0 prompt":                head + "2023-11-16 18:15:46,0,44\n",
		"line 3: it comes before":         head + "2023-11-16 18:15:46,374,44\n2023-11-16 18:15:45,374,44\n",
		"line 2: wrong number of fields":  head + "2023-11-16 18:15:46,374\n",
	} {
		_, err := trace.Take(trace.Azure(strings.NewReader(text)), 10)
		require.ErrorContains(t, err, want)
	}
}

func TestOwn(t *testing.T) {
	const text = `{"at":12.5,"prompt_tokens":40,"output_tokens":9,"max_tokens":64,"block_tokens":16,"blocks":"000000000000000a00000000000000ff","session":"s","tenant":"acme","class":"batch"}

{"at":12.75,"prompt_tokens":40,"output_tokens":9,"parts":[["a",32],["2f",8]]}
{"at":13,"prompt_tokens":1,"output_tokens":1}
{"at":13,"prompt_tokens":1,"output_tokens":0,"outcome":"refused"}
`
	list, err := trace.Take(trace.Own(strings.NewReader(text)), 10)
	require.NoError(t, err)
	require.Equal(t, []trace.Request{
		{
			At: 12500 * time.Millisecond, PromptTokens: 40, OutputTokens: 9, MaxTokens: new(64),
			Parts: []trace.Part{{10, 16}, {255, 16}}, Session: "s", Tenant: "acme", Class: "batch",
		},
		{Number: 1, At: 12750 * time.Millisecond, PromptTokens: 40, OutputTokens: 9, Parts: []trace.Part{{10, 32}, {0x2f, 8}}},
		{Number: 2, At: 13 * time.Second, PromptTokens: 1, OutputTokens: 1},
		{Number: 3, At: 13 * time.Second, PromptTokens: 1, OutputTokens: 1, Outcome: trace.Refused},
	}, list)
	for want, text := range map[string]string{
		"line 1: at is missing":                `{"prompt_tokens":1,"output_tokens":1}`,
		"line 2: it comes before":              `{"at":1,"prompt_tokens":1,"output_tokens":1}` + "\n" + `{"at":0,"prompt_tokens":1,"output_tokens":1}`,
		"at least 1 of each":                   `{"at":1,"prompt_tokens":1}`,
		"max_tokens is 3":                      `{"at":1,"prompt_tokens":1,"output_tokens":4,"max_tokens":3}`,
		"blocks and block_tokens go together":  `{"at":1,"prompt_tokens":1,"output_tokens":1,"blocks":"000000000000000a"}`,
		"not of 16 hexadecimal digits":         `{"at":1,"prompt_tokens":1,"output_tokens":1,"blocks":"0a","block_tokens":16}`,
		"block_tokens is -1":                   `{"at":1,"prompt_tokens":1,"output_tokens":1,"blocks":"000000000000000a","block_tokens":-1}`,
		"its ID is no hexadecimal":             `{"at":1,"prompt_tokens":1,"output_tokens":1,"parts":[["x",16]]}`,
		"is no pair":                           `{"at":1,"prompt_tokens":1,"output_tokens":1,"parts":[["a"]]}`,
		"it needs at least one token":          `{"at":1,"prompt_tokens":1,"output_tokens":1,"parts":[["a",0]]}`,
		"taken for a mistake":                  `{"at":1,"prompt_tokens":99999999999,"output_tokens":1}`,
		"line 1: invalid character 'p'":        `prompt`,
		"line 1: json: cannot unmarshal array": `[]`,
	} {
		_, err := trace.Take(trace.Own(strings.NewReader(text)), 10)
		require.ErrorContains(t, err, want, text)
	}
}

// requests draws traces.
func requests() *rapid.Generator[[]trace.Request] {
	return rapid.Custom(func(t *rapid.T) []trace.Request {
		list := make([]trace.Request, rapid.IntRange(0, 30).Draw(t, "requests"))
		at := time.Duration(0)
		for i := range list {
			r := &list[i]
			at += time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "gap"))
			*r = trace.Request{
				Number: uint64(i), At: at, PromptTokens: rapid.IntRange(1, 3000).Draw(t, "prompt"), OutputTokens: rapid.IntRange(1, 500).Draw(t, "output"),
				Session: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "session"),
			}
			if rapid.Bool().Draw(t, "limited") {
				r.MaxTokens = new(r.OutputTokens + rapid.IntRange(0, 100).Draw(t, "more"))
			}
			for range rapid.IntRange(0, 6).Draw(t, "parts") {
				r.Parts = append(r.Parts, trace.Part{ID: rapid.Uint64().Draw(t, "id"), Tokens: rapid.IntRange(1, 600).Draw(t, "tokens")})
			}
		}
		return list
	})
}

// TestOwnKeepsEverything: what is written is read again, whatever the parts are.
func TestOwnKeepsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := requests().Draw(t, "list")
		var file bytes.Buffer
		for _, r := range list {
			require.NoError(t, trace.Write(&file, r))
		}
		read, err := trace.Take(trace.Own(&file), len(list)+1)
		require.NoError(t, err)
		require.Equal(t, list, append([]trace.Request{}, read...))
	})
}

func TestSpreadMovesRequestsInsideTheirTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := requests().Draw(t, "list")
		tick := time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "tick"))
		seed := rapid.Uint64().Draw(t, "seed")
		moved, err := trace.Take(trace.Spread(trace.List(list), tick, seed), len(list)+1)
		require.NoError(t, err)
		again, err := trace.Take(trace.Spread(trace.List(list), tick, seed), len(list)+1)
		require.NoError(t, err)
		require.Equal(t, moved, again)
		require.Len(t, moved, len(list))
		require.True(t, slices.IsSortedFunc(moved, func(a, b trace.Request) int { return int(a.At - b.At) }))
		for _, r := range moved {
			was := list[r.Number].At
			require.GreaterOrEqual(t, r.At, was)
			require.LessOrEqual(t, r.At, was+tick)
		}
	})
}

func TestCutCountsTimesFromItsFirstRequest(t *testing.T) {
	list := read(t, small, 10)
	cut, err := trace.Take(trace.Cut(trace.List(list), 1, 1), 10)
	require.NoError(t, err)
	require.Len(t, cut, 1)
	require.Zero(t, cut[0].At)
	require.Equal(t, uint64(1), cut[0].Number)

	for i := range list {
		list[i].At += time.Hour
	}
	cut, err = trace.Take(trace.Cut(trace.List(list), 0, 10), 10)
	require.NoError(t, err)
	require.Len(t, cut, len(list))
	for i := range cut {
		require.Equal(t, list[i].At-list[0].At, cut[i].At)
	}
	_, err = trace.Cut(trace.List(list), 4, 1).Next()
	require.ErrorIs(t, err, io.EOF)
}

func TestScaledAndSqueezedRefuseWhatMakesNoSense(t *testing.T) {
	_, err := trace.Scaled(trace.List(nil), 0)
	require.Error(t, err)
	_, err = trace.Squeezed(trace.List(nil), 0)
	require.Error(t, err)
	scaled, err := trace.Scaled(trace.List(read(t, small, 10)), 3)
	require.NoError(t, err)
	list, err := trace.Take(scaled, 3)
	require.NoError(t, err)
	require.Equal(t, trace.Faster(read(t, small, 10), 3), list)
}

// TestAnswersGoOnInLaterPrompts: the tokens of a sequence are those of its parts, whoever has them.
func TestAnswersGoOnInLaterPrompts(t *testing.T) {
	text := trace.Text{VocabSize: 1000}
	first := trace.Request{Number: 3, PromptTokens: 10, OutputTokens: 7, Parts: []trace.Part{{1, 10}, {2, 7}}}
	second := trace.Request{Number: 4, PromptTokens: 20, OutputTokens: 1, Parts: []trace.Part{{1, 10}, {2, 7}, {5, 3}}}
	whole := text.Sequence(nil, first)
	require.Len(t, whole, 17)
	require.Equal(t, text.Prompt(nil, first), whole[:10])
	require.Equal(t, whole, text.Prompt(nil, second)[:17])
	alone := trace.Request{Number: 3, PromptTokens: 10, OutputTokens: 7}
	other := trace.Request{Number: 4, PromptTokens: 10, OutputTokens: 7}
	require.NotEqual(t, text.Sequence(nil, alone), text.Sequence(nil, other))
}

// FuzzFormats: no reader panics, gives what its check refuses, or goes back in time.
func FuzzFormats(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"))
	f.Add([]byte(`{"at":12.5,"prompt_tokens":40,"output_tokens":9,"block_tokens":16,"blocks":"000000000000000a"}`))
	f.Add([]byte(`{"at":12.5,"prompt_tokens":40,"output_tokens":9,"parts":[["a",32],["2f",8]]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, format := range []func(io.Reader) trace.Source{trace.Mooncake, trace.Azure, trace.Own} {
			source := format(bytes.NewReader(text))
			last := time.Duration(0)
			for n := uint64(0); ; n++ {
				r, err := source.Next()
				if err != nil {
					if !errors.Is(err, io.EOF) {
						require.ErrorContains(t, err, "trace: ")
					}
					break
				}
				require.Equal(t, n, r.Number)
				require.GreaterOrEqual(t, min(r.PromptTokens, r.OutputTokens), 1)
				if n > 0 {
					require.GreaterOrEqual(t, r.At, last)
				}
				last = r.At
			}
		}
	})
}
