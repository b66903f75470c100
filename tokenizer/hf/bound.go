package hf

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// bound is how few ids a text can have.
type bound struct {
	// longest is how many bytes of normalized text one id can stand for at most; 0: nothing is known, because something on the
	// way drops text, or makes one id of any length of it.
	longest int
	// composes: the normalizer is NFC, which makes one character of a letter and its marks.
	composes bool
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
		case s.Type == "Prepend", s.Type == "Replace" && s.Pattern.String != nil && len(s.Content) >= len(*s.Pattern.String):
		default:
			return bound{}
		}
	}
	for i := range p.pretokenizers {
		switch s := &p.pretokenizers[i]; s.Type {
		case "ByteLevel", "Digits", "Metaspace":
		case "Split":
			if s.Behavior == "Removed" {
				return bound{}
			}
		default:
			return bound{}
		}
	}
	b.longest = longestToken(v, byteLevel)
	return b
}

// atLeast is how many ids a text has at least.
func (b *bound) atLeast(text string) int {
	if b.longest == 0 {
		return 0
	}
	bytes := len(text)
	if b.composes {
		beyond := 0
		for i := range len(text) {
			if text[i] >= utf8.RuneSelf {
				beyond++
			}
		}
		bytes -= beyond - beyond/composition
	}
	return (bytes + b.longest - 1) / b.longest
}

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

// longestToken is how many bytes of text one id can stand for.
func longestToken(v *vocabulary, byteLevel bool) int {
	longest := 1
	for token := range v.ids {
		n := len(token)
		if byteLevel { // a character there is a byte
			n = utf8.RuneCountInString(token)
		}
		longest = max(longest, n)
	}
	for _, t := range v.added {
		longest = max(longest, len(t.Content))
	}
	return longest
}
