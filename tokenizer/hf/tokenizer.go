package hf

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/daulet/tokenizers"
)

// Tokenizer is one model's tokenizer. Any number of goroutines may use it at once.
type Tokenizer struct {
	name  string
	vocab *vocabulary
	nul   nulTable
	huge  chan struct{} // holds the one call with a huge text or list that may run

	bound bound
	cuts  cutter
	// before and after are what an Encode with addSpecial puts around a text's ids; framed: it is the same for every text.
	before, after []uint32
	framed        bool

	// mu guards the library's memory: calls hold it for reading, Close for writing, so that nothing is freed under a call.
	mu     sync.RWMutex
	native *tokenizers.Tokenizer // nil once closed
}

// Parse makes a tokenizer from the text of a tokenizer.json; name stands for the file in errors, which are [*FileError].
func Parse(name string, raw []byte) (*Tokenizer, error) {
	shape, err := parseShape(name, raw)
	if err != nil {
		return nil, err
	}
	vocab, err := parseVocabulary(name, shape)
	if err != nil {
		return nil, err
	}
	if isSet(shape.Truncation) || isSet(shape.Padding) {
		if raw, err = withoutCuts(name, raw); err != nil {
			return nil, err
		}
	}
	native, err := tokenizers.FromBytes(raw)
	if err != nil {
		return nil, &FileError{File: name, Err: fmt.Errorf("the tokenizers library refuses it: %w", err)}
	}
	t := &Tokenizer{name: name, vocab: vocab, native: native, huge: make(chan struct{}, 1)}
	if p, ok := parsePipeline(shape); ok {
		t.bound, t.cuts = newBound(&p, vocab), newCutter(&p, vocab)
	}
	t.before, t.after, t.framed = frame(func(text string, addSpecial bool) []uint32 { return native.EncodeWithOptions(text, addSpecial).IDs })
	t.nul = findNUL(vocab, func(ids ...uint32) string { return native.Decode(ids, false) })
	return t, nil
}

// Name is the file's path, or the name given to [Parse].
func (t *Tokenizer) Name() string { return t.name }

// Encode turns a text into ids. addSpecial lets the file's post-processor add its tokens (BOS, or </s> at the end): right for
// bare prompts, wrong for rendered chat templates, which hold them already.
//
// A text with a NUL or with more than [TextBytesMax] bytes is a [*BadInput]. Bytes that are no UTF-8 count as U+FFFD. Ids are nil only where the text has none
// (an empty text, or one that the normalizer takes away whole); if the library fails the error is [ErrPipeline].
func (t *Tokenizer) Encode(text string, addSpecial bool) ([]uint32, error) {
	if err := t.Check(text); err != nil {
		return nil, err
	}
	if len(text) > hugeBytes {
		t.huge <- struct{}{}
		defer func() { <-t.huge }()
	}
	if len(text) >= largeBytes {
		defer giveBack()
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.native == nil {
		return nil, ErrClosed
	}
	ids := t.native.EncodeWithOptions(text, addSpecial).IDs
	if len(ids) == 0 && text != "" && !t.vanishes(text) {
		return nil, fmt.Errorf("%s: no ids for a text of %d bytes: %w", t.name, len(text), ErrPipeline)
	}
	return ids, nil
}

// Check says why a text can't be encoded, as Encode does, and is quick about it: a [*BadInput], or nil.
func (t *Tokenizer) Check(text string) error {
	if at := strings.IndexByte(text, 0); at >= 0 {
		return &BadInput{Param: "text", Message: fmt.Sprintf("the text holds a NUL character (U+0000) at byte %d, which can't be encoded", at)}
	}
	if n := len(text); n > TextBytesMax {
		return &BadInput{Param: "text", Message: fmt.Sprintf("the text has %d bytes, at most %d can be encoded", n, TextBytesMax)}
	}
	return nil
}

// AtLeast is how many ids a text has at least, without encoding it: each byte counts with one divided by the length of the longest
// token of the vocabulary that has that byte.
// It is 0 where that proves nothing, as with a normalizer that drops text.
func (t *Tokenizer) AtLeast(text string) int { return t.bound.atLeast(text) }

// Cut is the length of a text's first slice: the longest one of at most most bytes that ends where the text can be cut, else the
// shortest one that does, which may be all of it. The ids of a text, without special tokens added, are those of its slices one
// after the other.
func (t *Tokenizer) Cut(text string, most int) int { return t.cuts.cut(text, most) }

// Frame is what an Encode with addSpecial puts before and behind the ids of a text that is encoded in slices. ok is false if it is not
// the same for every text, so that such a text must be encoded whole. Nobody may change the lists.
func (t *Tokenizer) Frame() (before, after []uint32, ok bool) { return t.before, t.after, t.framed }

// vanishes tells a text that has no ids by right, such as white space in a BERT model, from one that made the library fail,
// for which the answer is the same: with a letter more the former has ids.
func (t *Tokenizer) vanishes(text string) bool {
	return len(t.native.EncodeWithOptions(text+" a", false).IDs) > 0
}

// Decode turns ids into text. skipSpecial leaves out the tokens that [Tokenizer.IsSpecial] names. NUL characters are kept.
// An id that the vocabulary lacks is a [*BadInput].
//
// Decoders look at neighbours, so the text of a list is not always the texts of its parts put together: see package detok.
func (t *Tokenizer) Decode(ids []uint32, skipSpecial bool) (string, error) {
	nul := false
	for i, id := range ids {
		if int64(id) >= int64(len(t.vocab.facts)) || t.vocab.facts[id]&factKnown == 0 {
			return "", &BadInput{Param: "ids", Message: fmt.Sprintf("the id %d at position %d is not in the vocabulary of %d ids", id, i, len(t.vocab.facts))}
		}
		nul = nul || t.vocab.facts[id]&factNUL != 0
	}
	if len(ids) >= largeIDs {
		t.huge <- struct{}{}
		defer func() { <-t.huge }()
		defer giveBack()
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.native == nil {
		return "", ErrClosed
	}
	if nul {
		return t.nul.decode(ids, func(ids []uint32) string { return t.native.Decode(ids, skipSpecial) })
	}
	return t.native.Decode(ids, skipSpecial), nil
}

// VocabSize is the highest id plus one, added tokens included.
func (t *Tokenizer) VocabSize() int { return len(t.vocab.tokens) }

// TokenID finds the id of a vocabulary entry or added token by its exact spelling in the file.
func (t *Tokenizer) TokenID(token string) (uint32, bool) {
	id, ok := t.vocab.ids[token]
	return id, ok
}

// Token is the spelling in the file of an id, which is not its text: byte-level files spell 日 "æĹ¥". Use Decode for text.
func (t *Tokenizer) Token(id uint32) (string, bool) {
	if int64(id) >= int64(len(t.vocab.tokens)) || t.vocab.facts[id]&factKnown == 0 {
		return "", false
	}
	return t.vocab.tokens[id], true
}

// Specials lists the file's added tokens, in its order.
func (t *Tokenizer) Specials() []SpecialToken { return slices.Clone(t.vocab.added) }

// IsSpecial tells whether a Decode with skipSpecial leaves the id out.
func (t *Tokenizer) IsSpecial(id uint32) bool {
	return int64(id) < int64(len(t.vocab.facts)) && t.vocab.facts[id]&factSpecial != 0
}

// Close frees the library's memory once the calls under way have ended; later calls give [ErrClosed]. The vocabulary stays
// readable. A second Close is an ErrClosed and does nothing.
func (t *Tokenizer) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.native == nil {
		return ErrClosed
	}
	err := t.native.Close()
	t.native = nil
	return err
}
