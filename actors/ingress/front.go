package ingress

import (
	"context"
	"time"

	"plimsoll/actors/stream"
)

// Front is what the HTTP edge needs of the actors behind it. [plimsoll/actors.System] implements it.
type Front interface {
	// Models lists what is served: the models, then their other names, then their adapters.
	Models() []Model
	// Model returns the one of Models with a name; false: there is none. Each request asks for it.
	Model(name string) (Model, bool)
	// Submit hands a request to its model's router and returns at once. The model must be one of Models.
	Submit(req *stream.Request) *stream.Response
	// Tokenize renders and encodes an input by the model's bounded tokenizer workers, without running it: a prompt's
	// text ("" for token input) and IDs, one each prompt. Errors are [*fault.Fault].
	Tokenize(ctx context.Context, model, tenant string, in stream.Input) ([]Encoded, error)
	// Health says how the node is.
	Health() Health
}

// Encoded is one tokenized prompt.
type Encoded struct {
	Text string
	IDs  []uint32
}

// Model is one served model.
type Model struct {
	Name          string
	Parent        string    // the model that this LoRA adapter belongs to; "" of a model itself
	Alias         bool      // Name is another name of a model that is listed too
	Root          string    // the engines' own name of the model, or of an adapter's parent
	Created       time.Time // when this node began to serve it
	ContextTokens int       // longest prompt plus answer that a configured replica takes; 0 before any has told
	Tokenizer     Tokenizer
	Logprobs      bool // some replica's engine gives log probabilities
	LogitBias     bool // some replica's engine applies logit_bias
	MinTokens     bool // some replica's engine keeps to min_tokens
	// EngineRenders: every chat goes to the engine as it came, so that what only the engine has may be asked for.
	EngineRenders bool
}

// Tokenizer turns IDs back into text. It is safe for concurrent use.
type Tokenizer interface {
	Decode(ids []uint32, skipSpecial bool) (string, error)
	// Token is the vocabulary's string of an ID (byte-level tokenizers map bytes to letters there).
	Token(id uint32) (string, bool)
	VocabSize() int
}

// Health is the node's state for the probes.
type Health struct {
	ShuttingDown bool
	Ready        bool // every model has a replica that serves
	Unnamed      bool // a model's name is not known yet, because none of its engines has answered
	Replicas     []Replica
}

// Replica is one line of the health report.
type Replica struct {
	Name, Model, State string
}
