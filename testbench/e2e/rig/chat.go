//go:build e2e

package rig

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

// Message is one turn of a chat.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// User is a turn of the user.
func User(text string) Message { return Message{"user", text} }

// Assistant is a turn of the model.
func Assistant(text string) Message { return Message{"assistant", text} }

// ChatRequest is a streaming chat request, greedy so that answers repeat.
type ChatRequest struct {
	Model         string          `json:"model"`
	Messages      []Message       `json:"messages"`
	MaxTokens     int             `json:"max_tokens"`
	Temperature   float64         `json:"temperature"`
	IgnoreEOS     bool            `json:"ignore_eos"`
	Stream        bool            `json:"stream"`
	StreamOptions map[string]bool `json:"stream_options"`
}

// ChatOf asks a model for up to maxTokens.
func ChatOf(model string, maxTokens int, messages ...Message) ChatRequest {
	return ChatRequest{
		Model: model, Messages: messages, MaxTokens: maxTokens, Stream: true, StreamOptions: map[string]bool{"include_usage": true},
	}
}

// Answer is what a chat gave.
type Answer struct {
	Text             string
	Replica          string
	Finish           string
	FirstTokenAfter  time.Duration
	PromptTokens     int
	CachedTokens     int
	CompletionTokens int
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

// Chat sends a request and reads its stream. onText, if not nil, hears every piece of text with the replica's name.
func Chat(ctx context.Context, url string, body ChatRequest, onText func(replica string)) (Answer, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return Answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", bytes.NewReader(text))
	if err != nil {
		return Answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	sent := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		words, _ := io.ReadAll(resp.Body)
		return Answer{}, fmt.Errorf("status %d: %s", resp.StatusCode, words)
	}
	a := Answer{Replica: resp.Header.Get("X-Plimsoll-Replica")}
	return a, a.read(resp.Body, sent, onText)
}

// read reads a stream to its [DONE].
func (a *Answer) read(body io.Reader, sent time.Time, onText func(replica string)) error {
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
			a.PromptTokens, a.CompletionTokens, a.CachedTokens = c.Usage.PromptTokens, c.Usage.CompletionTokens, c.Usage.Details.CachedTokens
		}
		for _, choice := range c.Choices {
			if choice.FinishReason != "" {
				a.Finish = choice.FinishReason
			}
			if choice.Delta.Content == "" {
				continue
			}
			if a.FirstTokenAfter == 0 {
				a.FirstTokenAfter = time.Since(sent)
			}
			a.Text += choice.Delta.Content
			if onText != nil {
				onText(a.Replica)
			}
		}
	}
}
