package simmodel_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/tokenizer/detok"
	"plimsoll/tokenizer/hf"
	"plimsoll/tokenizer/simmodel"
)

//nolint:gochecknoglobals // a flag of the test binary
var rewrite = flag.Bool("rewrite", false, "write testdata anew from what the code gives")

func model(tb testing.TB) (*hf.Tokenizer, *simmodel.Source) {
	tb.Helper()
	tok, err := simmodel.Tokenizer()
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = tok.Close() })
	source, err := simmodel.NewSource(tok)
	require.NoError(tb, err)
	return tok, source
}

// answer draws as the simulated engine does, with digests from a generator.
func answer(s *simmodel.Source, prompt []uint32, seed uint64, most int) (ids []uint32, ended bool) {
	rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a reproducible test
	context := append([]uint32(nil), prompt...)
	for len(ids) < most {
		if s.Ends(context, rng.Uint64()) {
			return ids, true
		}
		ids = append(ids, s.Next(context, rng.Uint64()))
		context = append(context, ids[len(ids)-1])
	}
	return ids, false
}

// text draws n ids, past the end of an answer.
func text(s *simmodel.Source, prompt []uint32, seed uint64, n int) []uint32 {
	rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a reproducible test
	context := append([]uint32(nil), prompt...)
	for range n {
		context = append(context, s.Next(context, rng.Uint64()))
	}
	return context[len(prompt):]
}

const chatPrompt = "<|im_start|>user\nWhat does the mark mean?<|im_end|>\n<|im_start|>assistant\n"

func TestAnswersReadAsProse(t *testing.T) {
	tok, source := model(t)
	prompt, err := tok.Encode(chatPrompt, false)
	require.NoError(t, err)
	var got strings.Builder
	for seed := range uint64(5) {
		ids, ended := answer(source, prompt, seed, 1000)
		require.True(t, ended)
		text, err := tok.Decode(ids, false)
		require.NoError(t, err)
		got.WriteString(text + "\n")
	}
	golden := filepath.Join("testdata", "answers.txt")
	if *rewrite {
		require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}

// An answer's ids are those of its text, no added token is among them, it ends with a sentence and is neither short nor long.
func TestAnswersEncodeToTheirIDs(t *testing.T) {
	tok, source := model(t)
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.SampledFrom([]string{chatPrompt, chatPrompt + "<think>\n\n</think>\n\n", "<|im_start|>assistant\n", "<|im_start|>"}).Draw(t, "prompt")
		prompt, err := tok.Encode(before, false)
		require.NoError(t, err)
		ids, ended := answer(source, prompt, rapid.Uint64().Draw(t, "seed"), 1000)
		require.True(t, ended)
		require.GreaterOrEqual(t, len(ids), 30) // 40, less the prompt's ids after its last added token
		require.Less(t, len(ids), 200)

		var streamed strings.Builder
		stream := detok.New(tok, detok.Config{SkipSpecial: true})
		for _, id := range ids {
			require.Less(t, id, uint32(source.VocabSize())) //nolint:gosec // small
			require.NotEqual(t, source.EOS(), id)
			for _, added := range tok.Specials() {
				require.NotEqual(t, added.ID, id)
			}
			piece, err := stream.Push(id)
			require.NoError(t, err)
			streamed.WriteString(piece)
		}
		require.True(t, strings.HasSuffix(streamed.String(), "."))
		whole, err := tok.Encode(before+streamed.String(), false)
		require.NoError(t, err)
		require.Equal(t, append(prompt, ids...), whole)
	})
}

// Another digest soon shows in the text, at the start of an answer and in the middle of one.
func TestDigestsShowInTheText(t *testing.T) {
	tok, source := model(t)
	start, err := tok.Encode(chatPrompt, false)
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64Max(1<<63).Draw(t, "seed")
		shared, _ := answer(source, start, seed, rapid.IntRange(0, 100).Draw(t, "shared"))
		prompt := append(append([]uint32(nil), start...), shared...)
		require.NotEqual(t, text(source, prompt, seed+1, 60), text(source, prompt, seed+2, 60))
	})
	// How soon, on average: more than one id in five is a choice.
	ids := text(source, start, 1, 400)
	choices := 0
	for i := range ids {
		context := append(append([]uint32(nil), start...), ids[:i]...)
		for digest := range uint64(32) {
			if source.Next(context, digest<<32|digest*7) != source.Next(context, 0) {
				choices++
				break
			}
		}
	}
	require.Greater(t, 5*choices, len(ids), "%d choices in %d ids", choices, len(ids))
}

// Any context has a next id, and only its end counts.
func TestNextIsAFunctionOfTheContextsEnd(t *testing.T) {
	tok, source := model(t)
	other, err := simmodel.NewSource(tok)
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		context := rapid.SliceOfN(rapid.Uint32Max(uint32(source.VocabSize())+10), 0, 40).Draw(t, "context") //nolint:gosec // small
		drawn, _ := answer(source, context, rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 60).Draw(t, "drawn"))
		context = append(context, drawn...)
		digest := rapid.Uint64().Draw(t, "digest")
		id := source.Next(context, digest)
		require.Equal(t, id, other.Next(context, digest))
		for _, added := range tok.Specials() {
			require.NotEqual(t, added.ID, id)
		}
		if len(drawn) > 0 {
			far := append(rapid.SliceOfN(rapid.Uint32Max(100), 0, 9).Draw(t, "before"), context...)
			require.Equal(t, id, source.Next(far, digest))
		}
	})
}

func TestTheFolderLoadsLikeAnyModels(t *testing.T) {
	tok, source := model(t)
	ends, err := tok.EndTokens(simmodel.FS(), simmodel.Name)
	require.NoError(t, err)
	require.Equal(t, []uint32{source.EOS()}, ends)
	require.Equal(t, 4098, tok.VocabSize())
	for content, special := range map[string]bool{
		"<|im_start|>": true, "<|im_end|>": true, "<|endoftext|>": true, "<think>": false, "</think>": false,
		"<tool_call>": false, "</tool_call>": false, "<tool_response>": false, "</tool_response>": false,
	} {
		id, ok := tok.TokenID(content)
		require.True(t, ok, content)
		require.Equal(t, special, tok.IsSpecial(id), content)
		ids, err := tok.Encode(content, false)
		require.NoError(t, err)
		require.Equal(t, []uint32{id}, ids)
	}
}

func BenchmarkNext(b *testing.B) {
	tok, source := model(b)
	prompt, err := tok.Encode(chatPrompt, false)
	require.NoError(b, err)
	ids, _ := answer(source, prompt, 3, 1000)
	context := append(prompt, ids...)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		end := len(prompt) + i%len(ids)
		if !source.Ends(context[:end], 1) {
			source.Next(context[:end], uint64(i)*0x9e3779b97f4a7c15) //nolint:gosec // wraps
		}
	}
}

func BenchmarkNewSource(b *testing.B) {
	tok, _ := model(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := simmodel.NewSource(tok); err != nil {
			b.Fatal(err)
		}
	}
}
