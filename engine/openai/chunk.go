package openai

import "strconv"

// Chunks writes the chunks of one streamed answer. Each method appends one chunk's JSON to dst and returns it; what is the
// same in all of them (id, created, model, fingerprint) is encoded once. A value is immutable, but for SetUsage, and safe for
// concurrent use.
type Chunks struct {
	chat  bool
	soFar bool   // tail tells the usage so far
	head  []byte // up to and with the [ of choices
	tail  []byte // from the ] of choices
}

// ChunkHead is what all chunks of an answer have in common.
type ChunkHead struct {
	Chat              bool // chat.completion.chunk, else text_completion
	ID                string
	Model             string
	SystemFingerprint string
	Created           int64 // Unix seconds
	Usage             bool  // the client asked for a usage chunk: all others carry a null
	// UsageSoFar: the client asked for the usage so far in every chunk; SetUsage says it.
	UsageSoFar bool
}

// NewChunks returns the chunks of one answer.
func NewChunks(h ChunkHead) *Chunks {
	object := "text_completion"
	if h.Chat {
		object = "chat.completion.chunk"
	}
	b := AppendString([]byte(`{"id":`), h.ID)
	b = append(b, `,"object":"`+object+`","created":`...)
	b = strconv.AppendInt(b, h.Created, 10)
	b = AppendString(append(b, `,"model":`...), h.Model)
	b = AppendString(append(b, `,"system_fingerprint":`...), h.SystemFingerprint)
	c := &Chunks{chat: h.Chat, head: append(b, `,"choices":[`...), tail: []byte(`]}`)}
	switch {
	case h.UsageSoFar:
		c.soFar = true
		c.SetUsage(Usage{})
	case h.Usage:
		c.tail = []byte(`],"usage":null}`)
	}
	return c
}

// SetUsage is the usage that the chunks after it tell, where UsageSoFar was asked for. One goroutine at a time may use a value
// whose SetUsage is called.
func (c *Chunks) SetUsage(u Usage) {
	if c.soFar {
		c.tail = append(appendUsage(append(c.tail[:0], `],"usage":`...), u), '}')
	}
}

// AppendRole appends the chunk that opens a chat's choice. A text completion has none: dst comes back as it is.
func (c *Chunks) AppendRole(dst []byte, index int) []byte {
	if !c.chat {
		return dst
	}
	dst = append(append(dst, c.head...), `{"index":`...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	dst = append(dst, `,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}`...)
	return append(dst, c.tail...)
}

// AppendText appends a chunk with text; logprobs is the JSON of a [ChatLogprobs] or a [CompletionLogprobs], nil for none.
func (c *Chunks) AppendText(dst []byte, index int, text string, logprobs []byte) []byte {
	dst = append(append(dst, c.head...), `{"index":`...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	if c.chat {
		dst = append(dst, `,"delta":{"content":`...)
		dst = append(AppendString(dst, text), '}')
	} else {
		dst = AppendString(append(dst, `,"text":`...), text)
	}
	dst = append(dst, `,"logprobs":`...)
	if logprobs == nil {
		dst = append(dst, "null"...)
	}
	dst = append(append(dst, logprobs...), `,"finish_reason":null}`...)
	return append(dst, c.tail...)
}

// AppendDelta appends a chat's chunk with text, which may be empty, and what is said beside it.
func (c *Chunks) AppendDelta(dst []byte, index int, text string, d *Delta, logprobs []byte) []byte {
	dst = append(append(dst, c.head...), `{"index":`...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	dst = append(dst, `,"delta":{`...)
	if text != "" {
		dst = AppendString(append(dst, `"content":`...), text)
	}
	dst = append(d.AppendMembers(dst, text == ""), `},"logprobs":`...)
	if logprobs == nil {
		dst = append(dst, "null"...)
	}
	dst = append(append(dst, logprobs...), `,"finish_reason":null}`...)
	return append(dst, c.tail...)
}

// AppendFinish appends the chunk that ends a choice.
func (c *Chunks) AppendFinish(dst []byte, index int, reason string, stop StopReason) []byte {
	dst = append(append(dst, c.head...), `{"index":`...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	if c.chat {
		dst = append(dst, `,"delta":{}`...)
	} else {
		dst = append(dst, `,"text":""`...)
	}
	dst = append(dst, `,"logprobs":null,"finish_reason":`...)
	dst = append(AppendString(dst, reason), `,"stop_reason":`...)
	dst = append(stop.append(dst), '}')
	return append(dst, c.tail...)
}

// AppendUsage appends the chunk that tells the usage and holds no choice.
func (c *Chunks) AppendUsage(dst []byte, u Usage) []byte {
	dst = append(append(dst, c.head...), `],"usage":`...)
	return append(appendUsage(dst, u), '}')
}

func appendUsage(dst []byte, u Usage) []byte {
	dst = append(dst, `{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.PromptTokens), 10)
	dst = strconv.AppendInt(append(dst, `,"completion_tokens":`...), int64(u.CompletionTokens), 10)
	dst = strconv.AppendInt(append(dst, `,"total_tokens":`...), int64(u.TotalTokens), 10)
	if d := u.PromptTokensDetails; d != nil {
		dst = strconv.AppendInt(append(dst, `,"prompt_tokens_details":{"cached_tokens":`...), int64(d.CachedTokens), 10)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}
