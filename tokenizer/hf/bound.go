package hf

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// bound is how few ids a text can have.
type bound struct {
	// longest is how many bytes of normalized text one id can stand for at most; 0: nothing is known, because something on the
	// way drops text, or makes one id of any length of it.
	longest int
	// shares are, by byte, what part of an id it is at least: one divided by the length of the longest token that has it. The sum
	// over a token's bytes is never more than one.
	shares [256]float64
	// composes: the normalizer is NFC, which makes one character of a letter and its marks.
	composes bool
	// spells: the normalizer spells blanks in another way.
	spells bool
}

// composition is how many bytes outside ASCII NFC can leave one byte of: a mark of two bytes or a pair of them may vanish in
// the character that they belong to. Bytes of ASCII stay, or become a longer character.
const composition = 4

func newBound(p *pipeline, v *vocabulary) bound {
	byteLevel := p.byteLevel()
	whole := byteLevel && spellsBytes(v, byteCharacter) || p.model.ByteFallback && p.model.Type == "BPE" && spellsBytes(v, byteFallback)
	strips := slices.ContainsFunc(v.added, func(t SpecialToken) bool { return t.LStrip || t.RStrip })
	if !whole || strips {
		return bound{}
	}
	b := bound{}
	for i := range p.normalizers {
		switch s := &p.normalizers[i]; {
		case s.Type == "NFC":
			b.composes = true
		case s.Type == "Prepend":
		case s.spacesOnly():
			b.spells = true
		default:
			return bound{}
		}
	}
	for i := range p.pretokenizers {
		switch s := &p.pretokenizers[i]; s.Type {
		case "ByteLevel", "Digits":
		case "Metaspace":
			b.spells = true
		case "Split":
			if s.Behavior == "Removed" {
				return bound{}
			}
		default:
			return bound{}
		}
	}
	b.measure(v, byteLevel)
	return b
}

// measure finds the longest tokens.
func (b *bound) measure(v *vocabulary, byteLevel bool) {
	var bytes map[rune]byte // in byte-level vocabularies a character is a byte
	if byteLevel {
		bytes = map[rune]byte{}
		for i := range 256 {
			r, _ := utf8.DecodeRuneInString(byteCharacter(byte(i)))
			bytes[r] = byte(i)
		}
	}
	longest := [256]int{}
	note := func(token string) {
		b.longest = max(b.longest, len(token))
		for i := range len(token) {
			longest[token[i]] = max(longest[token[i]], len(token))
		}
	}
	for token := range v.ids {
		if byteLevel {
			token = spelled(token, bytes)
		}
		note(token)
	}
	for _, t := range v.added {
		note(t.Content)
	}
	for i := range longest {
		b.shares[i] = 1 / float64(max(1, longest[i]))
	}
}

// spelled is the text of a byte-level token; of one that is spelled otherwise, itself.
func spelled(token string, bytes map[rune]byte) string {
	text := make([]byte, 0, len(token))
	for _, r := range token {
		c, ok := bytes[r]
		if !ok {
			return token
		}
		text = append(text, c)
	}
	return string(text)
}

// atLeast is how many ids a text has at least.
func (b *bound) atLeast(text string) int {
	if b.longest == 0 {
		return 0
	}
	least, other := 0.0, 1/float64(b.longest)
	for i := range len(text) {
		switch c := text[i]; {
		case b.composes && c >= utf8.RuneSelf:
			least += other / composition
		case b.composes && i+1 < len(text) && text[i+1] >= utf8.RuneSelf, b.spells && c == ' ':
			least += other // what becomes of it is another character
		default:
			least += b.shares[c]
		}
	}
	return int(math.Ceil(least - slack*float64(len(text))))
}

// slack is more than the sum of floating point numbers can be too large by, a byte.
const slack = 1e-9

// spellsBytes says whether a vocabulary has every byte, so that no character is unknown to it.
func spellsBytes(v *vocabulary, spell func(byte) string) bool {
	for b := range 256 {
		if _, ok := v.ids[spell(byte(b))]; !ok {
			return false
		}
	}
	return true
}

// byteFallback is how SentencePiece vocabularies spell a byte.
func byteFallback(b byte) string { return fmt.Sprintf("<0x%02X>", b) }
