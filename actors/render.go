package actors

import (
	"context"
	"fmt"
	"log/slog"

	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
	"plimsoll/tokenizer/chat"
)

// Rendering says who turns a model's chats into prompts.
type Rendering uint8

const (
	// RenderLocal renders here, which is what prefix routing lives on. What cannot be rendered here goes to an engine that
	// renders by itself, if the model has one.
	RenderLocal Rendering = iota
	// RenderEngine leaves every chat to the engine: for models whose engine renders by code (gpt-oss, Mistral's own
	// tokenizer), where any template gives another prompt.
	RenderEngine

	NumRenderings
)

// String returns the word used for the flag.
func (r Rendering) String() string {
	switch r {
	case RenderLocal:
		return "local"
	case RenderEngine:
		return "engine"
	case NumRenderings:
	}
	return "unknown"
}

// ParseRendering is the reverse of String.
func ParseRendering(word string) (Rendering, error) {
	for r := range NumRenderings {
		if r.String() == word {
			return r, nil
		}
	}
	return 0, fmt.Errorf("unknown rendering %q: choose local or engine", word)
}

// bySetting stands beside the chat.Inability values for what goes to the engine because the operator says so.
const bySetting = chat.NumInabilities

// renderedByEngine leaves a chat to the engine, as the operator wants.
func (m *model) renderedByEngine(in stream.Input) ([]stream.Prompt, error) {
	switch {
	case in.ChatBody == nil:
		return nil, fault.Invalid("messages", "messages can't be tokenized here: the engines of this model render chats by themselves")
	case !m.rendersChats():
		return nil, fault.New(fault.NoReplica, "no replica of model %q renders chats by itself", m.name())
	}
	return m.passOn(in, bySetting, nil), nil
}

// passOn makes a chat a prompt that the engine renders, counts it, and says so in the log the first time.
func (m *model) passOn(in stream.Input, why chat.Inability, err error) []stream.Prompt {
	reason, level := "setting", slog.LevelInfo
	if why != bySetting {
		reason, level = why.String(), slog.LevelWarn
	}
	m.meters.tokenizer.PassedOn(reason)
	if m.passed[why].CompareAndSwap(false, true) {
		attrs := []any{slog.String("model", m.name()), slog.String("reason", reason)}
		if err != nil {
			attrs = append(attrs, slog.String("error", fmt.Sprintf("%.300s", err.Error()))) // it may quote the client
		}
		m.log.Log(context.Background(), level, "chats go to the engine as they came, without a prefix to route by; said once a reason", attrs...)
	}
	return []stream.Prompt{{Raw: true, EstimatedTokens: m.estimate(in)}}
}

// rendersChats says whether some replica's engine renders chats by itself.
func (m *model) rendersChats() bool {
	for _, ref := range m.fleet.Refs() {
		if ref.Capabilities.Chat {
			return true
		}
	}
	return false
}

// estimate is about how long a prompt is that the engine renders. It leaves a quarter of the longest context for the answer:
// whether a prompt is too long is the engine's to say, who knows.
func (m *model) estimate(in stream.Input) int {
	longest := 0
	for _, ref := range m.fleet.Refs() {
		if snap := ref.Snapshot(); snap.Told && ref.Capabilities.Chat {
			longest = max(longest, int(snap.Load.Limits.SequenceTokens))
		}
	}
	tokens := chat.Estimate(*in.Chat)
	if longest > 0 {
		tokens = min(tokens, longest*3/4)
	}
	return max(1, tokens)
}
