package hf

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// cutter knows where a text can be cut so that the ids of the parts are those of the whole. It is decided from the structure of
// a tokenizer.json, and where that does not show it, there is no such place: see the package comment.
type cutter struct {
	// tokens are the added tokens that are found in the text as it is, before anything else is done with it; nil: there is no
	// cutting before them.
	tokens  map[string]struct{}
	lengths []int // of the tokens, the longest first
	first   [256]bool

	// after says, for each kind of character, which blanks begin a piece of their own behind it, whatever stands around them.
	after [len(cutKinds)][len(cutBlanks)]bool
	// words: a blank behind any character begins a word, but behind those of joined, to which the vocabulary joins one.
	words  bool
	joined map[rune]struct{}
}

// cutKinds are kinds of characters that a text may be cut behind. They are in Unicode since long, and none of them is ever
// composed with one before it. The order is that of [cutter.after].
var cutKinds = [...]runeSet{
	{'A', 'Z', 'a', 'z', 'А', 'я', 'ぁ', 'ゖ', 'ァ', 'ヺ', '一', '龥', '가', '힣'},
	{'0', '9'},
	{'!', '/', ':', '@', '[', '`', '{', '~', '、', '。', '！', '！', '，', '，', '？', '？'},
}

// cutBlanks are those that a text may be cut before.
var cutBlanks = [...]byte{' ', '\n', '\r', '\t'}

// triesMax bounds how many places are looked at closely for one cut. A text that was made to have more runs whole.
const triesMax = 1000

func newCutter(p *pipeline, v *vocabulary) cutter {
	var c cutter
	if !p.model.deterministic() || slices.ContainsFunc(v.added, func(t SpecialToken) bool { return t.LStrip || t.SingleWord }) {
		return c // a token looks at what stands around it
	}
	c.cutAtTokens(v.added)
	if slices.ContainsFunc(v.added, func(t SpecialToken) bool { return t.RStrip }) {
		return c
	}
	c.cutAtPieces(p)
	c.cutAtWords(p, v)
	for i, blank := range cutBlanks {
		if !slices.ContainsFunc(v.added, func(t SpecialToken) bool { return strings.LastIndexByte(t.Content, blank) > 0 }) {
			continue
		}
		for kind := range c.after { // the blank may be in the midst of a token
			c.after[kind][i] = false
		}
		c.words = c.words && blank != ' '
	}
	return c
}

// cutAtTokens has texts cut before added tokens: what stands between two of them goes through the rest of the pipeline alone.
func (c *cutter) cutAtTokens(added []SpecialToken) {
	c.tokens = map[string]struct{}{}
	for _, t := range added {
		if t.Normalized || t.Content == "" {
			continue // it is looked for later, in the pieces that the others leave
		}
		c.tokens[t.Content] = struct{}{}
		c.first[t.Content[0]] = true
		c.lengths = append(c.lengths, len(t.Content))
	}
	slices.Sort(c.lengths)
	c.lengths = slices.Compact(c.lengths)
	slices.Reverse(c.lengths)
}

// cutAtPieces has texts of byte-level models cut where their patterns begin a new piece whatever stands around: where no match
// of any of them holds the two characters side by side, and one of them has the first in a match for certain.
func (c *cutter) cutAtPieces(p *pipeline) {
	if !p.byteLevel() || slices.ContainsFunc(p.normalizers, func(s stage) bool { return s.Type != "NFC" }) {
		return
	}
	var splitters []splitter
	for i := range p.pretokenizers {
		pattern, ok := patternOf(&p.pretokenizers[i], i == len(p.pretokenizers)-1)
		if !ok {
			return
		}
		if pattern == "" {
			continue
		}
		made, ok := newSplitter(pattern)
		if !ok {
			return
		}
		splitters = append(splitters, made)
	}
	for kind, x := range cutKinds {
		if !slices.ContainsFunc(splitters, func(s splitter) bool { return s.covers(x) }) {
			continue
		}
		for i, y := range cutBlanks {
			c.after[kind][i] = !slices.ContainsFunc(splitters, func(s splitter) bool { return s.joins(x, rune(y)) })
		}
	}
}

// patternOf is the pattern by which a pre-tokenizer parts a text, "" if it does not; ok is false if it does something else.
func patternOf(s *stage, last bool) (pattern string, ok bool) {
	switch {
	case s.Type == "ByteLevel":
		if s.UseRegex == nil || *s.UseRegex {
			pattern = byteLevelPattern
		}
		return pattern, last && !s.AddPrefixSpace // else it alters what those behind it see, or the text of every piece
	case s.Type == "Digits":
		return `\p{N}+`, true
	case s.Type == "Split" && s.Pattern.Regex != nil && (s.Behavior == "Isolated" && !s.Invert || s.Behavior == "Removed" && s.Invert):
		return *s.Pattern.Regex, true
	}
	return "", false
}

// cutAtWords has texts of SentencePiece's BPE cut before a blank: such a model merges a whole text, but never into what its
// vocabulary lacks, and it has hardly any token with a blank behind something else.
func (c *cutter) cutAtWords(p *pipeline, v *vocabulary) {
	if _, known := v.ids[metaspace]; p.model.Type != "BPE" || p.byteLevel() || !known {
		return
	}
	spaced := len(p.normalizers) == 1 && p.normalizers[0].spacesOnly()
	switch pre := p.pretokenizers; {
	case spaced && len(pre) == 0:
	case spaced && len(pre) == 1 && pre[0].Type == "Split" && pre[0].Pattern.String != nil && *pre[0].Pattern.String == " ":
		// There are no blanks left for it.
	case len(p.normalizers) == 0 && len(pre) == 1 && pre[0].Type == "Metaspace" && pre[0].Replacement == metaspace:
		// What it prepends it prepends to what does not begin with a blank.
	default:
		return
	}
	c.words, c.joined = true, map[rune]struct{}{}
	for token := range v.ids {
		before := rune(-1)
		for _, r := range token {
			if string(r) == metaspace && before >= 0 && string(before) != metaspace {
				c.joined[before] = struct{}{}
			}
			before = r
		}
	}
}

// cut is the length of a text's first slice: of the longest that has at most most bytes and ends where the text can be cut, else
// of the shortest that does, which may be the whole text.
func (c *cutter) cut(text string, most int) int {
	if len(text) <= most {
		return len(text)
	}
	tries := triesMax
	for at := most; at > 0 && tries > 0; at-- {
		if c.safe(text, at, &tries) {
			return at
		}
	}
	for at := most + 1; at < len(text) && tries > 0; at++ {
		if c.safe(text, at, &tries) {
			return at
		}
	}
	return len(text)
}

// safe says whether a text can be cut at a place.
func (c *cutter) safe(text string, at int, tries *int) bool {
	if blank := slices.Index(cutBlanks[:], text[at]); blank >= 0 && c.parts(text[:at], blank) {
		return true
	}
	if !c.first[text[at]] || !c.begins(text[at:]) {
		return false
	}
	*tries--
	return !c.crossed(text, at)
}

// parts says whether a blank begins a new piece or word behind a text.
func (c *cutter) parts(before string, blank int) bool {
	x, size := utf8.DecodeLastRuneInString(before)
	if x == utf8.RuneError && size <= 1 {
		return false
	}
	if c.words && cutBlanks[blank] == ' ' && x != ' ' && string(x) != metaspace {
		if _, joined := c.joined[x]; !joined {
			return true
		}
	}
	for kind, set := range cutKinds {
		if c.after[kind][blank] && set.has(x) {
			return true
		}
	}
	return false
}

// begins says whether a text begins with an added token.
func (c *cutter) begins(text string) bool {
	return slices.ContainsFunc(c.lengths, func(n int) bool { return c.at(text, n) })
}

func (c *cutter) at(text string, n int) bool {
	if n > len(text) {
		return false
	}
	_, ok := c.tokens[text[:n]]
	return ok
}

// crossed says whether an added token begins before a place and ends behind it.
func (c *cutter) crossed(text string, at int) bool {
	if len(c.lengths) == 0 {
		return false
	}
	for start := max(0, at-c.lengths[0]+1); start < at; start++ {
		if !c.first[text[start]] {
			continue
		}
		for _, n := range c.lengths {
			if n <= at-start {
				break
			}
			if c.at(text[start:], n) {
				return true
			}
		}
	}
	return false
}
