package llamacpp

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"plimsoll/engine"
	"plimsoll/engine/wire"
)

// parameters is the body of POST /completion without the prompt. Absent fields are the server's defaults.
type parameters struct {
	Model            string        `json:"model,omitempty"`
	NPredict         int           `json:"n_predict"`
	Stream           bool          `json:"stream"`
	ReturnTokens     bool          `json:"return_tokens"`
	ReturnProgress   bool          `json:"return_progress"`
	CachePrompt      bool          `json:"cache_prompt"`
	IDSlot           int           `json:"id_slot"`
	Temperature      *float64      `json:"temperature,omitempty"`
	TopP             *float64      `json:"top_p,omitempty"`
	TopK             *int          `json:"top_k,omitempty"`
	MinP             *float64      `json:"min_p,omitempty"`
	PresencePenalty  *float64      `json:"presence_penalty,omitempty"`
	FrequencyPenalty *float64      `json:"frequency_penalty,omitempty"`
	RepeatPenalty    *float64      `json:"repeat_penalty,omitempty"`
	Seed             *uint32       `json:"seed,omitempty"`
	LogitBias        []biasedToken `json:"logit_bias,omitempty"`
	IgnoreEOS        bool          `json:"ignore_eos,omitempty"`
	NProbs           int           `json:"n_probs,omitempty"`
}

// biasedToken is an [id, bias] pair.
type biasedToken struct {
	id   uint32
	bias float64
}

// MarshalJSON implements json.Marshaler.
func (b biasedToken) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]any{b.id, b.bias})
}

// encode returns the body for a request, or a Client failure for what the server cannot do.
func encode(req engine.Request) ([]byte, error) {
	switch {
	case req.ChatBody != nil || len(req.PromptTokens) == 0:
		return nil, wire.Refuse("prompt", "llama.cpp is asked with token IDs, at least one")
	case req.MaxTokens < 1: // n_predict 0 gives one token, -1 the whole context
		return nil, wire.Refuse("max_tokens", fmt.Sprintf("max_tokens is %d: want at least 1", req.MaxTokens))
	case req.MinTokens > 0:
		return nil, wire.Refuse("min_tokens", "min_tokens is not supported by llama.cpp")
	case req.LoRA != "":
		return nil, wire.Refuse("model", "LoRA adapters cannot be chosen by name in llama.cpp")
	}
	rest, err := json.Marshal(parametersOf(req))
	if err != nil {
		return nil, wire.Refuse("", "a sampling parameter is not a number")
	}
	body := make([]byte, 0, len(req.PromptTokens)*wire.BytesPerToken+len(rest)+16)
	body = wire.AppendIDs(append(body, `{"prompt":`...), req.PromptTokens)
	body = append(body, ',')
	return append(body, rest[1:]...), nil
}

func parametersOf(req engine.Request) parameters {
	s := req.Sampling
	p := parameters{
		Model:            req.Model,
		NPredict:         req.MaxTokens,
		Stream:           true,
		ReturnTokens:     true,
		ReturnProgress:   true,
		CachePrompt:      req.CacheSalt == "",
		IDSlot:           -1,
		Temperature:      s.Temperature,
		TopP:             s.TopP,
		TopK:             s.TopK,
		MinP:             s.MinP,
		PresencePenalty:  s.PresencePenalty,
		FrequencyPenalty: s.FrequencyPenalty,
		RepeatPenalty:    s.RepetitionPenalty,
		IgnoreEOS:        req.IgnoreEOS,
	}
	if s.Seed != nil {
		seed := foldSeed(*s.Seed)
		p.Seed = &seed
	}
	for id, bias := range s.LogitBias {
		p.LogitBias = append(p.LogitBias, biasedToken{id, bias})
	}
	slices.SortFunc(p.LogitBias, func(a, b biasedToken) int { return int(int64(a.id) - int64(b.id)) })
	if req.TopLogprobs != nil {
		p.NProbs = max(1, *req.TopLogprobs) // 0 turns them off; decoder cuts the list
	}
	return p
}

// foldSeed maps a client's seed to the server's 32 bits. The server takes the highest value as "draw one".
func foldSeed(seed int64) uint32 {
	folded := uint32(seed) ^ uint32(seed>>32)
	if folded == math.MaxUint32 {
		folded--
	}
	return folded
}
