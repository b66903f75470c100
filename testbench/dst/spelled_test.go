package dst

import (
	"encoding/json"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/tokenizer"
)

// byteLevel is how a byte-level vocabulary writes a byte: the printable ones as they are, the others from U+0100 on.
func byteLevel(b byte) rune {
	next := rune(0x100)
	for c := range rune(256) {
		printable := c >= '!' && c <= '~' || c >= 0xa1 && c <= 0xac || c >= 0xae
		switch {
		case c == rune(b) && printable:
			return c
		case c == rune(b):
			return next
		case !printable:
			next++
		}
	}
	panic("no byte")
}

// spelled is the first driver's vocabulary as a model's folder.
func spelled(t *testing.T) *tokenizer.Model {
	t.Helper()
	vocab := map[string]uint32{"<end>": idEnd}
	for id := uint32(1); id < vocabulary; id++ {
		var token []rune
		for _, b := range spelling(id) {
			token = append(token, byteLevel(b))
		}
		vocab[string(token)] = id
	}
	require.Len(t, vocab, vocabulary)
	raw, err := json.Marshal(map[string]any{
		"version":       "1.0",
		"added_tokens":  []any{map[string]any{"id": idEnd, "content": "<end>", "special": true, "normalized": false, "lstrip": false, "rstrip": false, "single_word": false}},
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
		"decoder":       map[string]any{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
		"model":         map[string]any{"type": "BPE", "vocab": vocab, "merges": []any{}},
	})
	require.NoError(t, err)
	m, err := tokenizer.Load(fstest.MapFS{
		"tokenizer.json":        {Data: raw},
		"tokenizer_config.json": {Data: []byte(`{"eos_token": "<end>"}`)},
	}, "letters", time.Now)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	require.Equal(t, streamModel.EndTokens, m.Ends())
	return m
}

// TestTheVocabularyIsSpelledAlike: the tokenizer that the node has says what the simulator's decoder says.
func TestTheVocabularyIsSpelledAlike(t *testing.T) {
	t.Parallel()
	m := spelled(t)
	w := newWorld(Config{Seed: 1})
	for range 2000 {
		ids := w.drawTokens(1 + w.rng.IntN(12))
		if w.chance(0.2) {
			ids = append(ids, idEnd)
		}
		want, err := letters{}.Decode(ids, true)
		require.NoError(t, err)
		got, err := m.Decode(ids, true)
		require.NoError(t, err)
		require.Equal(t, want, got, "%v", ids)
	}
}
