package stream

import (
	"encoding/json"
	"time"

	"plimsoll/engine"
	"plimsoll/scoring/queue"
	"plimsoll/tokenizer/chat"
)

// Request is what a client asked for, checked in its shape by the ingress. It is immutable once submitted.
type Request struct {
	ID      string    // the client-visible request ID, for logs; never a key of any state
	Model   string    // as the client calls it, for answers, logs and recordings; never a key of any state
	Arrival time.Time // monotonic

	Input Input
	N     int // answers to each prompt, >= 1

	MaxTokens         *int // nil: the room left in the context
	MinTokens         int
	Sampling          engine.Sampling // Seed is leg 0's; leg i has Seed + i
	Stop              []string
	IncludeStop       bool // leave the stop string in the text
	StopTokenIDs      []uint32
	IgnoreEOS         bool
	TopLogprobs       *int // nil: none; else that many alternatives beside each token
	SkipSpecialTokens bool // leave special tokens out of the text
	CacheSalt         string
	Schema            bool   // the engine binds the answer to a grammar
	LoRA              string // the engines' name of the adapter; "" for the base model
	Tenant            string // API key's name, else "default"
	Session           string // "" if the client named none
	Class             queue.Class
	SLO               SLO

	// Resume is what the client wants if an engine fails in the middle of an answer. Whole: it gets nothing before the
	// answer's end, so that a leg may also begin anew.
	Resume Resume
	Whole  bool
}

// SLO is how fast an answer has to come, so that one which cannot is refused at once and makes nobody wait; nil: it has all the time.
// It never moves the request among those that wait.
type SLO struct {
	TTFT *time.Duration // from arrival to the first token
	TPOT *time.Duration // from one token to the next
}

// Input is the prompt in one of three forms; exactly one is set.
type Input struct {
	Chat *chat.Request // rendered by the model's chat template, or by the engine; one prompt
	// ChatBody is the whole body that Chat was read from, for engines that render by themselves; nil where the prompt's
	// tokens are wanted and nothing else. It is shared: nobody writes to it.
	ChatBody   json.RawMessage
	Texts      []string // encoded with the tokenizer's special tokens if AddSpecial
	AddSpecial bool
	Tokens     [][]uint32 // taken as they are
}

// Prompts is the number of prompts in the input.
func (in Input) Prompts() int {
	switch {
	case in.Chat != nil:
		return 1
	case in.Texts != nil:
		return len(in.Texts)
	default:
		return len(in.Tokens)
	}
}

// Entry is one generated token in a leg's journal.
type Entry struct {
	ID      uint32
	LostIDs int // tokens right before this one whose IDs the engine did not send
	// Text is what the client gets with this token: "" while a character or a possible stop string is incomplete.
	Text    string
	Logprob *engine.Logprob
	Stamp   time.Time // when it was read from the engine's socket
	// Relayed: the engine rendered the prompt and read the answer. Text is the engine's, whatever ID says, which may be
	// [engine.NoTokenID].
	Relayed bool
	// ChatDelta is what a relayed answer says beside text, see [engine.Event]; nil if that is nothing.
	ChatDelta json.RawMessage
}

// StopReason says why a leg ended, in OpenAI's sense.
type StopReason uint8

const (
	StopEnd       StopReason = iota // an end token or a stop string: finish_reason "stop"
	StopLength                      // max_tokens or the context's end: finish_reason "length"
	StopToolCalls                   // the engine read calls of tools in a relayed answer: finish_reason "tool_calls"

	NumStopReasons
)

// Finish ends a leg.
type Finish struct {
	Reason StopReason
	// Text is what was held back and comes with the end (an incomplete possible stop string, a broken character).
	Text string
	// StopString is the client's stop string that matched, nil if none did.
	StopString *string
	// StopToken is the client's stop token ID that ended the leg, nil if none did.
	StopToken *uint32
	// CompletionTokens counts the tokens through the one that completed the end.
	CompletionTokens int
}

// Delta is a run of a leg's entries that the reader has not seen yet, or its end, or both.
type Delta struct {
	Leg int // prompt index * N + answer index
	// Restarted: the leg has begun anew, and what was read of it before counts no more. Only where Request.Whole is set.
	Restarted bool
	Entries   []Entry
	Finish    *Finish // non-nil on the last delta of a leg
}

// Usage counts a request's tokens.
type Usage struct {
	PromptTokens     int // each prompt once; of one that the engine renders an estimate until the engine says it
	CompletionTokens int // over all legs
	CachedTokens     int // of the prompts, as engines said of the first attempt that gave a token
	CachedKnown      bool
}
