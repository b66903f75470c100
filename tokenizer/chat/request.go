package chat

import "encoding/json"

// Request is what a chat request says about its prompt: raw JSON, as it came. An absent parameter is nil; null is as good as
// absent where OpenAI's API says so.
type Request struct {
	Messages   json.RawMessage // required: an array with at least one message
	Tools      json.RawMessage
	ToolChoice json.RawMessage
	Documents  json.RawMessage // for retrieval: an array of objects
	// Kwargs is the object chat_template_kwargs: more variables for the template.
	Kwargs json.RawMessage
	// ChatTemplate is a template of the request's own. It is refused: it would run foreign code at the engine's side of the API.
	ChatTemplate json.RawMessage

	AddGenerationPrompt  *bool // nil: true
	ContinueFinalMessage *bool // nil: false
	ReasoningEffort      *string
}

// ParseRequest takes what concerns the prompt from the body of a chat request, as the OpenAI API has it. Unless the body says so
// itself, the prompt asks for an answer if it does not carry on with the last message.
func ParseRequest(body []byte) (Request, error) {
	var b struct {
		Messages             json.RawMessage `json:"messages"`
		Tools                json.RawMessage `json:"tools"`
		ToolChoice           json.RawMessage `json:"tool_choice"`
		Documents            json.RawMessage `json:"documents"`
		Kwargs               json.RawMessage `json:"chat_template_kwargs"`
		ChatTemplate         json.RawMessage `json:"chat_template"`
		AddGenerationPrompt  *bool           `json:"add_generation_prompt"`
		ContinueFinalMessage *bool           `json:"continue_final_message"`
		ReasoningEffort      *string         `json:"reasoning_effort"`
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return Request{}, err
	}
	if b.AddGenerationPrompt == nil {
		asks := !orElse(b.ContinueFinalMessage, false)
		b.AddGenerationPrompt = &asks
	}
	return Request(b), nil
}

func orElse(b *bool, absent bool) bool {
	if b == nil {
		return absent
	}
	return *b
}
