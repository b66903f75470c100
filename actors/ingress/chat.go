package ingress

import (
	"encoding/json"
	"math"

	"plimsoll/actors/stream"
	"plimsoll/engine/openai"
	"plimsoll/tokenizer/chat"
)

// chat answers POST /v1/chat/completions.
func (s *Server) chat(x *exchange) {
	q := s.checked(x, func(p *params) *query {
		q := s.query(x, p)
		if q == nil {
			return nil
		}
		p.refuse(refusalsOfChats(q.model))
		q.req.Input = stream.Input{Chat: p.conversation(q.model.EngineRenders), ChatBody: p.edited()}
		q.req.Schema = q.model.EngineRenders && p.bound()
		q.req.MaxTokens = p.answerTokens()
		p.minTokens(q)
		p.logprobs(q, "logprobs", p.chatLogprobs())
		s.legs(p, q)
		return q
	})
	if q != nil {
		s.generate(x, q)
	}
}

// conversation reads what the chat template is rendered from. What messages and tools must look like is the template
// room's to say; here they only have the right JSON type. engine: the engine renders the chat and reads the answer.
func (p *params) conversation(engine bool) *chat.Request {
	if !p.has("messages") {
		p.complain("messages", "is required")
	}
	carriesOn := p.flag("continue_final_message", false)
	asks := p.flag("add_generation_prompt", !carriesOn)
	if asks && carriesOn {
		p.complain("add_generation_prompt", "and continue_final_message exclude each other")
	}
	r := &chat.Request{
		Messages: p.list("messages"), Tools: p.tools(), ToolChoice: p.toolChoice(engine), Documents: p.list("documents"),
		AddGenerationPrompt: &asks, ContinueFinalMessage: &carriesOn,
		ReasoningEffort: p.text("reasoning_effort", effortBytes),
	}
	if p.object("chat_template_kwargs") != nil {
		r.Kwargs = p.raw("chat_template_kwargs")
	}
	if p.flag("add_special_tokens", false) {
		p.complain("add_special_tokens", "can only be false: the chat template writes the special tokens")
	}
	return r
}

// tools reads tools. An empty list is as none at all: agents send it when they have nothing to offer.
func (p *params) tools() json.RawMessage {
	const key = "tools"
	if !is(p.raw(key), "[]") {
		return p.list(key)
	}
	p.edit(key, nil)
	if is(p.raw("tool_choice"), `"auto"`, `"none"`) {
		p.edit("tool_choice", nil)
	}
	p.edit("parallel_tool_calls", nil)
	return nil
}

// toolChoice reads tool_choice; a forced call only an engine can have that binds the answer itself.
func (p *params) toolChoice(engine bool) json.RawMessage {
	raw := p.raw("tool_choice")
	switch {
	case raw == nil:
		return nil
	case engine:
		return raw
	case is(raw, `"none"`):
		return raw
	case !is(raw, `"auto"`):
		p.complain("tool_choice", `can only be "auto" or "none": a call can't be forced`)
	case !p.has("tools"):
		p.complain("tool_choice", `"auto" goes with tools only`)
	}
	return raw
}

// answerTokens reads max_completion_tokens, or max_tokens, its older name. Absent: the room left in the context.
func (p *params) answerTokens() *int {
	long := p.whole("max_completion_tokens", 1, math.MaxInt32)
	short := p.whole("max_tokens", 1, math.MaxInt32)
	if long == nil {
		return short
	}
	if short != nil && *short != *long {
		p.complain("max_tokens", "is another name of max_completion_tokens: give one of them, not %d and %d", *short, *long)
	}
	return long
}

// chatLogprobs reads logprobs and top_logprobs: nil if none are asked for, else the number of alternatives.
func (p *params) chatLogprobs() *int {
	top := p.whole("top_logprobs", 0, logprobsMax)
	if p.flag("logprobs", false) {
		if top == nil {
			top = new(int)
		}
		return top
	}
	if top != nil && *top > 0 {
		p.complain("top_logprobs", "goes with logprobs true only")
	}
	return nil
}

// wholeChat builds the answer that is not streamed.
func wholeChat(a *answering) openai.ChatCompletion {
	c := openai.ChatCompletion{
		ID: a.id, Object: "chat.completion", Created: a.created, Model: a.q.model.Name,
		Choices: make([]openai.ChatChoice, len(a.legs)), Usage: &a.x.entry.usage, SystemFingerprint: a.x.s.cfg.SystemFingerprint,
	}
	for i := range a.legs {
		l := &a.legs[i]
		text := l.text.String()
		c.Choices[i] = openai.ChatChoice{
			Index: i, Message: openai.Message{ChatMessage: openai.ChatMessage{Role: "assistant", Content: &text}, More: l.more},
			FinishReason: l.reason, StopReason: l.stop,
		}
		if a.names != nil {
			c.Choices[i].Logprobs = a.names.chat(l.pieces)
		}
	}
	return c
}
