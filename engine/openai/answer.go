package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Finish reasons of a choice.
const (
	FinishStop   = "stop"   // an end token or a stop string
	FinishLength = "length" // max_tokens or the context's end
	// FinishToolCalls is an end at which the engine read calls of tools in the answer.
	FinishToolCalls = "tool_calls"
)

// LeastLogprob stands for a log probability that JSON can't hold (minus infinity) or that nobody gave. The API reference
// uses the same figure for "very unlikely".
const LeastLogprob = -9999.0

// ChatCompletion is the whole answer of POST /v1/chat/completions.
type ChatCompletion struct {
	ID                string       `json:"id"`
	Object            string       `json:"object"` // "chat.completion"
	Created           int64        `json:"created"`
	Model             string       `json:"model"`
	Choices           []ChatChoice `json:"choices"`
	Usage             *Usage       `json:"usage,omitempty"`
	SystemFingerprint string       `json:"system_fingerprint"`
}

// ChatChoice is one answer to a chat.
type ChatChoice struct {
	Index        int           `json:"index"`
	Message      Message       `json:"message"`
	Logprobs     *ChatLogprobs `json:"logprobs"`
	FinishReason string        `json:"finish_reason"`
	StopReason   StopReason    `json:"stop_reason"`
}

// ChatMessage is what the model said.
type ChatMessage struct {
	Role    string  `json:"role"`
	Content *string `json:"content"`
	Refusal *string `json:"refusal"`
}

// ChatLogprobs lists the tokens of a chat's answer, or of one chunk of it.
type ChatLogprobs struct {
	Content []TokenLogprob `json:"content"`
	Refusal []TokenLogprob `json:"refusal"`
}

// TokenLogprob is one generated token with its strongest alternatives.
type TokenLogprob struct {
	RankedLogprob
	TopLogprobs []RankedLogprob `json:"top_logprobs"`
}

// RankedLogprob is a token and its natural log probability.
type RankedLogprob struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Bytes   Bytes   `json:"bytes"`
}

// Bytes are a token's raw bytes, on the wire a list of numbers.
type Bytes []byte

// MarshalJSON implements json.Marshaler.
func (b Bytes) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 2+4*len(b))
	out = append(out, '[')
	for i, c := range b {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendUint(out, uint64(c), 10)
	}
	return append(out, ']'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (b *Bytes) UnmarshalJSON(raw []byte) error {
	var list []uint8
	var wide []uint16 // a []uint8 would be read as base64
	if err := json.Unmarshal(raw, &wide); err != nil {
		return fmt.Errorf("a token's bytes: %w", err)
	}
	if wide != nil {
		list = make([]uint8, len(wide))
	}
	for i, w := range wide {
		if w > math.MaxUint8 {
			return fmt.Errorf("a token's bytes: %d at %d is no byte", w, i)
		}
		list[i] = uint8(w)
	}
	*b = list
	return nil
}

// Completion is the whole answer of POST /v1/completions.
type Completion struct {
	ID                string             `json:"id"`
	Object            string             `json:"object"` // "text_completion"
	Created           int64              `json:"created"`
	Model             string             `json:"model"`
	Choices           []CompletionChoice `json:"choices"`
	Usage             *Usage             `json:"usage,omitempty"`
	SystemFingerprint string             `json:"system_fingerprint"`
}

// CompletionChoice is one answer to one prompt.
type CompletionChoice struct {
	Text         string              `json:"text"`
	Index        int                 `json:"index"`
	Logprobs     *CompletionLogprobs `json:"logprobs"`
	FinishReason string              `json:"finish_reason"`
	StopReason   StopReason          `json:"stop_reason"`
}

// CompletionLogprobs lists the tokens of a choice, or of one chunk of it, as four columns of one length.
type CompletionLogprobs struct {
	TextOffset    []int                `json:"text_offset"` // code points from the start of the choice's text
	TokenLogprobs []float64            `json:"token_logprobs"`
	Tokens        []string             `json:"tokens"`
	TopLogprobs   []map[string]float64 `json:"top_logprobs"`
}

// StopReason is what ended a choice beside the model's own end token: the client's stop string or stop token ID. At most
// one is set; neither is null on the wire. It is vLLM's addition to the API.
type StopReason struct {
	Text  *string
	Token *uint32
}

// MarshalJSON implements json.Marshaler.
func (s StopReason) MarshalJSON() ([]byte, error) { return s.append(nil), nil }

func (s StopReason) append(dst []byte) []byte {
	switch {
	case s.Text != nil:
		return AppendString(dst, *s.Text)
	case s.Token != nil:
		return strconv.AppendUint(dst, uint64(*s.Token), 10)
	default:
		return append(dst, "null"...)
	}
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *StopReason) UnmarshalJSON(raw []byte) error {
	*s = StopReason{}
	if len(raw) > 0 && raw[0] == '"' {
		return json.Unmarshal(raw, &s.Text)
	}
	return json.Unmarshal(raw, &s.Token)
}

// Usage counts the tokens of a whole answer.
type Usage struct {
	PromptTokens        int                  `json:"prompt_tokens"`
	CompletionTokens    int                  `json:"completion_tokens"`
	TotalTokens         int                  `json:"total_tokens"`
	PromptTokensDetails *PromptTokensDetails `json:"prompt_tokens_details,omitempty"` // nil: the engine did not tell
}

// PromptTokensDetails says how much of the prompt the engine had cached.
type PromptTokensDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

// ModelList is the answer of GET /v1/models.
type ModelList struct {
	Object string  `json:"object"` // "list"
	Data   []Model `json:"data"`
}

// Model is one served model.
type Model struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // "model"
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	// Root is the name that the engines have for the model, Parent the model that an adapter belongs to; nil of a model itself.
	Root        string  `json:"root"`
	Parent      *string `json:"parent"`
	MaxModelLen *int    `json:"max_model_len"` // vLLM's name for the longest prompt plus answer; nil: not known yet
}

// ErrorBody is the body of every error answer, and the data of an error event in a stream.
type ErrorBody struct {
	Error Error `json:"error"`
}

// Error is the API's error object. Param and Code are null where there is none.
type Error struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// Marshal encodes one of this package's types without HTML escapes.
func Marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
