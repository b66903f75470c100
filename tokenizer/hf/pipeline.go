package hf

import (
	"encoding/json"
	"slices"
)

// pipeline is what a tokenizer.json says of how a text becomes tokens, as far as it decides where a text can be cut and how
// short its list of ids can be.
type pipeline struct {
	normalizers   []stage
	pretokenizers []stage
	model         modelShape
}

// modelShape is a file's model.
type modelShape struct {
	Vocab        json.RawMessage `json:"vocab"`
	Type         string          `json:"type"`
	Dropout      *float64        `json:"dropout"`
	ByteFallback bool            `json:"byte_fallback"`
}

// stage is one step of a normalizer or pre-tokenizer: the fields of all kinds that are looked at.
type stage struct {
	Type          string  `json:"type"`
	Normalizers   []stage `json:"normalizers"`   // of a Sequence
	Pretokenizers []stage `json:"pretokenizers"` // likewise
	Pattern       struct {
		String *string `json:"String"`
		Regex  *string `json:"Regex"`
	} `json:"pattern"` // of Replace and Split
	Content        string `json:"content"`  // of Replace
	Behavior       string `json:"behavior"` // of Split
	Invert         bool   `json:"invert"`
	AddPrefixSpace bool   `json:"add_prefix_space"` // of ByteLevel
	UseRegex       *bool  `json:"use_regex"`        // likewise; nil: true
	Replacement    string `json:"replacement"`      // of Metaspace
}

// parsePipeline reads the stages; false if they are not of the form that the library documents, which it then judges itself.
func parsePipeline(shape *fileShape) (p pipeline, ok bool) {
	var normalizer, pretokenizer *stage
	for raw, into := range map[*json.RawMessage]any{
		&shape.Normalizer: &normalizer, &shape.PreTokenizer: &pretokenizer,
	} {
		if isSet(*raw) && json.Unmarshal(*raw, into) != nil {
			return pipeline{}, false
		}
	}
	p.model = *shape.Model
	p.model.Vocab = nil
	p.normalizers, p.pretokenizers = normalizer.flat(), pretokenizer.flat()
	return p, true
}

// flat lists the stages of a normalizer or pre-tokenizer in their order, those of a Sequence in its place.
func (s *stage) flat() []stage {
	if s == nil {
		return nil
	}
	if s.Type != "Sequence" {
		return []stage{*s}
	}
	var out []stage
	for _, list := range [][]stage{s.Normalizers, s.Pretokenizers} {
		for i := range list {
			out = append(out, list[i].flat()...)
		}
	}
	return out
}

// byteLevel says whether the model sees bytes, each spelled as one character.
func (p *pipeline) byteLevel() bool {
	return p.model.Type == "BPE" && slices.ContainsFunc(p.pretokenizers, func(s stage) bool { return s.Type == "ByteLevel" })
}

// byteCharacter is how byte-level vocabularies spell a byte: itself where it is printable, else a character from U+0100 on.
func byteCharacter(b byte) string {
	printable := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE }
	if printable(int(b)) {
		return string(rune(b))
	}
	at := rune(0x100)
	for i := range int(b) {
		if !printable(i) {
			at++
		}
	}
	return string(at)
}

// metaspace is how SentencePiece vocabularies spell a blank.
const metaspace = "▁"

// spacesOnly says whether a normalizer does nothing but spell blanks as [metaspace].
func (s *stage) spacesOnly() bool {
	return s.Type == "Replace" && s.Pattern.String != nil && *s.Pattern.String == " " && s.Content == metaspace
}

// deterministic says whether the same text always has the same ids.
func (m *modelShape) deterministic() bool { return m.Dropout == nil || *m.Dropout == 0 }
