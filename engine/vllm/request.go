package vllm

import (
	"cmp"
	"encoding/json"
	"math"
	"strconv"

	"plimsoll/engine"
	"plimsoll/engine/wire"
)

// sampling is what both routes call alike. Absent fields are the server's defaults (generation_config of the model).
type sampling struct {
	MaxTokens         int                `json:"max_tokens"`
	MinTokens         int                `json:"min_tokens,omitempty"`
	Temperature       *float64           `json:"temperature,omitempty"`
	TopP              *float64           `json:"top_p,omitempty"`
	TopK              *int               `json:"top_k,omitempty"`
	MinP              *float64           `json:"min_p,omitempty"`
	PresencePenalty   *float64           `json:"presence_penalty,omitempty"`
	FrequencyPenalty  *float64           `json:"frequency_penalty,omitempty"`
	RepetitionPenalty *float64           `json:"repetition_penalty,omitempty"`
	Seed              *int64             `json:"seed,omitempty"`
	LogitBias         map[string]float64 `json:"logit_bias,omitempty"`
	StopTokenIDs      []uint32           `json:"stop_token_ids,omitempty"`
	IgnoreEOS         bool               `json:"ignore_eos,omitempty"`
	Logprobs          *int               `json:"logprobs,omitempty"`
}

// envelope is what both routes take beside the prompt and the sampling.
type envelope struct {
	Model         string        `json:"model,omitempty"`
	Stream        bool          `json:"stream"`
	StreamOptions streamOptions `json:"stream_options"`
	CacheSalt     string        `json:"cache_salt,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// completion is the body of POST /v1/completions without the prompt.
type completion struct {
	envelope
	sampling
	ReturnTokenIDs bool `json:"return_token_ids"`
	TokensAsIDs    bool `json:"return_tokens_as_token_ids,omitempty"`
}

// generation is the body of POST /inference/v1/generate without the prompt.
type generation struct {
	envelope
	SamplingParams struct {
		sampling
		Detokenize bool `json:"detokenize"`
	} `json:"sampling_params"`
}

// encode returns the call for a request, or a Client failure for what cannot be asked. model is its name where the
// request names none.
func encode(req engine.Request, model string, generate bool) (wire.Request, error) {
	model = cmp.Or(req.LoRA, req.Model, model)
	switch {
	case req.MaxTokens < 1: // 0 is refused by the server too; absent it would be 16
		return wire.Request{}, wire.Refuse("max_tokens", "max_tokens is "+strconv.Itoa(req.MaxTokens)+": want at least 1")
	case req.ChatBody != nil:
		return encodeChat(req, model)
	case len(req.PromptTokens) == 0:
		return wire.Request{}, wire.Refuse("prompt", "the prompt has no tokens")
	}
	env := envelope{Model: model, Stream: true, StreamOptions: streamOptions{IncludeUsage: true}, CacheSalt: req.CacheSalt}
	path, head := "v1/completions", `{"prompt":`
	var body any = completion{envelope: env, sampling: samplingOf(req), ReturnTokenIDs: true, TokensAsIDs: req.TopLogprobs != nil}
	if generate {
		g := generation{envelope: env}
		g.SamplingParams.sampling = samplingOf(req)
		path, head, body = "inference/v1/generate", `{"token_ids":`, g
	}
	rest, err := json.Marshal(body)
	if err != nil {
		return wire.Request{}, wire.Refuse("", "a sampling parameter is not a number")
	}
	text := make([]byte, 0, len(req.PromptTokens)*wire.BytesPerToken+len(rest)+len(head)+2)
	text = wire.AppendIDs(append(text, head...), req.PromptTokens)
	text = append(append(text, ','), rest[1:]...)
	return wire.Request{Path: path, Body: text}, nil
}

func samplingOf(req engine.Request) sampling {
	s := req.Sampling
	out := sampling{
		MaxTokens: req.MaxTokens, MinTokens: req.MinTokens,
		Temperature: s.Temperature, TopP: s.TopP, TopK: s.TopK, MinP: s.MinP,
		PresencePenalty: s.PresencePenalty, FrequencyPenalty: s.FrequencyPenalty, RepetitionPenalty: s.RepetitionPenalty,
		Seed: seedOf(s.Seed), StopTokenIDs: req.EndTokens, IgnoreEOS: req.IgnoreEOS, Logprobs: req.TopLogprobs,
	}
	if len(s.LogitBias) > 0 {
		out.LogitBias = make(map[string]float64, len(s.LogitBias))
		for id, bias := range s.LogitBias {
			out.LogitBias[strconv.FormatUint(uint64(id), 10)] = bias
		}
	}
	return out
}

// seedOf replaces the one seed that the server takes for none.
func seedOf(seed *int64) *int64 {
	const none = -1
	if seed == nil || *seed != none {
		return seed
	}
	other := int64(math.MaxInt64)
	return &other
}
