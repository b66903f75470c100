package engine

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"plimsoll/scoring/prefix"
)

// Engine is one replica of an engine. Implementations are safe for concurrent use.
type Engine interface {
	// Capabilities says what the adapter and its engine can do. It does not change during the value's life.
	Capabilities() Capabilities
	// Probe asks the engine how it is. It returns an error if the engine cannot serve now: a [*Failure] of kind
	// Refused (nobody listens), Shed (it listens but is still loading), Operator (it refuses our key), Local (it could not be asked) or Broken.
	Probe(ctx context.Context) (Status, error)
	// Generate runs one attempt and calls emit for each event, in order, from one goroutine. See the package comment
	// for what its return says.
	Generate(ctx context.Context, req Request, emit func(Event) error) error
	// Close releases connections. Running calls fail. It is called once.
	Close() error
}

// Request is one attempt of one leg. It carries either token IDs or, for engines that render themselves, a chat body.
type Request struct {
	ID           string          // names the attempt in the engine's log; unique in this process
	Model        string          // the engine's name of the model; "" where it serves only one
	PromptTokens []uint32        // the prompt's token IDs; nil if ChatBody is set
	ChatBody     json.RawMessage // an OpenAI chat request to pass on untokenized; nil if PromptTokens is set
	MaxTokens    int             // tokens to generate at most, >= 1, always sent
	MinTokens    int             // tokens before an end token is allowed
	Sampling     Sampling
	EndTokens    []uint32 // IDs that end the answer beside the engine's own EOS
	IgnoreEOS    bool
	TopLogprobs  *int   // nil: no logprobs; else that many alternatives beside each token's own (0: only its own)
	CacheSalt    string // isolates the prefix cache; "" shares it
	LoRA         string // adapter name; "" for the base model
}

// Sampling holds what the client set; nil means the engine's default.
type Sampling struct {
	Temperature       *float64
	TopP              *float64
	TopK              *int
	MinP              *float64
	PresencePenalty   *float64
	FrequencyPenalty  *float64
	RepetitionPenalty *float64
	Seed              *int64
	LogitBias         map[uint32]float64
}

// Event is what one frame of the engine said. Any part may be empty.
type Event struct {
	Tokens       []Token
	CachedTokens *int // prompt tokens the engine found in its cache, once it says so
	// PromptTokens is the length of a prompt that the engine rendered itself, once it says so; nil for a request with token
	// IDs.
	PromptTokens *int
	Finish       *Finish
	// ChatDelta is what a chat that the engine rendered itself says beside text (tool calls, reasoning): an OpenAI delta
	// without role and content, told with the tokens that it was made of (at least one). nil if there is none, and always for
	// a request with token IDs.
	ChatDelta json.RawMessage
}

// NoTokenID is the ID of a token that an engine gave as text alone.
const NoTokenID = math.MaxUint32

// Token is one generated token.
type Token struct {
	ID uint32
	// LostIDs counts tokens right before this one whose IDs the engine did not send (llama.cpp inside a character of
	// several tokens). Text then holds the text of all of them and this one. In a chat that the engine rendered itself Text is
	// what this token adds to the content, "" where that is nothing. Otherwise it is nil and the text is the tokenizer's.
	LostIDs int
	Text    *string
	Logprob *Logprob // nil unless asked for and given
}

// Logprob is a token's log probability (natural logarithm) and those of its strongest rivals, best first.
type Logprob struct {
	Logprob float64
	Top     []RankedToken
}

// RankedToken is an alternative at a position.
type RankedToken struct {
	ID      uint32
	Logprob float64
}

// FinishReason says why the engine stopped.
type FinishReason uint8

const (
	FinishStop      FinishReason = iota // an end token; it is the last of the tokens emitted where the engine gives it
	FinishLength                        // MaxTokens or the context's end
	FinishToolCalls                     // as FinishStop, and what the engine read in the answer are calls of tools; of chat bodies only
	FinishAbort                         // somebody aborted the request on the engine: not by us, else the context has ended

	NumFinishReasons
)

// Finish ends an attempt.
type Finish struct {
	Reason FinishReason
}

// Status is what Probe found. A nil pointer means that the engine does not tell.
type Status struct {
	Model   string // the engine's own name of the model, by which Request.Model asks for it
	Version string
	// What tells its model from others. Engines that say different things of it serve different models.
	Names        []string // all names that the engine has for the model, Model among them; nil: it says none
	LengthTokens *int     // longest prompt plus answer that the model takes there, whatever the cache holds
	VocabTokens  *int     // size of the vocabulary
	// Process names the process that answers, among all engines that there are: who says the same is the same engine. ""
	// if the engine shows nothing that would tell.
	Process string
	// Ranks are the data-parallel ranks that the server has, sorted, of which this status tells one; nil: it has only one, or
	// does not say.
	Ranks []int
	// Incarnation is evidence about the serving process: it differs between two lives of the engine. "" if the engine
	// shows nothing of the kind.
	Incarnation    string
	BlockTokens    *int // tokens a KV block
	KVBlocks       *int // usable blocks of the device cache
	Seats          *int // sequences decoded at once
	SequenceTokens *int // longest prompt plus answer
	// Adapters are the LoRA adapters that Request.LoRA may name, sorted; nil where the engine has or tells none.
	Adapters []string
	Load     Load
}

// Load is the engine's own view of its work. It audits our ledger and never replaces it.
type Load struct {
	RunningSequences *int
	WaitingSequences *int
	UsedBlocks       *int    // referenced by running sequences; what is only cached counts as free
	Steps            *uint64 // forward passes since the start: flat while sequences run means hung
}

// Sharing says from when on a running request's prompt blocks serve others.
type Sharing uint8

const (
	SharingNever           Sharing = iota // every request has blocks of its own (llama.cpp)
	SharingFromDispatch                   // blocks of a running prefill are hit at once (vLLM)
	SharingAfterFirstToken                // blocks are hit when the holder's prefill is over (SGLang)

	NumSharings
)

// Capabilities are fixed for an engine's life.
type Capabilities struct {
	Kind    string // "sim", "llamacpp", ...: the word before = in --replica
	Sharing Sharing
	// ConfirmsAbort: when Generate returns, the engine has let go of the request's blocks. Otherwise they stay booked
	// until LingerBound has passed or the engine's load shows them free.
	ConfirmsAbort bool
	LingerBound   time.Duration
	Logprobs      bool
	MinTokens     bool
	LogitBias     bool
	KVEvents      bool          // the engine implements KVSource
	KVCopies      prefix.Copies // how its events count a block that is stored again
	Chat          bool          // takes Request.ChatBody
	// LostMost is how many tokens it may have computed beyond those that it has told of, because it tells of no ID inside a character.
	LostMost int
}
