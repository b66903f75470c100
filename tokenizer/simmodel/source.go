package simmodel

import (
	"fmt"
	"strings"

	"plimsoll/tokenizer/hf"
)

// The length of an answer, in ids since the last added token (a chat's turn begins with one). It ends with a sentence.
const (
	minAnswerTokens = 40
	maxAnswerTokens = 160 // the sentence under way is completed
	endOneIn        = 6   // chance of an end after a sentence between the two
	lookBackTokens  = 512 // how far back the last added token is looked for
)

// Source chooses the ids of the simulated engine's answers, so that they read as prose. See the package for what it promises.
type Source struct {
	automaton *automaton
	eos       uint32
	vocabSize int
	added     []bool // by id: an added token, which no text of ours holds
	bare      []bool // by id: a word that follows it has no space in front
}

// NewSource prepares the texts for the model's tokenizer, of which it keeps nothing.
func NewSource(tok *hf.Tokenizer) (*Source, error) {
	const end = "<|im_end|>"
	eos, ok := tok.TokenID(end)
	if !ok {
		return nil, fmt.Errorf("%s: the token %s is missing", tok.Name(), end)
	}
	automaton, err := buildAutomaton(tok, sentences(), slots())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tok.Name(), err)
	}
	n := tok.VocabSize()
	s := &Source{automaton: automaton, eos: eos, vocabSize: n, added: make([]bool, n), bare: make([]bool, n)}
	for _, t := range tok.Specials() {
		s.added[t.ID], s.bare[t.ID] = true, true
	}
	for id := range n {
		spelling, _ := tok.Token(uint32(id)) //nolint:gosec // below the vocabulary's size
		// The byte-level spellings of a newline and of a space.
		if strings.HasSuffix(spelling, "Ċ") || strings.HasSuffix(spelling, "Ġ") {
			s.bare[id] = true
		}
	}
	return s, nil
}

// Next returns the id that follows the context (prompt and output; its last few dozen ids count), never an added token.
// digest is a hash of everything that determines the draw: all its bits count.
func (s *Source) Next(context []uint32, digest uint64) uint32 {
	at, inside := s.automaton.locate(context)
	switch {
	case inside && !s.automaton.states[at].complete:
	case len(context) == 0 || s.isBare(context[len(context)-1]):
		at = beforeFirst
	default:
		at = beforeNext
	}
	groups := s.automaton.states[at].choices
	group := groups[(digest>>32)%uint64(len(groups))]
	return group[(digest&(1<<32-1))%uint64(len(group))]
}

// Ends tells whether the answer is over: only after a sentence of ours, never before 40 ids, and with the first sentence
// that ends after 160. Where the text began is the last added token; a text without one among its last 512 ids may end after
// any sentence.
func (s *Source) Ends(context []uint32, digest uint64) bool {
	if len(context) == 0 || !s.automaton.ends[context[len(context)-1]] {
		return false
	}
	if at, inside := s.automaton.locate(context); !inside || !s.automaton.states[at].complete {
		return false
	}
	for since := range min(len(context), lookBackTokens) {
		if id := context[len(context)-1-since]; int64(id) < int64(s.vocabSize) && s.added[id] {
			return since >= maxAnswerTokens || since >= minAnswerTokens && digest%endOneIn == 0
		}
	}
	return digest%endOneIn == 0
}

// EOS is the id that ends an answer.
func (s *Source) EOS() uint32 { return s.eos }

// VocabSize is the number of ids, added tokens included.
func (s *Source) VocabSize() int { return s.vocabSize }

func (s *Source) isBare(id uint32) bool { return int64(id) < int64(s.vocabSize) && s.bare[id] }
