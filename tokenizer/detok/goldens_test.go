package detok_test

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/shared"
	"plimsoll/tokenizer/detok"
	"plimsoll/tokenizer/hf"
)

// golden is one line of stream*.jsonl: what an incremental detokenizer gives out, id by id.
type golden struct {
	IDs         []uint32 `json:"ids"`
	SkipSpecial bool     `json:"skip_special"`
	Full        string   `json:"full"`
	Pieces      []string `json:"pieces"`
	Flush       string   `json:"flush"`
	Exact       bool     `json:"exact"` // false: the decoder takes back text that was given out
}

// TestFamilies loads each tokenizer of the shared data once, since that takes long, and runs all that is to hold for it.
func TestFamilies(t *testing.T) {
	t.Parallel()
	streams := map[string][]string{}
	for _, file := range shared.Glob(t, "testdata", "tokenizers", "*", "stream*.jsonl*") {
		dir := filepath.Dir(file)
		streams[dir] = append(streams[dir], file)
	}
	for dir, files := range streams {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			tok, err := hf.Load(shared.Glob(t, "testdata", "tokenizers", filepath.Base(dir), "tokenizer.json*")[0])
			require.NoError(t, err)
			defer func() { require.NoError(t, tok.Close()) }()
			for _, file := range files {
				t.Run(filepath.Base(file), func(t *testing.T) { checkPieces(t, tok, file) })
			}
			t.Run("an answer continues the prompt", func(t *testing.T) { checkContinuation(t, tok) })
		})
	}
}

func checkPieces(t *testing.T, tok *hf.Tokenizer, file string) {
	t.Helper()
	lines := shared.Lines[golden](t, file)
	require.NotEmpty(t, lines)
	for _, g := range lines {
		s := detok.New(tok, detok.Config{SkipSpecial: g.SkipSpecial})
		var text strings.Builder
		for i, id := range g.IDs {
			piece, err := s.Push(id)
			require.NoError(t, err)
			require.Equal(t, g.Pieces[i], piece, "id %d of %v", i, g.IDs)
			require.True(t, utf8.ValidString(piece))
			text.WriteString(piece)
		}
		rest, err := s.Flush()
		require.NoError(t, err)
		if g.Exact {
			require.Equal(t, g.Flush, rest)
			require.Equal(t, g.Full, text.String()+rest)
		}
	}
}

// checkContinuation wants of an answer that continues the prompt's text what the text of both has after that of the prompt.
func checkContinuation(t *testing.T, tok *hf.Tokenizer) {
	t.Helper()
	ids, err := tok.Encode("The quick brown fox jumps over the lazy dog, naïve café, 日本語 too. And so on, and so forth.", false)
	require.NoError(t, err)
	full, err := tok.Decode(ids, true)
	require.NoError(t, err)
	for cut := 1; cut < len(ids); cut++ {
		before, err := tok.Decode(ids[:cut], true)
		require.NoError(t, err)
		before = strings.TrimRight(before, "\uFFFD")
		s := detok.New(tok, detok.Config{SkipSpecial: true, PromptTail: ids[:cut]})
		require.Equal(t, full, before+all(t, s, ids[cut:]), "cut at %d", cut)
	}
}

// all is the text of a whole answer, flush included.
func all(t *testing.T, s *detok.Stream, ids []uint32) string {
	t.Helper()
	var text strings.Builder
	for _, id := range ids {
		piece, err := s.Push(id)
		require.NoError(t, err)
		text.WriteString(piece)
	}
	rest, err := s.Flush()
	require.NoError(t, err)
	return text.String() + rest
}
