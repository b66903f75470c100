package trace

import (
	"fmt"
	"math/bits"
	"time"
)

// Request is one request of a trace.
type Request struct {
	Number       uint64        // its place in the trace, from 0 on
	At           time.Duration // since the trace's start
	PromptTokens int
	OutputTokens int  // of its answer
	MaxTokens    *int // as its client set it; nil: it set none
	// Parts name the content of prompt and answer, from the start on. What they do not cover is this request's alone.
	Parts   []Part
	Session string // "": none
	Tenant  string // "": the default one
	Class   string // "": the default one
	Outcome string // what became of it where it was recorded; "": nobody knows
}

// Outcomes of recorded requests. Of those that did not finish the answer is what came of it.
const (
	Finished  = "finished"
	Refused   = "refused"
	Failed    = "failed"
	Cancelled = "cancelled"
)

// Part is a run of tokens. Equal IDs are equal content.
type Part struct {
	ID     uint64
	Tokens int
}

// check says what no trace may say of a request.
func (r *Request) check() error {
	switch {
	case r.PromptTokens < 1 || r.OutputTokens < 1:
		return fmt.Errorf("%d prompt and %d output tokens: at least 1 of each is needed", r.PromptTokens, r.OutputTokens)
	case r.PromptTokens > tokensMax || r.OutputTokens > tokensMax:
		return fmt.Errorf("%d prompt and %d output tokens: more than %d are taken for a mistake", r.PromptTokens, r.OutputTokens, tokensMax)
	case r.MaxTokens != nil && *r.MaxTokens < r.OutputTokens:
		return fmt.Errorf("max_tokens is %d, but the answer has %d tokens", *r.MaxTokens, r.OutputTokens)
	}
	return nil
}

// tokensMax bounds what one line can ask of its reader's memory.
const tokensMax = 16 << 20

// squeezed divides all lengths. Parts end where the divided sums do, so that what sequences share stays shared.
func (r Request) squeezed(factor int) Request {
	r.PromptTokens = max(1, r.PromptTokens/factor)
	r.OutputTokens = max(1, r.OutputTokens/factor)
	if r.MaxTokens != nil {
		r.MaxTokens = new(max(r.OutputTokens, *r.MaxTokens/factor))
	}
	parts := make([]Part, 0, len(r.Parts))
	sum, end := 0, 0
	for _, p := range r.Parts {
		sum += p.Tokens
		parts = append(parts, Part{p.ID, sum/factor - end})
		end = sum / factor
	}
	r.Parts = parts
	return r
}

// Squeeze divides all lengths, and so the work and the memory of each request, by a factor. What prompts share stays shared.
// Times stay.
func Squeeze(requests []Request, factor int) ([]Request, error) {
	if factor < 1 {
		return nil, fmt.Errorf("trace: cannot squeeze by %d", factor)
	}
	out := make([]Request, len(requests))
	for i, r := range requests {
		out[i] = r.squeezed(factor)
	}
	return out, nil
}

// Faster divides the times between requests.
func Faster(requests []Request, factor float64) []Request {
	out := make([]Request, len(requests))
	for i, r := range requests {
		r.At = time.Duration(float64(r.At) / factor)
		out[i] = r
	}
	return out
}

// Shared is the part of all prompt tokens that stood at the start of an earlier sequence: what a single cache that forgets
// nothing would hit.
func Shared(requests []Request) float64 {
	seen := map[uint64]bool{}
	hits, all := 0, 0
	for _, r := range requests {
		known := 0
		for _, p := range r.Parts {
			if !seen[p.ID] {
				break
			}
			known += p.Tokens
		}
		hits += min(known, r.PromptTokens)
		all += r.PromptTokens
		for _, p := range r.Parts {
			seen[p.ID] = true
		}
	}
	if all == 0 {
		return 0
	}
	return float64(hits) / float64(all)
}

// Text makes token IDs of content.
type Text struct {
	VocabSize uint32 // IDs 0..VocabSize-1 are drawn
}

// Prompt appends the IDs of a request's prompt to dst: each part's are a function of its ID and nothing else.
func (t Text) Prompt(dst []uint32, r Request) []uint32 { return t.first(dst, &r, r.PromptTokens) }

// Sequence appends the IDs of prompt and answer to dst.
func (t Text) Sequence(dst []uint32, r Request) []uint32 {
	return t.first(dst, &r, r.PromptTokens+r.OutputTokens)
}

func (t Text) first(dst []uint32, r *Request, left int) []uint32 {
	for _, p := range r.Parts {
		n := min(left, p.Tokens)
		dst = t.content(dst, p.ID, n)
		left -= n
	}
	return t.content(dst, mix(r.Number)^own, left)
}

// own keeps the IDs of what is a request's alone from those that traces give to parts, up to a chance of 2^-64 a pair.
const own = 0x5b7a1e5ca1ab1e57

func (t Text) content(dst []uint32, id uint64, n int) []uint32 {
	seed := mix(id)
	for i := range n {
		high, _ := bits.Mul64(mix(seed+uint64(i)), uint64(t.VocabSize)) //nolint:gosec // i counts tokens
		dst = append(dst, uint32(high))                                 //nolint:gosec // below a 32-bit size
	}
	return dst
}

// mix spreads every bit over all bits (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
