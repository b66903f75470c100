package hf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// maxTokenID bounds the ids that a file may name, because the tables are as long as the highest id.
const maxTokenID = 1<<24 - 1

// SpecialToken is an entry of a tokenizer.json's added_tokens: a string that is one token wherever it stands in a text.
// The fields are those of the file. Special is not set on all of them: only those that have it are left out by a Decode
// that skips special tokens, and `<think>` or `<tool_call>` often have not.
type SpecialToken struct {
	ID         uint32 `json:"id"`
	Content    string `json:"content"`
	Special    bool   `json:"special"`
	Normalized bool   `json:"normalized"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	SingleWord bool   `json:"single_word"`
}

// Facts about an id, one byte for each.
const (
	factKnown   = 1 << iota // the vocabulary has this id
	factSpecial             // a Decode that skips special tokens leaves it out
	factNUL                 // its text holds a NUL
)

// vocabulary is what a tokenizer.json says of its tokens. It does not change after the load.
type vocabulary struct {
	tokens []string // by id; the vocabulary's own spelling, byte-mapped in byte-level files
	facts  []uint8  // by id
	ids    map[string]uint32
	added  []SpecialToken
}

// fileShape is the part of a tokenizer.json that Go reads; the library reads all of it.
type fileShape struct {
	Truncation   json.RawMessage `json:"truncation"`
	Padding      json.RawMessage `json:"padding"`
	AddedTokens  []SpecialToken  `json:"added_tokens"`
	Normalizer   json.RawMessage `json:"normalizer"`
	PreTokenizer json.RawMessage `json:"pre_tokenizer"`
	Model        *modelShape     `json:"model"`
}

// parseShape reads a tokenizer.json in one pass.
func parseShape(name string, raw []byte) (*fileShape, error) {
	shape := &fileShape{}
	if err := json.Unmarshal(raw, shape); err != nil {
		return nil, jsonFault(name, raw, err)
	}
	if shape.Model == nil {
		return nil, &FileError{File: name, Key: "model", Err: errors.New("is missing: this is no tokenizer.json")}
	}
	return shape, nil
}

// parseVocabulary reads the vocabulary and the added tokens.
func parseVocabulary(name string, shape *fileShape) (*vocabulary, error) {
	pairs, err := parsePairs(shape.Model.Vocab)
	if err != nil {
		return nil, &FileError{File: name, Key: "model.vocab", Err: err}
	}
	v := &vocabulary{ids: pairs, added: shape.AddedTokens}
	highest := uint32(0)
	for _, t := range v.added {
		v.ids[t.Content] = t.ID
	}
	for token, id := range v.ids {
		if id > maxTokenID {
			return nil, &FileError{File: name, Key: "model.vocab", Err: fmt.Errorf("token %q has the id %d, more than %d", token, id, maxTokenID)}
		}
		highest = max(highest, id)
	}
	if len(v.ids) == 0 {
		return nil, &FileError{File: name, Key: "model.vocab", Err: errors.New("is empty")}
	}
	v.tokens = make([]string, highest+1)
	v.facts = make([]uint8, highest+1)
	for token, id := range v.ids {
		v.tokens[id] = token
		v.facts[id] |= factKnown
	}
	for _, t := range v.added {
		v.tokens[t.ID] = t.Content
		if t.Special {
			v.facts[t.ID] |= factSpecial
		}
	}
	return v, nil
}

// parsePairs reads the two forms of model.vocab: an object from token to id (BPE, WordPiece, WordLevel), or a list of
// [token, score] in the order of the ids (Unigram).
func parsePairs(raw json.RawMessage) (map[string]uint32, error) {
	if !isSet(raw) {
		return nil, errors.New("is missing")
	}
	if raw[0] == '{' {
		ids := map[string]uint32{}
		if err := json.Unmarshal(raw, &ids); err != nil {
			return nil, fmt.Errorf("want an object from token to id: %w", err)
		}
		return ids, nil
	}
	var list [][]json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("want an object from token to id or a list of [token, score]: %w", err)
	}
	ids := make(map[string]uint32, len(list))
	for i, pair := range list {
		var token string
		if len(pair) != 2 || json.Unmarshal(pair[0], &token) != nil {
			return nil, errors.New("entry " + strconv.Itoa(i) + " is no [token, score]")
		}
		if _, twice := ids[token]; !twice {
			ids[token] = uint32(i) //nolint:gosec // the list is shorter than its text, which is bounded
		}
	}
	return ids, nil
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// withoutCuts returns the file's text with truncation and padding switched off, and everything else as it was. The library
// obeys both silently (some files of language models have them by mistake) and has no option against it.
func withoutCuts(name string, raw []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return nil, jsonFault(name, raw, err)
	}
	var out []byte
	copied := int64(0)
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, jsonFault(name, raw, err)
		}
		afterKey := dec.InputOffset()
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, jsonFault(name, raw, err)
		}
		if key == "truncation" || key == "padding" {
			out = append(append(out, raw[copied:afterKey]...), ": null"...)
			copied = dec.InputOffset()
		}
	}
	return append(out, raw[copied:]...), nil
}
