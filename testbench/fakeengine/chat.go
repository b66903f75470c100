package fakeengine

import (
	"errors"
	"net/http"
	"strings"

	"plimsoll/engine/openai"
	"plimsoll/tokenizer"
	"plimsoll/tokenizer/chat"
)

// chat answers POST /v1/chat/completions.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	p := s.body(w, r)
	if p == nil {
		return
	}
	a := &ask{id: s.name("chatcmpl-", r, p)}
	s.named(p, a)
	if a.maxTokens = p.number("max_completion_tokens"); a.maxTokens == nil {
		a.maxTokens = p.number("max_tokens")
	}
	if p.flag("logprobs", false) {
		top := orElse(p.number("top_logprobs"), 0)
		a.logprobs = &top
	}
	s.spoken(p, a)
	if choice := string(p.o.Raw("tool_choice")); choice != "" && choice != `"auto"` && choice != `"none"` {
		p.complain(unsupported("tool_choice", "forced tool calls"))
	}
	s.conversation(p, a)
	if s.ready(w, r, p, a) {
		s.answer(w, r, a, &chatShape{server: s, ask: a, created: s.deps.Now().Unix()})
	}
}

// conversation renders and encodes a chat.
func (s *Server) conversation(p *params, a *ask) {
	raw := p.o.Raw("messages")
	switch {
	case p.fault != nil:
		return
	case raw == nil:
		p.complain(schemaFault("body.messages", "Field required"))
		return
	case strings.Join(strings.Fields(string(raw)), "") == "[]":
		p.complain(valueFault("", "Cannot apply chat template to an empty conversation. Provide at least one message."))
		return
	}
	carriesOn := p.flag("continue_final_message", false)
	asks := p.flag("add_generation_prompt", !carriesOn)
	req := chat.Request{
		Messages: raw, Tools: p.o.Raw("tools"), ToolChoice: p.o.Raw("tool_choice"), Documents: p.o.Raw("documents"),
		Kwargs: p.o.Raw("chat_template_kwargs"), ChatTemplate: p.o.Raw("chat_template"),
		AddGenerationPrompt: &asks, ContinueFinalMessage: &carriesOn, ReasoningEffort: p.text("reasoning_effort"),
	}
	_, ids, err := s.deps.Model.Chat(req)
	var bad *chat.BadInput
	switch {
	case err == nil:
		a.prompts = [][]uint32{ids}
	case errors.As(err, &bad):
		p.complain(valueFault(bad.Param, "%s %s", bad.Param, bad.Message))
	case errors.Is(err, tokenizer.ErrNoTemplate):
		p.complain(valueFault("", "As of transformers v4.44, default chat template is no longer allowed, "+
			"so you must provide a chat template if the tokenizer does not define one."))
	default:
		p.complain(valueFault("", "%s", err))
	}
}

// chatShape writes chats.
type chatShape struct {
	server  *Server
	ask     *ask
	created int64
}

type chatOpening struct {
	textHead
	Choices        []chatOpeningChoice `json:"choices"`
	PromptTokenIDs []uint32            `json:"prompt_token_ids"`
	PromptText     *string             `json:"prompt_text"`
	Usage          any                 `json:"usage,omitempty"`
}

type chatOpeningChoice struct {
	Index int `json:"index"`
	Delta struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"delta"`
	Logprobs     *chatLogprobs `json:"logprobs"`
	FinishReason *string       `json:"finish_reason"`
}

type chatChunk struct {
	textHead
	Choices           []chatChunkChoice `json:"choices"`
	Usage             any               `json:"usage,omitempty"`
	SystemFingerprint string            `json:"system_fingerprint,omitempty"`
}

type chatChunkChoice struct {
	Index        int                `json:"index"`
	Delta        chatDelta          `json:"delta"`
	Logprobs     *chatLogprobs      `json:"logprobs"`
	FinishReason *string            `json:"finish_reason"`
	StopReason   *openai.StopReason `json:"stop_reason,omitempty"` // in the last frame of a choice
	TokenIDs     []uint32           `json:"token_ids"`
}

type chatDelta struct {
	Content *string `json:"content,omitempty"`
}

type chatWhole struct {
	textHead
	Choices           []chatWholeChoice `json:"choices"`
	ServiceTier       *string           `json:"service_tier"`
	SystemFingerprint string            `json:"system_fingerprint"`
	Usage             wholeUsage        `json:"usage"`
	PromptLogprobs    *struct{}         `json:"prompt_logprobs"`
	PromptTokenIDs    []uint32          `json:"prompt_token_ids"`
	PromptText        *string           `json:"prompt_text"`
	KVTransferParams  *struct{}         `json:"kv_transfer_params"`
	ECTransferParams  *struct{}         `json:"ec_transfer_params"`
	Metrics           *struct{}         `json:"metrics"`
}

type chatWholeChoice struct {
	Index         int               `json:"index"`
	Message       chatMessage       `json:"message"`
	Logprobs      *chatLogprobs     `json:"logprobs"`
	FinishReason  *string           `json:"finish_reason"`
	StopReason    openai.StopReason `json:"stop_reason"`
	TokenIDs      []uint32          `json:"token_ids"`
	RoutedExperts *struct{}         `json:"routed_experts"`
}

type chatMessage struct {
	openai.ChatMessage
	Annotations  *struct{} `json:"annotations"`
	Audio        *struct{} `json:"audio"`
	FunctionCall *struct{} `json:"function_call"`
	Reasoning    *string   `json:"reasoning"`
}

func (t *chatShape) head(object string) textHead {
	return textHead{ID: t.ask.id, Object: object, Created: t.created, Model: t.ask.model}
}

func (t *chatShape) logprobs(d delta) *chatLogprobs {
	if t.ask.logprobs == nil || len(d.tokens) == 0 {
		return nil
	}
	return speller{t.server, t.ask.tokensAsIDs}.content(d.tokens)
}

func (t *chatShape) chunks(c *choice, d delta, u *usage, last bool) []any {
	var frames []any
	if !c.begun {
		opening := chatOpening{textHead: t.head("chat.completion.chunk"), Choices: []chatOpeningChoice{{Index: c.index}}}
		opening.Choices[0].Delta.Role = "assistant"
		if t.ask.returnIDs {
			opening.PromptTokenIDs = c.prompt
		}
		if u != nil {
			opening.Usage = &usage{PromptTokens: u.PromptTokens, TotalTokens: u.PromptTokens}
		}
		frames = append(frames, opening)
	}
	out := chatChunkChoice{
		Index: c.index, Logprobs: t.logprobs(d), FinishReason: finishReason(d), TokenIDs: tokenIDs(t.ask.returnIDs, d.tokens),
	}
	if d.text != "" || d.finish == "" {
		out.Delta.Content = &d.text
	}
	if d.finish != "" {
		out.StopReason = &d.stop
	}
	chunk := chatChunk{textHead: t.head("chat.completion.chunk"), Choices: []chatChunkChoice{out}}
	if u != nil {
		chunk.Usage = u
	}
	if last {
		chunk.SystemFingerprint = fingerprint
	}
	return append(frames, chunk)
}

// created is how many tokens of the prompt were not in the cache and now are: full blocks only.
func (t *chatShape) createdTokens(cached int) *int {
	block := t.server.cfg.Engine.Sim.BlockTokens
	created := max(0, len(t.ask.prompts[0])/block*block-cached)
	return &created
}

func (t *chatShape) closing(u streamUsage) any {
	u.PromptTokensDetails.CreatedCacheTokens = t.createdTokens(u.PromptTokensDetails.CachedTokens)
	return chatChunk{textHead: t.head("chat.completion.chunk"), Choices: []chatChunkChoice{}, Usage: u, SystemFingerprint: fingerprint}
}

func (t *chatShape) whole(choices []*choice, done []delta, u wholeUsage) any {
	u.PromptTokensDetails.CreatedCacheTokens = t.createdTokens(u.PromptTokensDetails.CachedTokens)
	out := chatWhole{textHead: t.head("chat.completion"), SystemFingerprint: fingerprint, Usage: u}
	if t.ask.returnIDs {
		out.PromptTokenIDs = t.ask.prompts[0]
	}
	for i := range choices {
		d := done[i]
		message := chatMessage{ChatMessage: openai.ChatMessage{Role: "assistant", Content: &d.text}}
		out.Choices = append(out.Choices, chatWholeChoice{
			Index: i, Message: message, Logprobs: t.logprobs(d), FinishReason: finishReason(d), StopReason: d.stop,
			TokenIDs: tokenIDs(t.ask.returnIDs, d.tokens),
		})
	}
	return out
}
