package chat

import (
	"encoding/json"
	"math"
)

const (
	// estimatedBytesPerToken is about what a token of a modern vocabulary (128k words and more) covers: English prose has
	// 4.5 bytes a token, code and JSON some 3, Chinese and Japanese in UTF-8 some 3 to 4. The lower end is taken: booking a
	// little too much costs less than a preemption.
	estimatedBytesPerToken = 3.5
	// estimatedMediaTokens is what a part that is no text counts for. An image takes 256 (Gemma 3) to 1,600 tokens (Qwen2.5-VL
	// at 1120 x 1120) after the engine's preprocessing, a minute of audio some 750 to 1,500.
	estimatedMediaTokens = 1024
	// estimatedMessageTokens is what a template writes around a message.
	estimatedMessageTokens = 8
)

// Estimate is about how many tokens the prompt of a request has, at least 1, for requests that cannot be rendered here. It
// reads no more than it must: what is malformed counts with its bytes.
func Estimate(req Request) int {
	bytes, media, messages := len(req.Tools)+len(req.Documents), 0, 0
	var list []map[string]json.RawMessage
	if json.Unmarshal(req.Messages, &list) != nil {
		bytes += len(req.Messages)
	}
	for _, message := range list {
		messages++
		for name, value := range message {
			if name != "content" {
				bytes += len(value)
				continue
			}
			text, parts := estimateContent(value)
			bytes += text
			media += parts
		}
	}
	tokens := math.Ceil(float64(bytes)/estimatedBytesPerToken) + float64(media*estimatedMediaTokens+messages*estimatedMessageTokens)
	return max(1, int(tokens))
}

// estimateContent counts the bytes of text in a message's content, and its parts that are something else.
func estimateContent(raw json.RawMessage) (bytes, media int) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return len(text), 0
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return len(raw), 0
	}
	for _, raw := range parts {
		var part map[string]json.RawMessage
		var kind string
		if json.Unmarshal(raw, &part) != nil || json.Unmarshal(part["type"], &kind) != nil {
			kind = "" // a bare string, or a part that only its media key tells
		}
		key, isText := textKey(kind)
		switch {
		case isText:
			bytes += len(part[key])
		case part == nil:
			bytes += len(raw)
		default:
			media++
		}
	}
	return bytes, media
}
