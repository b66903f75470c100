package hf_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"plimsoll/testbench/shared"
	"plimsoll/tokenizer/hf"
)

// embedded is the path of the embedded model's tokenizer.
var embedded = filepath.Join("..", "simmodel", "model", "tokenizer.json")

// texts draws texts that are hard to cut: out of characters of all kinds, blanks of all kinds, what composes, and what tokens of the file
// are made of.
func texts(tok *hf.Tokenizer) *rapid.Generator[string] {
	atoms := []string{
		"a", "B", "word", "It's", "we'LL", "don't", "x'", "0", "12", "3456", " ", "  ", "    ", "\n", "\n\n", "\r\n", "\t", "\n \n", " \t ",
		".", ",", "!?", "...", "({[", "</", ">", "=>", "//", "-", "_", "'", "\"", "、", "。", "！", "（", "é", "e\u0301", "\u0301", "\u0338", "ｅ",
		"Я", "слово", "語", "漢字", "ひらがな", "カ", "か\u3099", "한국", "\u1112\u1161\u11ab", "\u11ab", "ﬁ", "ß", "ſ", "K", "Å", "☃", "👩\u200d💻", "🇩🇪", "\u200d", "\ufeff",
		"\u00a0", "\u3000", "\u2028", "\u0085", "\v", "\f", "\u0600", "▁", "▁▁", "▁a", ">▁</", "> </", "a▁b", "\ufffd", "²", "Ⅷ", "١٢", "अ", "ไทย", "\U00020000", "{% %}", "\x7f", "\u00ad",
	}
	for i, t := range tok.Specials() {
		if i%max(1, len(tok.Specials())/40) == 0 {
			half := t.Content[:len(t.Content)/2]
			for !utf8.ValidString(half) {
				half = half[:len(half)-1]
			}
			atoms = append(atoms, t.Content, t.Content, half, t.Content[len(half):])
		}
	}
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(atoms), 4, 30).Draw(t, "text"), "")
	})
}

// checkCuts wants every place at which a text may be cut to leave its ids as they are, and a text in slices to have the ids of the
// whole. It returns how many places there were.
func checkCuts(t *testing.T, tok *hf.Tokenizer) (places int) {
	t.Helper()
	draw := texts(tok)
	rapid.Check(t, func(t *rapid.T) {
		text := draw.Draw(t, "text")
		whole, err := tok.Encode(text, false)
		require.NoError(t, err)
		for at := 1; at < len(text); at++ {
			if tok.Cut(text, at) != at {
				continue
			}
			places++
			require.True(t, utf8.ValidString(text[:at]))
			head, err := tok.Encode(text[:at], false)
			require.NoError(t, err)
			tail, err := tok.Encode(text[at:], false)
			require.NoError(t, err)
			require.Equal(t, whole, slices.Concat(head, tail), "%q | %q", text[:at], text[at:])
		}
		most := rapid.IntRange(1, 40).Draw(t, "most")
		var sliced []uint32
		for rest := text; rest != ""; {
			n := tok.Cut(rest, most)
			require.Positive(t, n)
			ids, err := tok.Encode(rest[:n], false)
			require.NoError(t, err)
			sliced, rest = append(sliced, ids...), rest[n:]
		}
		require.True(t, slices.Equal(whole, sliced), "%q in slices of %d", text, most)
		if before, after, ok := tok.Frame(); ok {
			full, err := tok.Encode(text, true)
			require.NoError(t, err)
			require.True(t, slices.Equal(full, slices.Concat(before, whole, after)), "%q with special tokens", text)
		}
	})
	return places
}

// checkAtLeast wants no text to have fewer ids than it must.
func checkAtLeast(t *testing.T, tok *hf.Tokenizer) {
	t.Helper()
	draw, best := texts(tok), 0.0
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Repeat(draw.Draw(t, "text"), rapid.IntRange(1, 60).Draw(t, "times"))
		ids, err := tok.Encode(text, false)
		require.NoError(t, err)
		require.LessOrEqual(t, tok.AtLeast(text), len(ids), "%q", text)
		best = max(best, float64(tok.AtLeast(text))/float64(max(1, len(ids))))
	})
	for id := range uint32(tok.VocabSize()) { //nolint:gosec // bounded
		token, ok := tok.Token(id)
		if !ok || id%7 != 0 {
			continue
		}
		ids, err := tok.Encode(token, false)
		if err == nil {
			require.LessOrEqual(t, tok.AtLeast(token), len(ids), "%q", token)
		}
	}
	t.Logf("the bound is at best %.2f of the ids", best)
}

func TestEmbeddedIsCutAndBound(t *testing.T) {
	t.Parallel()
	tok, err := hf.Load(embedded)
	require.NoError(t, err)
	defer func() { require.NoError(t, tok.Close()) }()
	require.Greater(t, checkCuts(t, tok), 20, "places to cut at")
	checkAtLeast(t, tok)
	require.Positive(t, tok.AtLeast("a"))
	_, _, ok := tok.Frame()
	require.True(t, ok)
}

// edited is a tokenizer whose file has been changed.
func edited(t *testing.T, path string, edit func(file map[string]any)) *hf.Tokenizer {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(raw))
		require.NoError(t, err)
		raw, err = io.ReadAll(z)
		require.NoError(t, err)
	}
	file := map[string]any{}
	require.NoError(t, json.Unmarshal(raw, &file))
	edit(file)
	raw, err = json.Marshal(file)
	require.NoError(t, err)
	tok, err := hf.Parse(path, raw)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tok.Close()) })
	return tok
}

// TestCutsOfOtherFiles: whatever a file says, there are only cuts that are right, none if it can't be told, and no bound that is too high.
func TestCutsOfOtherFiles(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	flag := func(name string) func(object) {
		return func(file object) {
			for _, t := range file["added_tokens"].([]any) { //nolint:forcetypeassert // the file is ours
				t.(object)[name] = true //nolint:forcetypeassert // likewise
			}
		}
	}
	set := func(key string, value any) func(object) { return func(file object) { file[key] = value } }
	regex := func(pattern, behavior string, invert bool) any {
		return object{"type": "Split", "pattern": object{"Regex": pattern}, "behavior": behavior, "invert": invert}
	}
	bytesOnly := object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
	// The vocabulary then has tokens of what its own pattern never leaves in one piece, so that a wrong cut shows.
	sequence := func(stages ...any) func(object) {
		return func(file object) {
			file["pre_tokenizer"] = object{"type": "Sequence", "pretokenizers": stages}
			model := file["model"].(object)  //nolint:forcetypeassert // the file is ours
			vocab := model["vocab"].(object) //nolint:forcetypeassert // likewise
			merges := []any{}
			for i, pair := range [][2]string{{"a", "Ġ"}, {"d", "Ġ"}, {"2", "Ġ"}, {".", "Ġ"}, {"a", "Ċ"}, {"d", "Ċ"}, {".", "Ċ"}} {
				vocab[pair[0]+pair[1]] = 5000 + i
				merges = append(merges, []any{pair[0], pair[1]})
			}
			model["merges"] = append(merges, model["merges"].([]any)...) //nolint:forcetypeassert // likewise
		}
	}
	token := func(content string, normalized bool) func(object) {
		return func(file object) {
			file["added_tokens"] = append(file["added_tokens"].([]any), object{ //nolint:forcetypeassert // the file is ours
				"id": 4900, "content": content, "special": true, "normalized": normalized, "lstrip": false, "rstrip": false, "single_word": false,
			})
		}
	}
	const some, none = true, false
	for name, test := range map[string]struct {
		edit         func(object)
		cuts, bounds bool
	}{
		"lstrip":                               {flag("lstrip"), none, none},
		"rstrip":                               {flag("rstrip"), some, none},
		"single word":                          {flag("single_word"), none, some},
		"normalized":                           {flag("normalized"), some, some},
		"prefix space":                         {set("pre_tokenizer", object{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}), some, some},
		"no blank in a token":                  {token("ab cd", false), some, some},
		"a normalized token that is a blank":   {token("\n\n", true), some, some},
		"no normalizer":                        {set("normalizer", nil), some, some},
		"NFKC":                                 {set("normalizer", object{"type": "NFKC"}), some, none},
		"lower case":                           {set("normalizer", object{"type": "Lowercase"}), some, none},
		"a pattern that looks back":            {sequence(regex(`(?<=a)\s|\p{L}+|\s+`, "Isolated", false), bytesOnly), some, some},
		"a pattern that looks ahead":           {sequence(regex(`\p{L}+(?= )|\s+`, "Isolated", false), bytesOnly), some, some},
		"a pattern that knows the end":         {sequence(regex(`\p{L}+$|\s+`, "Isolated", false), bytesOnly), some, some},
		"a pattern over blanks":                {sequence(regex(`\p{L}+\s|\s+`, "Isolated", false), bytesOnly), some, some},
		"a pattern that leaves letters":        {sequence(regex(`\p{N}+`, "Isolated", false), bytesOnly), some, some},
		"only what matches is kept":            {sequence(regex(`\p{L}+|\p{N}|\s+`, "Removed", true), bytesOnly), some, none},
		"matches are dropped":                  {sequence(regex(`\s+`, "Removed", false), bytesOnly), some, none},
		"pieces are joined to those before":    {sequence(regex(`\s+`, "MergedWithPrevious", false), bytesOnly), some, some},
		"a set in a set":                       {sequence(regex(`[a-z[A-Z]]+|\s+`, "Isolated", false), bytesOnly), some, some},
		"bytes before a pattern":               {sequence(bytesOnly, regex(`\p{L}+|.`, "Isolated", false)), some, some},
		"Unicode's words":                      {sequence(regex(`\w+|\W`, "Isolated", false), bytesOnly), some, some},
		"dropout":                              {func(file object) { file["model"].(object)["dropout"] = 0.0 }, some, some}, //nolint:forcetypeassert // likewise
		"the newer pattern of a larger family": {sequence(regex(o200k, "Isolated", false), bytesOnly), some, some},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tok := edited(t, embedded, test.edit)
			require.Equal(t, test.cuts, checkCuts(t, tok) > 0)
			checkAtLeast(t, tok)
			require.Equal(t, test.bounds, tok.AtLeast("a") > 0)
		})
	}
}

// o200k is the pattern of gpt-oss.
const o200k = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
	`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
	`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`

// TestCutsOfSentencePieceFiles: the newer form of such files, where Metaspace does what a normalizer did.
func TestCutsOfSentencePieceFiles(t *testing.T) {
	t.Parallel()
	path := shared.Glob(t, "testdata", "tokenizers", "llama2", "tokenizer.json*")[0]
	for _, scheme := range []string{"first", "always", "never"} {
		for _, split := range []bool{false, true} {
			tok := edited(t, path, func(file map[string]any) {
				file["normalizer"] = nil
				file["pre_tokenizer"] = map[string]any{"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}
			})
			require.Greater(t, checkCuts(t, tok), 20, "%s %v", scheme, split)
			checkAtLeast(t, tok)
		}
	}
}

// TestBoundHoldsUnderNFC: what NFC makes of a character and its marks is never shorter than the bound reckons with.
func TestBoundHoldsUnderNFC(t *testing.T) {
	t.Parallel()
	least := func(s string) float64 {
		n := 0.0
		for i := range len(s) {
			if s[i] < utf8.RuneSelf {
				n++
			} else {
				n += 0.25
			}
		}
		return n
	}
	composed := 0
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		for _, s := range []string{string(r), norm.NFD.String(string(r))} {
			out := norm.NFC.String(s)
			require.GreaterOrEqual(t, float64(len(out)), least(s), "%U", r)
			if len(out) < len(s) {
				composed++
			}
		}
	}
	require.Greater(t, composed, 10_000)
}

// TestCutsOfLongTexts: prose is cut into slices of the size that is asked for; what has no such place is one slice.
func TestCutsOfLongTexts(t *testing.T) {
	t.Parallel()
	tok, err := hf.Load(embedded)
	require.NoError(t, err)
	defer func() { require.NoError(t, tok.Close()) }()
	const most = 64 << 10
	for name, text := range map[string]string{
		"prose":   strings.Repeat("The quick brown fox jumps over the lazy dog, and then again.\n", 20_000),
		"Chinese": strings.Repeat("敏捷的棕色狐狸跳过了懒狗，然后又跳了一次。\n一次又一次\n", 20_000),
		"code":    strings.Repeat("func f(x int) int {\n\treturn x + 1\n}\n\n", 20_000),
		"numbers": strings.Repeat("12.5, 7, 1e9\n", 40_000),
	} {
		for rest := text; len(rest) > most; {
			n := tok.Cut(rest, most)
			require.LessOrEqual(t, n, most, name)
			require.Greater(t, n, most-100, name)
			rest = rest[n:]
		}
	}
	for name, text := range map[string]string{
		"letters": strings.Repeat("x", 200_000), "blanks": strings.Repeat(" ", 200_000), "marks": strings.Repeat("=", 200_000),
	} {
		require.Equal(t, len(text), tok.Cut(text, most), name)
		require.Equal(t, 100_000, tok.Cut(text[:100_000]+"a\n"+text, most)-1, name)
	}
}
