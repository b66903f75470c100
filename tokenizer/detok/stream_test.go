package detok_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"plimsoll/tokenizer/detok"
	"plimsoll/tokenizer/hf"
)

// small is the embedded model's tokenizer: byte-level, so that the text of all ids only ever grows.
func small(tb testing.TB) *hf.Tokenizer {
	tb.Helper()
	tok, err := hf.Load(filepath.Join("..", "simmodel", "model", "tokenizer.json"))
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = tok.Close() })
	return tok
}

// widest counts the longest list that a stream asks the decoder for.
type widest struct {
	detok.Decoder
	ids int
}

func (w *widest) Decode(ids []uint32, skip bool) (string, error) {
	w.ids = max(w.ids, len(ids))
	return w.Decoder.Decode(ids, skip)
}

func TestWindowStaysShort(t *testing.T) {
	tok := small(t)
	id := func(spelling string) uint32 {
		found, ok := tok.TokenID(spelling)
		require.True(t, ok, spelling)
		return found
	}
	for _, test := range []struct {
		name   string
		repeat []uint32
	}{
		{"one letter", []uint32{id("a")}},
		{"bytes that begin no character", []uint32{id("Ģ")}},               // 0x80
		{"beginnings of characters", []uint32{id("æ")}},                    // 0xE6
		{"characters in three bytes", []uint32{id("æ"), id("Ĺ"), id("¥")}}, // 日
		{"broken bytes and letters", []uint32{id("Ģ"), id("æ"), id("Ĺ"), id("a")}},
		{"special tokens that are skipped", []uint32{id("<|im_start|>")}},
		{"NUL", []uint32{id("Ā")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ids := slices.Repeat(test.repeat, 2000/len(test.repeat))
			want, err := tok.Decode(ids, true)
			require.NoError(t, err)
			decoder := &widest{Decoder: tok}
			require.Equal(t, want, all(t, detok.New(decoder, detok.Config{SkipSpecial: true}), ids))
			require.Less(t, decoder.ids, 80)
		})
	}
}

// fallback decodes as vocabularies with byte fallback do: an id below 256 is that byte, and a run of bytes that is invalid as a whole
// gives one U+FFFD for each, its complete characters included. Other ids are a letter.
type fallback struct{}

func (fallback) Decode(ids []uint32, _ bool) (string, error) {
	var out strings.Builder
	var run []byte
	end := func() {
		if utf8.Valid(run) {
			out.Write(run)
		} else {
			out.WriteString(strings.Repeat("\uFFFD", len(run)))
		}
		run = nil
	}
	for _, id := range ids {
		switch {
		case id < 256:
			run = append(run, byte(id))
		case id < 256+26:
			end()
			out.WriteByte(byte('A' + id - 256))
		default:
			return "", errors.New("no such id")
		}
	}
	end()
	return out.String(), nil
}

// What was given out stays given out, and what follows is not lost.
func TestTextThatTheDecoderTakesBackStays(t *testing.T) {
	for _, test := range []struct {
		name string
		ids  []uint32
		want string
	}{
		{"after a character", []uint32{0xE6, 0x97, 0xA5, 0xFF, 256, 257}, "日\uFFFDAB"},
		{"after a letter", []uint32{256, 0xE6, 0x97, 0xA5, 0xFF, 256, 257}, "A日\uFFFDAB"},
		{"only broken", []uint32{0xFF, 0xFF, 256}, "\uFFFD\uFFFDA"},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, all(t, detok.New(fallback{}, detok.Config{}), test.ids))
		})
	}
}

// spelled decodes whole lists of ids as it is told to.
type spelled map[string]string

func (s spelled) Decode(ids []uint32, _ bool) (string, error) {
	text, ok := s[fmt.Sprint(ids)]
	if !ok {
		return "", fmt.Errorf("%v is not spelled", ids)
	}
	return text, nil
}

// A decoder takes back text of the context and of the ids after it: what was given out of these does not come twice.
func TestWhatWasGivenOutOfPendingIDsIsNotGivenAgain(t *testing.T) {
	s := detok.New(spelled{
		"[]": "", "[1]": "A", "[1 2]": "A b\uFFFD",
		"[1 2 3]": "A-bcd", "[2 3]": " bcd", // the pending ones as a text of their own
		"[2 3 4]": " bcd!", "[4]": "!",
	}, detok.Config{})
	var pieces []string
	for id := range uint32(4) {
		piece, err := s.Push(id + 1)
		require.NoError(t, err)
		pieces = append(pieces, piece)
	}
	require.Equal(t, []string{"A", " b", "cd", "!"}, pieces)
}

// opening decodes each id as a letter and the beginning of a character, which the next letter breaks.
type opening struct{}

func (opening) Decode(ids []uint32, _ bool) (string, error) {
	var out strings.Builder
	for _, id := range ids {
		out.WriteByte(byte('a' + id))
		out.WriteRune(utf8.RuneError)
	}
	return out.String(), nil
}

// Every id gives text and every text ends inside a character, so that only force shortens the window: at each cut, what the last id has
// completed comes, too.
func TestACutByForceLosesNoText(t *testing.T) {
	ids := make([]uint32, 300)
	for i := range ids {
		ids[i] = uint32(i % 26)
	}
	decoder := &widest{Decoder: opening{}}
	want, err := decoder.Decode(ids, true)
	require.NoError(t, err)
	decoder.ids = 0
	require.Equal(t, want, all(t, detok.New(decoder, detok.Config{}), ids))
	require.Less(t, decoder.ids, 80)
}

func TestAnUnknownIDLeavesTheStreamAsItWas(t *testing.T) {
	s := detok.New(fallback{}, detok.Config{})
	piece, err := s.Push(256)
	require.NoError(t, err)
	require.Equal(t, "A", piece)
	_, err = s.Push(1000)
	require.Error(t, err)
	piece, err = s.Push(257)
	require.NoError(t, err)
	require.Equal(t, "B", piece)

	_, err = detok.New(fallback{}, detok.Config{PromptTail: []uint32{1000}}).Push(256)
	require.Error(t, err)
}

// FuzzDetok compares the stream with the rule of the goldens, taken over the whole list each time.
func FuzzDetok(f *testing.F) {
	tok := small(f)
	seed := func(text string) {
		ids, err := tok.Encode(text, false)
		require.NoError(f, err)
		var raw []byte
		for _, id := range ids {
			raw = binary.LittleEndian.AppendUint16(raw, uint16(id))
		}
		f.Add(raw, true)
		f.Add(raw[:max(0, len(raw)-2)], false)
	}
	seed("The crew loads the ship.")
	seed("日本語 👩‍🚀 naïve e\u0301 \uFFFD\uFFFD x")
	seed("<|im_start|>user\nhi<|im_end|>\n<think>")
	f.Add([]byte{0x80, 0, 0x81, 0, 0x82, 0, 188, 0, 188, 0}, false)
	f.Fuzz(func(t *testing.T, raw []byte, skip bool) {
		s := detok.New(tok, detok.Config{SkipSpecial: skip})
		var ids []uint32
		given := ""
		for ; len(raw) >= 2 && len(ids) < 60; raw = raw[2:] {
			ids = append(ids, uint32(binary.LittleEndian.Uint16(raw))%uint32(tok.VocabSize()))
			whole, err := tok.Decode(ids, skip)
			require.NoError(t, err)
			want := strings.TrimPrefix(strings.TrimRight(whole, "\uFFFD"), given)
			if len(strings.TrimRight(whole, "\uFFFD")) < len(given) {
				want = ""
			}
			piece, err := s.Push(ids[len(ids)-1])
			require.NoError(t, err)
			require.Equal(t, want, piece, "ids %v", ids)
			require.True(t, utf8.ValidString(piece))
			given += piece
		}
		rest, err := s.Flush()
		require.NoError(t, err)
		whole, err := tok.Decode(ids, skip)
		require.NoError(t, err)
		require.Equal(t, whole, given+rest)
		again, err := s.Flush()
		require.NoError(t, err)
		require.Empty(t, again)
	})
}

func BenchmarkPush(b *testing.B) {
	tok := small(b)
	ids, err := tok.Encode(strings.Repeat("The crew loads the ship up to the mark on its hull. ", 50), false)
	require.NoError(b, err)
	s := detok.New(tok, detok.Config{SkipSpecial: true})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := s.Push(ids[i%len(ids)]); err != nil {
			b.Fatal(err)
		}
	}
}
