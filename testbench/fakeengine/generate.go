package fakeengine

import (
	"net/http"

	"plimsoll/engine/openai"
)

// generate answers POST /inference/v1/generate: token IDs in, token IDs out.
func (s *Server) generate(w http.ResponseWriter, r *http.Request) {
	p := s.body(w, r)
	if p == nil {
		return
	}
	a := &ask{id: s.name("generate-tokens-", r, p), returnIDs: p.flag("return_token_ids", false)}
	for _, name := range []string{"token_ids", "sampling_params"} {
		if !p.has(name) {
			p.complain(schemaFault("body."+name, "Field required"))
		}
	}
	s.named(p, a)
	ids := p.ids("token_ids")
	if p.fault == nil && len(ids) == 0 {
		p.complain(schemaFault("body.token_ids", "List should have at least 1 item after validation, not 0"))
	}
	a.prompts = [][]uint32{ids}
	p.isolation(a)
	p.streaming(a)
	mode := p.text("output_mode")
	text := mode != nil && *mode == "text"
	if sampling := p.object("sampling_params"); sampling != nil {
		a.maxTokens, a.logprobs = sampling.number("max_tokens"), sampling.number("logprobs")
		a.silent = !sampling.flag("detokenize", true)
		s.sampled(sampling, a)
		a.silent = !text && len(a.stops) == 0
		p.complainFor(sampling)
	}
	long := s.tooLong(ids)
	if long != nil && !a.stream {
		p.complain(long)
	}
	if f := s.rank(r); f != nil {
		p.complain(f)
	}
	switch {
	case p.fault != nil:
		s.fail(w, p.fault)
	case long != nil:
		s.failInStream(w, long)
	default:
		s.answer(w, r, a, &idShape{server: s, ask: a, text: text, created: s.deps.Now().Unix()})
	}
}

// tooLong is the engine's own refusal of a prompt without room for an answer; the API server of this route does not look.
func (s *Server) tooLong(ids []uint32) *fault {
	limit := s.cfg.Engine.Sim.SequenceTokens()
	switch n := len(ids); {
	case n > limit:
		return valueFault("", "The decoder prompt (length %d) is longer than the maximum model length of %d. Make sure that "+
			"`max_model_len` is no smaller than the number of text tokens.", n, limit)
	case n == limit:
		return valueFault("", "The decoder prompt (length %d) plus the number of requested output tokens (at least 1) is longer "+
			"than the maximum model length of %d. Make sure that `max_model_len` is no smaller than the number of text tokens "+
			"(prompt + requested output tokens).", n, limit)
	}
	return nil
}

// idShape writes generate's answers. In text mode the text stands beside the IDs.
type idShape struct {
	server  *Server
	ask     *ask
	text    bool
	created int64
}

type idChunk struct {
	RequestID      string     `json:"request_id"`
	Usage          any        `json:"usage"`
	PromptTokenIDs []uint32   `json:"prompt_token_ids,omitempty"`
	OutputMode     string     `json:"output_mode"`
	Choices        []idChoice `json:"choices"`
}

type idChoice struct {
	Index          int               `json:"index"`
	FinishReason   *string           `json:"finish_reason"`
	StopReason     openai.StopReason `json:"stop_reason"`
	TokenIDs       []uint32          `json:"token_ids"`
	RoutedExperts  *struct{}         `json:"routed_experts"`
	SamplingMask   *struct{}         `json:"sampling_mask"`
	WeightVersions []weightVersion   `json:"weight_versions"` // with the finish
	Text           *string           `json:"text,omitempty"`
	Logprobs       any               `json:"logprobs"`
}

// weightVersion says which weights made a run of the answer's tokens.
type weightVersion struct {
	Version string `json:"version"`
	Start   int    `json:"start"`
	End     int    `json:"end"`
}

type continuousUsage struct {
	usage
	PromptTokensDetails     *struct{} `json:"prompt_tokens_details"`
	CompletionTokensDetails *struct{} `json:"completion_tokens_details"`
}

type idWhole struct {
	RequestID             string     `json:"request_id"`
	Model                 string     `json:"model"`
	Created               int64      `json:"created"`
	Usage                 wholeUsage `json:"usage"`
	PromptLogprobs        *struct{}  `json:"prompt_logprobs"`
	PromptTokenIDLogprobs *struct{}  `json:"prompt_token_id_logprobs"`
	PromptTokenIDs        []uint32   `json:"prompt_token_ids"`
	MMPlaceholders        *struct{}  `json:"mm_placeholders"`
	Metrics               *struct{}  `json:"metrics"`
	KVTransferParams      *struct{}  `json:"kv_transfer_params"`
	ECTransferParams      *struct{}  `json:"ec_transfer_params"`
	OutputMode            string     `json:"output_mode"`
	Choices               []idChoice `json:"choices"`
}

func (t *idShape) mode() string {
	if t.text {
		return "text"
	}
	return "tokens"
}

func (t *idShape) choice(c *choice, d delta) idChoice {
	out := idChoice{Index: c.index, FinishReason: finishReason(d), StopReason: d.stop, TokenIDs: tokenIDs(true, d.tokens)}
	if d.finish != "" {
		out.WeightVersions = []weightVersion{{Version: "default", End: len(c.ids)}}
	}
	if t.text {
		out.Text = &d.text
	}
	if t.ask.logprobs != nil && len(d.tokens) > 0 {
		out.Logprobs = byID(d.tokens)
		if t.text {
			out.Logprobs = speller{t.server, t.ask.tokensAsIDs}.content(d.tokens)
		}
	}
	return out
}

func (t *idShape) chunks(c *choice, d delta, u *usage, _ bool) []any {
	chunk := idChunk{RequestID: t.ask.id, OutputMode: t.mode(), Choices: []idChoice{t.choice(c, d)}}
	if t.ask.returnIDs && !c.begun {
		chunk.PromptTokenIDs = c.prompt
	}
	if u != nil {
		chunk.Usage = continuousUsage{usage: *u}
	}
	return []any{chunk}
}

func (t *idShape) closing(u streamUsage) any {
	return idChunk{RequestID: t.ask.id, Usage: u, OutputMode: t.mode(), Choices: []idChoice{}}
}

func (t *idShape) whole(choices []*choice, done []delta, u wholeUsage) any {
	out := idWhole{RequestID: t.ask.id, Model: t.ask.model, Created: t.created, Usage: u, OutputMode: t.mode()}
	if t.ask.returnIDs {
		out.PromptTokenIDs = t.ask.prompts[0]
	}
	for i, c := range choices {
		out.Choices = append(out.Choices, t.choice(c, done[i]))
	}
	return out
}
