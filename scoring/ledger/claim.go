package ledger

import (
	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
)

// Claim is what a request needs on a replica, from its reservation to its end.
type Claim struct {
	Ticket scoring.Ticket
	// SharedKeys are blocks that other claims may ride on: each is booked once however many pin it. It is retained and
	// must not be changed. Which blocks may be shared is the engine's rule.
	SharedKeys []prefix.Key
	// PrivateBlocks is all else: the rest of the prompt, the predicted output and a margin.
	PrivateBlocks scoring.Blocks
	Seats         int // decode slots
	// SequenceTokens is the longest the sequence may become: prompt plus max_tokens.
	SequenceTokens scoring.Tokens

	PromptTokens          scoring.Tokens
	PrefillTokens         scoring.Tokens // the part of the prompt that is not cached there
	PredictedOutputTokens scoring.Tokens
	// ExpectedOutputTokens is the mean of what is predicted, where PredictedOutputTokens is what hardly any answer exceeds.
	ExpectedOutputTokens scoring.Tokens
}

// remaining is what a sequence that has produced so many tokens is expected to produce yet. One that outlives its expectation is
// a long one: some of it is always to come, as far as it may grow.
func (c *Claim) remaining(produced scoring.Tokens) scoring.Tokens {
	return max(0, min(max(c.ExpectedOutputTokens-produced, c.ExpectedOutputTokens/outlived), c.SequenceTokens-c.PromptTokens-produced))
}

// outlived is the part of its expectation that a sequence which has outlived it is expected to produce yet: lengths of answers
// lie between constant and memoryless.
const outlived = 4

// blocks is what the claim holds if it shares with nobody.
func (c *Claim) blocks() scoring.Blocks { return scoring.Blocks(len(c.SharedKeys)) + c.PrivateBlocks }

// Plan is a request as the router knows it, before it is fitted to a replica.
type Plan struct {
	Ticket          scoring.Ticket
	Keys            []prefix.Key // of the prompt's full blocks, in the replica's block size
	PromptTokens    scoring.Tokens
	OutputTokens    scoring.Tokens // to reserve: predicted (expected mode) or the most allowed (strict mode)
	ExpectedTokens  scoring.Tokens // of output, on average
	MaxOutputTokens scoring.Tokens // the most the answer may have
	MarginBlocks    scoring.Blocks // kept beyond the reserved output, at least one in expected mode
	OverlapTokens   scoring.Tokens // cached on the replica
	Shares          bool           // the engine lets running requests share blocks from the moment of dispatch
}

// Claim fits the plan to a replica's limits: the answer cannot be longer than the sequence limit leaves, nor can more
// be booked for output than the whole cache has beside the prompt. So a claim asks for more than an empty replica only
// if prompt and one token do not fit there. The block in which a fully cached prompt ends is always computed anew and
// therefore private.
func (p Plan) Claim(limits scoring.Limits) Claim {
	room := max(0, limits.SequenceTokens-p.PromptTokens)
	output := max(1, min(p.OutputTokens, p.MaxOutputTokens, room))
	longest := p.PromptTokens + max(1, min(p.MaxOutputTokens, room))
	least := (p.PromptTokens + 1).Blocks(limits.BlockTokens)
	most := longest.Blocks(limits.BlockTokens)
	total := min((p.PromptTokens+output).Blocks(limits.BlockTokens)+p.MarginBlocks, most)
	total = max(least, min(total, limits.KVBlocks))

	c := Claim{
		Ticket:                p.Ticket,
		Seats:                 1,
		SequenceTokens:        longest,
		PromptTokens:          p.PromptTokens,
		PrefillTokens:         max(1, p.PromptTokens-p.OverlapTokens),
		PredictedOutputTokens: output,
		ExpectedOutputTokens:  max(1, min(p.ExpectedTokens, p.MaxOutputTokens, room)),
	}
	if p.Shares && p.PromptTokens > 0 {
		c.SharedKeys = p.Keys[:min(len(p.Keys), int((p.PromptTokens-1)/limits.BlockTokens))]
	}
	c.PrivateBlocks = total - scoring.Blocks(len(c.SharedKeys))
	return c
}
