package fleet

import (
	"slices"

	"plimsoll/scoring"
)

// Work is what a request wants of an engine, as far as an engine may stand still when it does it for the first time: it compiles a
// grammar or a kernel, loads an adapter, or computes a pass of a length that it never had.
type Work struct {
	PromptTokens     scoring.Tokens // to be computed
	Logprobs, Schema bool
	LoRA             string // "" for the base model
}

// Seen is what work an engine was seen to do in its life. It is immutable.
type Seen struct {
	PromptTokens     scoring.Tokens // the longest prompt that it computed
	Logprobs, Schema bool
	Adapters         []string // sorted
}

// lengthReach is how many times as long as the longest prompt that was seen one must be to be another kind of work.
const lengthReach = 2

// Covers says whether the engine was seen at such work. Of an engine that has shown nothing yet it is false.
func (s *Seen) Covers(w Work) bool {
	if s == nil || w.PromptTokens >= lengthReach*s.PromptTokens || w.Logprobs && !s.Logprobs || w.Schema && !s.Schema {
		return false
	}
	if w.LoRA == "" {
		return true
	}
	_, known := slices.BinarySearch(s.Adapters, w.LoRA)
	return known
}

// With is what was seen, and this.
func (s *Seen) With(w Work) *Seen {
	var next Seen
	if s != nil {
		next = *s
	}
	next.PromptTokens = max(next.PromptTokens, w.PromptTokens)
	next.Logprobs, next.Schema = next.Logprobs || w.Logprobs, next.Schema || w.Schema
	if at, known := slices.BinarySearch(next.Adapters, w.LoRA); w.LoRA != "" && !known {
		next.Adapters = slices.Insert(slices.Clone(next.Adapters), at, w.LoRA)
	}
	return &next
}
