package fakeengine

import (
	"encoding/json"
	"net/http"
	"strings"

	"plimsoll/engine/openai"
)

// completions answers POST /v1/completions.
func (s *Server) completions(w http.ResponseWriter, r *http.Request) {
	p := s.body(w, r)
	if p == nil {
		return
	}
	a := &ask{id: s.name("cmpl-", r, p)}
	s.named(p, a)
	a.echo = p.flag("echo", false)
	a.maxTokens = p.number("max_tokens")
	switch {
	case a.maxTokens == nil:
		most := defaultMaxTokens
		a.maxTokens = &most
	case a.echo && *a.maxTokens == 0: // the engine makes a token whatever is asked for
		*a.maxTokens = 1
	}
	a.logprobs = p.number("logprobs")
	if a.echo && a.logprobs != nil {
		p.complain(unsupported("logprobs", "log probabilities of the prompt"))
	}
	s.spoken(p, a)
	s.prompts(p, a)
	if s.ready(w, r, p, a) {
		s.answer(w, r, a, &textShape{server: s, ask: a, created: s.deps.Now().Unix(), offsets: make([]int, len(a.prompts)*a.n)})
	}
}

// spoken reads what text completions and chats have in common.
func (s *Server) spoken(p *params, a *ask) {
	p.isolation(a)
	s.sampled(p, a)
	p.streaming(a)
	a.returnIDs, a.tokensAsIDs = p.flag("return_token_ids", false), p.flag("return_tokens_as_token_ids", false)
	p.freeForm()
}

// ready checks what is known once the prompts are; false: the answer, a fault, is written.
func (s *Server) ready(w http.ResponseWriter, r *http.Request, p *params, a *ask) bool {
	s.fits(p, a)
	if f := s.rank(r); f != nil {
		p.complain(f)
	}
	if p.fault != nil {
		s.fail(w, p.fault)
	}
	return p.fault == nil
}

// freeForm refuses what would constrain the answer.
func (p *params) freeForm() {
	format := p.object("response_format")
	if format == nil {
		return
	}
	if kind := format.text("type"); kind != nil && *kind != "text" {
		p.complain(unsupported("response_format", "constrained output"))
	}
	p.complainFor(format)
}

// prompts reads prompt: a text, token IDs, or a list of either.
func (s *Server) prompts(p *params, a *ask) {
	raw := p.o.Raw("prompt")
	switch {
	case p.fault != nil:
		return
	case raw == nil || string(raw) == `""`:
		p.complain(valueFault("prompt", "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)"))
	case p.has("suffix"):
		p.complain(valueFault("suffix", "suffix requires text prompt input for FIM completion rendering"))
	case raw[0] == '"':
		s.textPrompt(p, a, raw)
	case raw[0] != '[':
		p.complain(schemaFault("body.prompt", "Input should be a valid list or string"))
	default:
		s.promptList(p, a, raw)
	}
	if keep := p.number("truncate_prompt_tokens"); keep != nil && *keep > 0 {
		for i, ids := range a.prompts {
			a.prompts[i] = ids[max(0, len(ids)-*keep):]
		}
	}
}

func (s *Server) promptList(p *params, a *ask, raw json.RawMessage) {
	switch first := strings.TrimLeft(string(raw[1:min(len(raw), 65)]), " \t\r\n"); {
	case strings.HasPrefix(first, "]"):
		p.complain(valueFault("", "You must pass at least one prompt"))
	case strings.HasPrefix(first, `"`), strings.HasPrefix(first, "["):
		list, err := p.o.List("prompt")
		if !p.noted(err) {
			return
		}
		for _, one := range list {
			if one[0] == '"' {
				s.textPrompt(p, a, one)
			} else {
				ids, err := openai.ParseIDs("prompt", one)
				if p.noted(err) {
					a.prompts = append(a.prompts, ids)
				}
			}
		}
	default:
		if ids := p.ids("prompt"); ids != nil {
			a.prompts = append(a.prompts, ids)
		}
	}
}

// textPrompt encodes a text.
func (s *Server) textPrompt(p *params, a *ask, raw json.RawMessage) {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		p.complain(schemaFault("body.prompt", "Input should be a valid string"))
		return
	}
	ids, err := s.deps.Model.Encode(text, p.flag("add_special_tokens", true))
	if err != nil {
		p.complain(valueFault("prompt", "%s", err))
		return
	}
	a.prompts = append(a.prompts, ids)
}

// textShape writes text completions.
type textShape struct {
	server  *Server
	ask     *ask
	created int64
	offsets []int // of the next token in each choice's logprobs
}

type textHead struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
}

type textChunk struct {
	textHead
	Choices           []textChunkChoice `json:"choices"`
	Usage             any               `json:"usage,omitempty"`
	SystemFingerprint string            `json:"system_fingerprint,omitempty"`
}

type textChunkChoice struct {
	Index          int                        `json:"index"`
	Text           string                     `json:"text"`
	Logprobs       *openai.CompletionLogprobs `json:"logprobs"`
	FinishReason   *string                    `json:"finish_reason"`
	StopReason     openai.StopReason          `json:"stop_reason"`
	PromptTokenIDs []uint32                   `json:"prompt_token_ids"`
	TokenIDs       []uint32                   `json:"token_ids"`
}

type textWhole struct {
	textHead
	Choices           []textWholeChoice `json:"choices"`
	ServiceTier       *string           `json:"service_tier"`
	SystemFingerprint string            `json:"system_fingerprint"`
	Usage             wholeUsage        `json:"usage"`
	KVTransferParams  *struct{}         `json:"kv_transfer_params"`
	ECTransferParams  *struct{}         `json:"ec_transfer_params"`
	Metrics           *struct{}         `json:"metrics"`
}

type textWholeChoice struct {
	Index          int                        `json:"index"`
	Text           string                     `json:"text"`
	Logprobs       *openai.CompletionLogprobs `json:"logprobs"`
	FinishReason   *string                    `json:"finish_reason"`
	StopReason     openai.StopReason          `json:"stop_reason"`
	TokenIDs       []uint32                   `json:"token_ids"`
	PromptLogprobs *struct{}                  `json:"prompt_logprobs"`
	PromptTokenIDs []uint32                   `json:"prompt_token_ids"`
	RoutedExperts  *struct{}                  `json:"routed_experts"`
}

func (t *textShape) head() textHead {
	return textHead{ID: t.ask.id, Object: "text_completion", Created: t.created, Model: t.ask.model}
}

// prefix is the prompt's text where it is to be echoed.
func (t *textShape) prefix(c *choice) string {
	if !t.ask.echo || t.ask.returnIDs {
		return ""
	}
	text, err := t.server.deps.Model.Decode(c.prompt, true)
	if err != nil {
		return ""
	}
	return text
}

func (t *textShape) logprobs(c *choice, d delta) *openai.CompletionLogprobs {
	if t.ask.logprobs == nil || len(d.tokens) == 0 {
		return nil
	}
	return speller{t.server, t.ask.tokensAsIDs}.columns(d.tokens, &t.offsets[c.index])
}

func (t *textShape) chunks(c *choice, d delta, u *usage, last bool) []any {
	out := textChunkChoice{
		Index: c.index, Text: d.text, Logprobs: t.logprobs(c, d), FinishReason: finishReason(d), StopReason: d.stop,
		TokenIDs: tokenIDs(t.ask.returnIDs, d.tokens),
	}
	if !c.begun {
		out.Text = t.prefix(c) + out.Text
		if t.ask.returnIDs || t.ask.echo {
			out.PromptTokenIDs = c.prompt
		}
	}
	chunk := textChunk{textHead: t.head(), Choices: []textChunkChoice{out}}
	if u != nil {
		chunk.Usage = u
	}
	if last {
		chunk.SystemFingerprint = fingerprint
	}
	return []any{chunk}
}

func (t *textShape) closing(u streamUsage) any {
	return textChunk{textHead: t.head(), Choices: []textChunkChoice{}, Usage: u, SystemFingerprint: fingerprint}
}

func (t *textShape) whole(choices []*choice, done []delta, u wholeUsage) any {
	out := textWhole{textHead: t.head(), SystemFingerprint: fingerprint, Usage: u}
	for i, c := range choices {
		one := textWholeChoice{
			Index: i, Text: t.prefix(c) + done[i].text, Logprobs: t.logprobs(c, done[i]),
			FinishReason: finishReason(done[i]), StopReason: done[i].stop, TokenIDs: tokenIDs(t.ask.returnIDs, done[i].tokens),
		}
		if t.ask.returnIDs {
			one.PromptTokenIDs = c.prompt
		}
		out.Choices = append(out.Choices, one)
	}
	return out
}
