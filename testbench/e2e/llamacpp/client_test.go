//go:build e2e

package llamacpp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"plimsoll/engine/sse"
)

// message is one turn of a chat.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// chatRequest is a streaming chat request, greedy so that answers repeat.
type chatRequest struct {
	Model         string          `json:"model"`
	Messages      []message       `json:"messages"`
	MaxTokens     int             `json:"max_tokens"`
	Temperature   float64         `json:"temperature"`
	IgnoreEOS     bool            `json:"ignore_eos"`
	Stream        bool            `json:"stream"`
	StreamOptions map[string]bool `json:"stream_options"`
}

func chatOf(maxTokens int, messages ...message) chatRequest {
	return chatRequest{
		Model: "gemma-3-270m", Messages: messages, MaxTokens: maxTokens, Stream: true, StreamOptions: map[string]bool{"include_usage": true},
	}
}

func user(text string) message      { return message{"user", text} }
func assistant(text string) message { return message{"assistant", text} }

// answer is what a chat gave.
type answer struct {
	text             string
	replica          string
	finish           string
	firstTokenAfter  time.Duration
	promptTokens     int
	cachedTokens     int
	completionTokens int
}

// chunk is what is read of a chunk of a chat's stream.
type chunk struct {
	Error   json.RawMessage `json:"error"`
	Choices []struct {
		Delta        struct{ Content string } `json:"delta"`
		FinishReason string                   `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		Details          struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

// chat sends a request and reads its stream. onText, if not nil, hears every piece of text with the replica's name.
func chat(ctx context.Context, url string, body chatRequest, onText func(replica string)) (answer, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", bytes.NewReader(text))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	sent := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		words, _ := io.ReadAll(resp.Body)
		return answer{}, fmt.Errorf("status %d: %s", resp.StatusCode, words)
	}
	a := answer{replica: resp.Header.Get("X-Plimsoll-Replica")}
	return a, a.read(resp.Body, sent, onText)
}

// read reads a stream to its [DONE].
func (a *answer) read(body io.Reader, sent time.Time, onText func(replica string)) error {
	frames := sse.NewReader(body, sse.DefaultLimits())
	for {
		frame, err := frames.Next()
		if err != nil {
			return err
		}
		if string(frame.Data) == "[DONE]" {
			return nil
		}
		var c chunk
		if err := json.Unmarshal(frame.Data, &c); err != nil {
			return err
		}
		if c.Error != nil {
			return errors.New(string(c.Error))
		}
		if c.Usage != nil {
			a.promptTokens, a.completionTokens, a.cachedTokens = c.Usage.PromptTokens, c.Usage.CompletionTokens, c.Usage.Details.CachedTokens
		}
		for _, choice := range c.Choices {
			if choice.FinishReason != "" {
				a.finish = choice.FinishReason
			}
			if choice.Delta.Content == "" {
				continue
			}
			if a.firstTokenAfter == 0 {
				a.firstTokenAfter = time.Since(sent)
			}
			a.text += choice.Delta.Content
			if onText != nil {
				onText(a.replica)
			}
		}
	}
}
