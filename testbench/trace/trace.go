package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// BlockTokens is how many tokens of a prompt one hash id of a Mooncake trace stands for.
const BlockTokens = 512

// Request is one recorded request.
type Request struct {
	At           time.Duration // since the trace's start
	PromptTokens int
	OutputTokens int
	Blocks       []uint64 // content of the prompt, a block of BlockTokens each, the last one maybe in part
	BlockTokens  int
}

// line is a request as it stands in the file.
type line struct {
	Timestamp    int64    `json:"timestamp"` // milliseconds
	InputLength  int      `json:"input_length"`
	OutputLength int      `json:"output_length"`
	HashIDs      []uint64 `json:"hash_ids"`
}

// Read reads at most that many requests of a Mooncake trace. Its error names the request.
func Read(r io.Reader, most int) ([]Request, error) {
	var out []Request
	dec := json.NewDecoder(r)
	for len(out) < most {
		var l line
		switch err := dec.Decode(&l); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("trace: request %d: %w", len(out)+1, err)
		}
		if err := l.check(out); err != nil {
			return nil, fmt.Errorf("trace: request %d: %w", len(out)+1, err)
		}
		out = append(out, Request{
			At: time.Duration(l.Timestamp) * time.Millisecond, PromptTokens: l.InputLength, OutputTokens: l.OutputLength,
			Blocks: l.HashIDs, BlockTokens: BlockTokens,
		})
	}
	return out, nil
}

func (l line) check(before []Request) error {
	blocks := (l.InputLength + BlockTokens - 1) / BlockTokens
	switch {
	case l.InputLength < 1 || l.OutputLength < 1:
		return fmt.Errorf("%d prompt and %d output tokens: at least 1 of each is needed", l.InputLength, l.OutputLength)
	case len(l.HashIDs) < blocks:
		return fmt.Errorf("%d hash_ids for %d tokens, %d are needed", len(l.HashIDs), l.InputLength, blocks)
	case len(before) > 0 && time.Duration(l.Timestamp)*time.Millisecond < before[len(before)-1].At:
		return errors.New("it comes before the one in front of it")
	}
	return nil
}

// Squeeze divides all lengths, and so the work and the memory of each request, by a factor that divides BlockTokens. What
// prompts share stays shared, block by block. Times stay.
func Squeeze(requests []Request, factor int) ([]Request, error) {
	if factor < 1 || BlockTokens%factor != 0 {
		return nil, fmt.Errorf("trace: cannot squeeze blocks of %d tokens by %d", BlockTokens, factor)
	}
	out := make([]Request, len(requests))
	for i, r := range requests {
		r.PromptTokens = max(1, r.PromptTokens/factor)
		r.OutputTokens = max(1, r.OutputTokens/factor)
		r.BlockTokens /= factor
		out[i] = r
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

// Shared is the part of all prompt tokens that stood at the start of an earlier prompt: what a single cache that forgets
// nothing would hit.
func Shared(requests []Request) float64 {
	seen := map[uint64]bool{}
	hits, all := 0, 0
	for _, r := range requests {
		known := 0
		for _, b := range r.Blocks {
			if !seen[b] {
				break
			}
			known += r.BlockTokens
		}
		hits += min(known, r.PromptTokens)
		all += r.PromptTokens
		for _, b := range r.Blocks {
			seen[b] = true
		}
	}
	if all == 0 {
		return 0
	}
	return float64(hits) / float64(all)
}

// Text makes the tokens of blocks.
type Text struct {
	VocabSize uint32 // IDs 0..VocabSize-1 are drawn
}

// Prompt appends the IDs of a request's prompt to dst: each block's are a function of its id and nothing else.
func (t Text) Prompt(dst []uint32, r Request) []uint32 {
	left := r.PromptTokens
	for _, block := range r.Blocks {
		for i := range min(left, r.BlockTokens) {
			dst = append(dst, uint32(mix(block<<16|uint64(i))%uint64(t.VocabSize))) //nolint:gosec // below a 32-bit size
		}
		left -= min(left, r.BlockTokens)
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
