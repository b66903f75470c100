package vllm

import (
	"encoding/json"

	"plimsoll/engine"
	"plimsoll/engine/wire"
)

// steering lists members of a client's chat body that steer the engine rather than the answer. They are not passed on:
// what they decide is decided here, or could harm the engine's other users.
func steering() []string {
	return []string{
		"n",                                   // each choice is a request of its own
		"max_completion_tokens", "request_id", // replaced
		"priority", "session_id", "vllm_xargs", // scheduling; reports that falsify KV events
		"kv_transfer_params", "ec_transfer_params", // where the engine fetches KV from
	}
}

// encodeChat puts into a client's body what the request says and leaves the rest as it is, stop strings included: text
// and stops are the engine's here.
func encodeChat(req engine.Request, model string) (wire.Request, error) {
	var body map[string]json.RawMessage
	if json.Unmarshal(req.ChatBody, &body) != nil || body == nil {
		return wire.Request{}, wire.Refuse("messages", "the chat request is no JSON object")
	}
	for _, name := range steering() {
		delete(body, name)
	}
	set := map[string]any{
		"model": model, "stream": true, "stream_options": streamOptions{IncludeUsage: true}, "return_token_ids": true,
		"max_tokens": req.MaxTokens, "cache_salt": req.CacheSalt, "logprobs": nil, "top_logprobs": nil,
	}
	if req.TopLogprobs != nil {
		set["logprobs"], set["top_logprobs"], set["return_tokens_as_token_ids"] = true, *req.TopLogprobs, true
	}
	if seed := seedOf(req.Sampling.Seed); seed != nil {
		set["seed"] = *seed
	}
	for name, value := range set {
		if value == nil || value == "" {
			delete(body, name)
			continue
		}
		text, err := json.Marshal(value)
		if err != nil {
			return wire.Request{}, wire.Refuse(name, "the chat request cannot be encoded")
		}
		body[name] = text
	}
	text, err := json.Marshal(body)
	if err != nil {
		return wire.Request{}, wire.Refuse("messages", "the chat request cannot be encoded")
	}
	return wire.Request{Path: "v1/chat/completions", Body: text}, nil
}

// delta is what a frame of a chat says.
type delta struct {
	text  string
	other json.RawMessage // tool calls, reasoning; nil if there is neither
}

func readDelta(raw json.RawMessage) (delta, error) {
	if !wire.IsError(raw) { // absent or null
		return delta{}, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return delta{}, err
	}
	var d delta
	if content, ok := members["content"]; ok {
		if err := json.Unmarshal(content, &d.text); err != nil {
			return delta{}, err
		}
	}
	delete(members, "role")
	delete(members, "content")
	for name, value := range members {
		if string(value) == "null" {
			delete(members, name)
		}
	}
	if len(members) == 0 {
		return d, nil
	}
	other, err := json.Marshal(members)
	d.other = other
	return d, err
}
