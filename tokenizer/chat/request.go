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

func orElse(b *bool, absent bool) bool {
	if b == nil {
		return absent
	}
	return *b
}
