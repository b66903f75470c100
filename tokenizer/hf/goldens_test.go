package hf_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/shared"
	"plimsoll/tokenizer/hf"
)

// golden is one line of goldens*.jsonl: what the Python library gives for a text, truncation and padding off.
type golden struct {
	Text           string   `json:"text"`
	IDs            []uint32 `json:"ids"`
	IDsWithSpecial []uint32 `json:"ids_with_special"`
	Decoded        string   `json:"decoded"`
	DecodedSkip    *string  `json:"decoded_skip"` // nil where it is the same as Decoded
}

// TestFamilies loads each tokenizer of the shared data once, since that takes long, and runs all that is to hold for it.
func TestFamilies(t *testing.T) {
	t.Parallel()
	for _, file := range shared.Glob(t, "testdata", "tokenizers", "*", "tokenizer.json*") {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			tok, err := hf.Load(file)
			require.NoError(t, err)
			defer func() { require.NoError(t, tok.Close()) }()
			t.Run("goldens of the Python library hold", func(t *testing.T) { checkGoldens(t, dir, tok) })
			t.Run("vocabulary agrees with the library", func(t *testing.T) { checkVocabulary(t, tok) })
			t.Run("slices have the ids of the whole", func(t *testing.T) { require.Greater(t, checkCuts(t, tok), 10, "places to cut at") })
			t.Run("no text has fewer ids than it must", func(t *testing.T) { checkAtLeast(t, tok) })
		})
	}
}

func checkGoldens(t *testing.T, dir string, tok *hf.Tokenizer) {
	t.Helper()
	lines := 0
	for _, file := range shared.Glob(t, "testdata", "tokenizers", filepath.Base(dir), "goldens*.jsonl*") {
		for _, g := range shared.Lines[golden](t, file) {
			lines++
			checkEncode(t, tok, g.Text, g.IDs, false)
			checkEncode(t, tok, g.Text, g.IDsWithSpecial, true)
			checkDecode(t, tok, g.IDs, g.Decoded, false)
			skip := g.Decoded
			if g.DecodedSkip != nil {
				skip = *g.DecodedSkip
			}
			checkDecode(t, tok, g.IDs, skip, true)
		}
	}
	t.Logf("%d lines", lines)
	require.NotZero(t, lines)
}

// checkEncode wants the golden's ids; a text with NUL, which the golden's library takes, is refused.
func checkEncode(t *testing.T, tok *hf.Tokenizer, text string, want []uint32, addSpecial bool) {
	t.Helper()
	got, err := tok.Encode(text, addSpecial)
	if strings.Contains(text, "\x00") {
		var bad *hf.BadInput
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "text", bad.Param)
		return
	}
	require.NoError(t, err, "%q", text)
	require.True(t, slices.Equal(want, got), "%q (special %v)\nwant %v\ngot  %v", text, addSpecial, want, got)
}

func checkDecode(t *testing.T, tok *hf.Tokenizer, ids []uint32, want string, skipSpecial bool) {
	t.Helper()
	got, err := tok.Decode(ids, skipSpecial)
	require.NoError(t, err)
	require.Equal(t, want, got, "ids %v (skip %v)", ids, skipSpecial)
}

// checkVocabulary wants what Go reads of the file to agree with what the library does with it.
func checkVocabulary(t *testing.T, tok *hf.Tokenizer) {
	t.Helper()
	require.NotEmpty(t, tok.Specials())
	for _, s := range tok.Specials() {
		id, ok := tok.TokenID(s.Content)
		require.True(t, ok)
		require.Equal(t, s.ID, id)
		spelling, ok := tok.Token(id)
		require.True(t, ok)
		require.Equal(t, s.Content, spelling)
		require.Equal(t, s.Special, tok.IsSpecial(id))
		if !s.Normalized && !s.LStrip && !s.RStrip {
			ids, err := tok.Encode(s.Content, false)
			require.NoError(t, err)
			require.Equal(t, []uint32{id}, ids, "%q", s.Content)
		}
	}
	_, err := tok.Decode([]uint32{uint32(tok.VocabSize() - 1)}, false)
	require.NoError(t, err)
	_, err = tok.Decode([]uint32{0, uint32(tok.VocabSize())}, false)
	var bad *hf.BadInput
	require.ErrorAs(t, err, &bad)
	require.Contains(t, bad.Message, "position 1")
}
