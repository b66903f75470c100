package fakeengine

import (
	"plimsoll/engine/sim"
	"plimsoll/tokenizer"
	"plimsoll/tokenizer/simmodel"
)

// Source returns what a simulated model says in a model's tokens: prose where simmodel can write it with them, else tokens
// drawn from the ordinary ones.
func Source(m *tokenizer.Model) sim.TokenSource {
	if prose, err := simmodel.NewSource(m.Tokenizer); err == nil {
		return prose
	}
	s := draws{vocab: m.VocabSize(), eos: uint32(m.VocabSize() - 1)} //nolint:gosec // a vocabulary is not empty and has 32 bits
	for id := range uint32(s.vocab) {                                //nolint:gosec // likewise
		if !m.IsSpecial(id) {
			s.ordinary = append(s.ordinary, id)
		}
	}
	if ends := m.Ends(); len(ends) > 0 {
		s.eos, s.ending = ends[0], true
	}
	return s
}

// endOneIn is how often an answer of draws ends at a token.
const endOneIn = 200

// draws is a source of random ordinary tokens.
type draws struct {
	vocab    int
	ordinary []uint32
	eos      uint32
	ending   bool // the model has an end token
}

// Next implements [sim.TokenSource].
func (d draws) Next(_ []uint32, digest uint64) uint32 {
	return d.ordinary[digest%uint64(len(d.ordinary))]
}

// Ends implements [sim.TokenSource].
func (d draws) Ends(_ []uint32, digest uint64) bool { return d.ending && digest%endOneIn == 0 }

// EOS implements [sim.TokenSource].
func (d draws) EOS() uint32 { return d.eos }

// VocabSize implements [sim.TokenSource].
func (d draws) VocabSize() int { return d.vocab }
