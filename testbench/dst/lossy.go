package dst

import (
	"errors"
	"math/rand/v2"
	"strings"
	"unicode/utf8"

	"plimsoll/actors/stream"
	"plimsoll/engine"
)

// Some engines lose IDs, as llama.cpp does: inside a character they send nothing, and with the token that ends it its ID alone, how many
// were lost, and the text of all. What they hold when the answer ends is lost without a trace.
// A character has four bytes at most: what is held for longer is none, and is sent.

const lostMost = utf8.UTFMax - 1

// drawLossy says whether a replica's engine does. It has a generator of its own.
func (w *world) drawLossy(n int, kind string) bool {
	return kind == "plain" && !w.cfg.AllIDs && rand.New(rand.NewPCG(w.cfg.Seed^uint64(n)<<32, 0x2127599bf4325c37)).Float64() < 0.5 //nolint:gosec // small
}

// losing is what such an engine holds of an attempt.
type losing struct {
	held   []uint32 // tokens that end inside a character
	cached *int     // what it has to say of its cache
}

// lose makes of an event what such an engine sends, and says whether that is anything.
func (a *attempt) lose(e *engine.Event) bool {
	l := &a.losing
	if e.CachedTokens != nil {
		l.cached = e.CachedTokens
	}
	var out []engine.Token
	for _, t := range e.Tokens {
		l.held = append(l.held, t.ID)
		if cutsCharacter(l.held) && len(l.held) <= lostMost {
			continue
		}
		if n := len(l.held); n > 1 {
			t.LostIDs, t.Text = n-1, new(spell(l.held))
		}
		a.truth = append(a.truth, l.held...)
		out, l.held = append(out, t), nil
	}
	e.Tokens = out
	if e.Finish != nil {
		a.dropped, l.held = l.held, nil
	}
	if len(out) == 0 && e.Finish == nil {
		return false
	}
	e.CachedTokens, l.cached = l.cached, nil
	return true
}

// cutsCharacter says whether IDs end inside a character.
func cutsCharacter(ids []uint32) bool {
	for i := len(ids) - 1; i >= 0; i-- {
		if ids[i] != idEnd {
			return ids[i] >= halves && ids[i] < middle
		}
	}
	return false
}

// hears takes the IDs of tokens that have come, the lost ones too.
func (a *attempt) hears(tokens []engine.Token) {
	for _, t := range tokens {
		if t.LostIDs == 0 {
			a.got = append(a.got, t.ID)
			continue
		}
		at := len(a.got)
		a.got = append(a.got, a.truth[at:at+1+t.LostIDs]...)
	}
}

// takes are the IDs that an entry of the answer stands for.
func (a *attempt) takes(e *stream.Entry) []uint32 {
	from := a.taken
	a.taken += 1 + e.LostIDs
	if e.LostIDs == 0 || a.taken > len(a.got) {
		return []uint32{e.ID}
	}
	return a.got[from:a.taken]
}

// unspell is the other way round: all tokens but the end have two bytes, and what is of no character has stood in one place only.
func unspell(text string) ([]uint32, error) {
	var raw []byte
	for _, r := range text {
		if r == utf8.RuneError {
			raw = append(raw, 0xff)
		} else {
			raw = utf8.AppendRune(raw, r)
		}
	}
	var ids []uint32
	for i := 0; i+1 < len(raw); i += 2 {
		id := uint32(1)
		for id < vocabulary && !alike(spelling(id), raw[i:i+2]) {
			id++
		}
		if id == vocabulary {
			return nil, errors.New("no token reads " + strings.ToValidUTF8(string(raw[i:i+2]), "?"))
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// alike says whether a token's bytes are those of a text, where 0xff stands for one that is of no character.
func alike(token, text []byte) bool {
	for i := range token {
		if token[i] != text[i] && (text[i] != 0xff || token[i] < utf8.RuneSelf) {
			return false
		}
	}
	return true
}
