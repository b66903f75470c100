package hf

import (
	"errors"
	"fmt"
	"strings"
)

// The library hands texts over as C strings: a text that holds a NUL comes back empty. Ids whose text has one are few (two
// or three in a vocabulary) and known after the load, so a list without them is decoded as it is. In a list with them each is replaced by the ids of
// the same bytes with another control character for the NUL, and the whole is decoded twice, with two such characters:
// the texts differ at the NULs and nowhere else, whatever else the text holds. The decoder sees the true neighbours.
type nulTable struct {
	// spelled gives, for an id with NUL, the ids of its bytes with the first and with the second stand-in; nil entries
	// mean that the vocabulary has no such single bytes.
	spelled map[uint32]*[2][]uint32
}

// byteLevelNUL is how byte-level vocabularies spell a NUL: U+0100, the first character they map a control byte to.
const byteLevelNUL = "\u0100"

// fallbackNUL is how vocabularies with byte fallback spell it.
const fallbackNUL = "<0x00>"

// findNUL marks the ids of v whose text holds a NUL and works out how to spell them. decode is the library's, without skipping.
func findNUL(v *vocabulary, decode func(ids ...uint32) string) nulTable {
	table := nulTable{spelled: map[uint32]*[2][]uint32{}}
	for id, token := range v.tokens {
		suspect := token == fallbackNUL || strings.Contains(token, byteLevelNUL) || strings.Contains(token, "\x00")
		// The character U+0100 itself is a token of other vocabularies, and decodes.
		if !suspect || decode(uint32(id)) != "" { //nolint:gosec // ids are bounded by maxTokenID
			continue
		}
		v.facts[id] |= factNUL
		table.spelled[uint32(id)] = spell(v, token, decode) //nolint:gosec // see above
	}
	return table
}

// spell finds the ids of a token's bytes with two different stand-ins for the NUL among them.
func spell(v *vocabulary, token string, decode func(ids ...uint32) string) *[2][]uint32 {
	var stand []uint32 // two single-byte ids, of control characters that texts of the right sort never hold
	for b := byte(1); b < ' ' && len(stand) < 2; b++ {
		for _, spelling := range []string{fmt.Sprintf("<0x%02X>", b), string(rune(0x100) + rune(b))} {
			if id, ok := v.ids[spelling]; ok && decode(id) == string(rune(b)) {
				stand = append(stand, id)
				break
			}
		}
	}
	if len(stand) < 2 {
		return nil
	}
	var out [2][]uint32
	for which := range out {
		if token == fallbackNUL {
			out[which] = []uint32{stand[which]}
			continue
		}
		for _, r := range token {
			id, ok := v.ids[string(r)]
			if string(r) == byteLevelNUL {
				id = stand[which]
			} else if !ok {
				return nil
			}
			out[which] = append(out[which], id)
		}
	}
	return &out
}

// decode decodes a list that holds ids with NUL.
func (n nulTable) decode(ids []uint32, decode func([]uint32) string) (string, error) {
	var texts [2]string
	for which := range texts {
		spelled := make([]uint32, 0, len(ids)+8)
		for _, id := range ids {
			switch parts, ok := n.spelled[id]; {
			case !ok:
				spelled = append(spelled, id)
			case parts == nil:
				return "", fmt.Errorf("the id %d: %w", id, errNoSpelling)
			default:
				spelled = append(spelled, parts[which]...)
			}
		}
		texts[which] = decode(spelled)
	}
	if len(texts[0]) != len(texts[1]) {
		return "", errNoSpelling
	}
	out := []byte(texts[0])
	for i := range out {
		if out[i] != texts[1][i] {
			out[i] = 0
		}
	}
	return string(out), nil
}

// errNoSpelling says that a text with a NUL can't be had from the library with this vocabulary.
var errNoSpelling = errors.New("the text holds a NUL character, which this vocabulary can't spell byte by byte")
