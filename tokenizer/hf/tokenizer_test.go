package hf_test

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"plimsoll/tokenizer/hf"
)

// small is the embedded model's tokenizer, which needs no data from outside the repository.
func small(tb testing.TB) *hf.Tokenizer {
	tb.Helper()
	tok, err := hf.Load(filepath.Join("..", "simmodel", "model", "tokenizer.json"))
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = tok.Close() })
	return tok
}

func TestEncodeRefusesNUL(t *testing.T) {
	tok := small(t)
	_, err := tok.Encode("ab\x00cd", false)
	var bad *hf.BadInput
	require.ErrorAs(t, err, &bad)
	require.Equal(t, hf.BadInput{Param: "text", Message: "the text holds a NUL character (U+0000) at byte 2, which can't be encoded"}, *bad)
}

func TestDecodeKeepsNUL(t *testing.T) {
	tok := small(t)
	nul, ok := tok.TokenID("Ā")
	require.True(t, ok)
	for _, test := range []struct{ before, after string }{
		{"", ""}, {"a", "b"}, {"day ", " 日本"}, {"\x01\x02", "\x02\x01"}, {"<think>", "<|im_end|>"},
	} {
		before, err := tok.Encode(test.before, false)
		require.NoError(t, err)
		after, err := tok.Encode(test.after, false)
		require.NoError(t, err)
		ids := append(append(append(before, nul), after...), nul, nul)
		got, err := tok.Decode(ids, false)
		require.NoError(t, err)
		require.Equal(t, test.before+"\x00"+test.after+"\x00\x00", got)
		got, err = tok.Decode(ids, true)
		require.NoError(t, err)
		require.Equal(t, test.before+"\x00"+strings.TrimSuffix(test.after, "<|im_end|>")+"\x00\x00", got)
	}
}

// A vocabulary without single bytes can't spell such a token: an error, never a text that lacks it.
func TestDecodeDoesNotLoseANULItCannotSpell(t *testing.T) {
	tok, err := hf.Parse("some.json", []byte(strings.Replace(smallest, `"a":0`, `"a\u0000":0`, 1)))
	require.NoError(t, err)
	defer func() { require.NoError(t, tok.Close()) }()
	text, err := tok.Decode([]uint32{1, 1}, false)
	require.NoError(t, err)
	require.Equal(t, "b b", text)
	_, err = tok.Decode([]uint32{1, 0}, false)
	require.ErrorContains(t, err, "the id 0: the text holds a NUL character")
}

func TestDecodeNamesTheUnknownID(t *testing.T) {
	tok := small(t)
	for _, id := range []uint32{uint32(tok.VocabSize()), 1 << 31, 1<<32 - 1} {
		_, err := tok.Decode([]uint32{1, 2, id}, true)
		var bad *hf.BadInput
		require.ErrorAs(t, err, &bad)
		require.Contains(t, bad.Message, "at position 2")
		_, ok := tok.Token(id)
		require.False(t, ok)
		require.False(t, tok.IsSpecial(id))
	}
}

// The library fails silently: here on a word that the vocabulary lacks, with no token for unknown words.
func TestEncodeReportsAFailingPipeline(t *testing.T) {
	tok, err := hf.Parse("some.json", []byte(strings.Replace(smallest, `"unk_token":"b"`, `"unk_token":"none"`, 1)))
	require.NoError(t, err)
	defer func() { require.NoError(t, tok.Close()) }()
	ids, err := tok.Encode("a", false)
	require.NoError(t, err)
	require.Equal(t, []uint32{0}, ids)
	_, err = tok.Encode("word", false)
	require.ErrorIs(t, err, hf.ErrPipeline)
}

func TestEmptyTextHasNoIDs(t *testing.T) {
	tok := small(t)
	ids, err := tok.Encode("", false)
	require.NoError(t, err)
	require.Empty(t, ids)
	text, err := tok.Decode(nil, false)
	require.NoError(t, err)
	require.Empty(t, text)
}

// Skipped are the tokens that the file calls special; those that only mark tool calls or thoughts stay in the text.
func TestSkipSpecialKeepsWhatIsNotSpecial(t *testing.T) {
	tok := small(t)
	ids, err := tok.Encode("<|im_start|><think>so<|im_end|></think>", false)
	require.NoError(t, err)
	text, err := tok.Decode(ids, true)
	require.NoError(t, err)
	require.Equal(t, "<think>so</think>", text)
}

func TestCloseBesideCallsIsSafe(t *testing.T) {
	tok, err := hf.Load(filepath.Join("..", "simmodel", "model", "tokenizer.json"))
	require.NoError(t, err)
	text := strings.Repeat("The crew loads the ship. ", 200)
	want, err := tok.Encode(text, false)
	require.NoError(t, err)
	var wg sync.WaitGroup
	started := make(chan struct{}, 8)
	for range 8 {
		wg.Go(func() {
			for first := true; ; first = false {
				ids, err := tok.Encode(text, false)
				if err == nil {
					_, err = tok.Decode(ids[:50], false)
				}
				if err != nil {
					if first {
						started <- struct{}{}
					}
					// Nothing but the closing ends a caller, and no caller sees a part of a result.
					require.ErrorIs(t, err, hf.ErrClosed)
					return
				}
				if len(ids) != len(want) {
					t.Errorf("%d ids beside a Close, want %d", len(ids), len(want))
				}
				if first {
					started <- struct{}{}
				}
			}
		})
	}
	for range 8 {
		<-started
	}
	require.NoError(t, tok.Close())
	wg.Wait()
	require.ErrorIs(t, tok.Close(), hf.ErrClosed)
}

func FuzzEncodeDecode(f *testing.F) {
	tok := small(f)
	for _, text := range []string{"", "a", "日本語", "e\u0301", "<|im_start|>user\nhi<|im_end|>", "\xff\xfe", "a\x00b", strings.Repeat(" ", 100), "<tool_call"} {
		f.Add(text, uint32(0), true)
	}
	f.Add("x", uint32(4095), false)
	f.Add("x", ^uint32(0), false)
	f.Fuzz(func(t *testing.T, text string, extra uint32, special bool) {
		ids, err := tok.Encode(text, special)
		if strings.Contains(text, "\x00") {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		decoded, err := tok.Decode(ids, false)
		require.NoError(t, err)
		require.True(t, utf8.ValidString(decoded))
		// The pipeline normalizes, and a second turn through it must change nothing more.
		again, err := tok.Encode(decoded, special)
		require.NoError(t, err)
		twice, err := tok.Decode(again, false)
		require.NoError(t, err)
		require.Equal(t, decoded, twice)
		_, err = tok.Decode(append(ids, extra), special)
		if int64(extra) >= int64(tok.VocabSize()) {
			require.Error(t, err)
		} else {
			require.NoError(t, err)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	tok := small(b)
	for _, bench := range []struct {
		name string
		text string
	}{
		{"chars=32000", strings.Repeat("The crew loads the ship up to the mark on its hull. ", 32000/52)},
		{"chars=1", "a"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(bench.text)))
			for b.Loop() {
				if _, err := tok.Encode(bench.text, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	tok := small(b)
	ids, err := tok.Encode(strings.Repeat("The crew loads the ship. ", 2), false)
	require.NoError(b, err)
	for _, bench := range []struct {
		name string
		n    int
	}{{"ids=1", 1}, {"ids=6", 6}} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tok.Decode(ids[:bench.n], true); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
