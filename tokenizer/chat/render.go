package chat

import (
	"errors"
	"maps"
	"time"

	"plimsoll/tokenizer/jinja"
)

// Config is how a model's requests are rendered.
type Config struct {
	// SpecialTokens are the model's special tokens by the name that templates use: "bos_token", "eos_token", ... A token that
	// the model does not have is absent, so that a template finds it undefined.
	SpecialTokens map[string]string
	// ContentFormat is the form of a message's content; nil finds it from the template.
	ContentFormat *jinja.ContentFormat
	// ToolUse is the template for requests with tools; nil uses the same one for all.
	ToolUse *jinja.Template
	// Kwargs are template variables that a request may override (vLLM's --default-chat-template-kwargs).
	Kwargs map[string]jinja.Value
	// HideUnusableTools leaves the tools out of the prompt when tool_choice is "none"
	// (vLLM's --exclude-tools-when-tool-choice-none).
	HideUnusableTools bool
}

// DefaultConfig returns a Config without special tokens whose content format is found from the template.
func DefaultConfig() Config { return Config{} }

// Renderer renders the chat requests of one model. It never changes.
type Renderer struct {
	plain    template
	toolUse  template
	special  map[string]string
	defaults map[string]jinja.Value
	hide     bool
}

// template is a template and the form of content it is given.
type template struct {
	*jinja.Template
	format    jinja.ContentFormat
	developer bool // knows the role of this name
}

// New returns a Renderer for a compiled template.
func New(tmpl *jinja.Template, cfg Config) (*Renderer, error) {
	if tmpl == nil {
		return nil, errors.New("chat: no template")
	}
	withFormat := func(t *jinja.Template) template {
		if cfg.ContentFormat != nil {
			return template{t, *cfg.ContentFormat, knowsDeveloper(t)}
		}
		return template{t, t.ContentFormat(), knowsDeveloper(t)}
	}
	r := &Renderer{
		plain:    withFormat(tmpl),
		special:  maps.Clone(cfg.SpecialTokens),
		defaults: maps.Clone(cfg.Kwargs),
		hide:     cfg.HideUnusableTools,
	}
	r.toolUse = r.plain
	if cfg.ToolUse != nil {
		r.toolUse = withFormat(cfg.ToolUse)
	}
	return r, nil
}

// Render returns the prompt of a request, to be encoded without adding special tokens. now is the clock of templates that
// print the date; its zone should be the engine's. An error is a [BadInput], unless the fault is ours.
func (r *Renderer) Render(req Request, now func() time.Time) (string, error) {
	if _, present, err := decode("chat_template", req.ChatTemplate); err != nil || present {
		return "", badInput("chat_template", "can't be brought by a request: the model's own template is used")
	}
	continued := orElse(req.ContinueFinalMessage, false)
	if continued && orElse(req.AddGenerationPrompt, true) {
		return "", badInput("continue_final_message", "can't be set together with add_generation_prompt, which is true unless set to false")
	}
	toolList, err := r.tools(req)
	if err != nil {
		return "", err
	}
	vars, err := r.variables(req)
	if err != nil {
		return "", err
	}
	tmpl := r.plain
	vars["tools"] = nil
	if toolList != nil {
		tmpl = r.toolUse
		vars["tools"] = toolList
	}
	messages, err := conversation(req.Messages, tmpl.format)
	if err != nil {
		return "", err
	}
	if !tmpl.developer {
		messages = withoutDeveloper(messages)
	}
	vars["messages"] = messages
	if continued {
		return renderContinued(tmpl, messages, vars, now)
	}
	out, err := tmpl.Render(vars, now)
	if err != nil {
		return "", renderFailure(err)
	}
	return out, nil
}

// tools returns the tools that the prompt shows, nil for none.
func (r *Renderer) tools(req Request) (*jinja.List, error) {
	list, err := tools(req.Tools)
	if err != nil || list == nil {
		return nil, err
	}
	choice, _, err := decode("tool_choice", req.ToolChoice)
	if err != nil {
		return nil, err
	}
	if r.hide && choice == "none" {
		return nil, nil
	}
	return list, nil
}
