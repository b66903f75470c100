package ingress

import (
	"math"

	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
)

// tokenized is the answer of POST /tokenize.
type tokenized struct {
	Count       int      `json:"count"`
	MaxModelLen *int     `json:"max_model_len"`
	Tokens      []uint32 `json:"tokens"`
	TokenStrs   []string `json:"token_strs"`
}

// detokenized is the answer of POST /detokenize.
type detokenized struct {
	Prompt string `json:"prompt"`
}

// tokenize answers POST /tokenize: a prompt's text, or a chat, as the IDs an engine would get.
func (s *Server) tokenize(x *exchange) {
	var m Model
	var names bool
	q := s.checked(x, func(p *params) *query {
		m = s.namedModel(x, p)
		if p.fault != nil {
			return nil
		}
		names = p.flag("return_token_strs", false)
		return &query{req: &stream.Request{Input: p.tokenizeInput()}}
	})
	if q == nil {
		return
	}
	list, err := s.deps.Front.Tokenize(x.r.Context(), m.Name, x.tenant, q.req.Input)
	if err != nil {
		if x.r.Context().Err() != nil {
			x.fail(gone(err))
			return
		}
		x.fail(fault.Of(err))
		return
	}
	out := tokenized{Tokens: []uint32{}}
	for _, e := range list {
		out.Tokens = append(out.Tokens, e.IDs...)
	}
	out.Count = len(out.Tokens)
	if m.ContextTokens > 0 {
		out.MaxModelLen = &m.ContextTokens
	}
	if names {
		out.TokenStrs = make([]string, len(out.Tokens))
		for i, id := range out.Tokens {
			out.TokenStrs[i], _ = m.Tokenizer.Token(id)
		}
	}
	x.json(200, out)
}

// namedModel reads model.
func (s *Server) namedModel(x *exchange, p *params) Model {
	name := p.text("model", modelBytes)
	if p.fault != nil {
		return Model{}
	}
	if name != nil && *name == "" {
		name = nil // what clients send that were given none
	}
	m, f := s.lookUp(name)
	if f != nil {
		p.fault = f
		return Model{}
	}
	x.entry.model = m.Name
	return m
}

// tokenizeInput reads prompt (a text) or messages.
func (p *params) tokenizeInput() stream.Input {
	p.refuse(refusals())
	switch {
	case p.has("prompt") && p.has("messages"):
		p.complain("prompt", "and messages exclude each other")
	case p.has("prompt"):
		text, err := p.o.String("prompt")
		if p.noted(err) {
			return stream.Input{Texts: []string{*text}, AddSpecial: p.flag("add_special_tokens", true)}
		}
	case p.has("messages"):
		return stream.Input{Chat: p.conversation(false)}
	default:
		p.complain("messages", "or prompt is required")
	}
	return stream.Input{}
}

// detokenize answers POST /detokenize: IDs as text, special tokens written out.
func (s *Server) detokenize(x *exchange) {
	var m Model
	var ids []uint32
	q := s.checked(x, func(p *params) *query {
		m = s.namedModel(x, p)
		if p.fault != nil {
			return nil
		}
		if !p.has("tokens") {
			p.complain("tokens", "is required")
		}
		ids = p.ids("tokens", math.MaxInt, m.Tokenizer.VocabSize())
		return &query{}
	})
	if q == nil {
		return
	}
	text, err := m.Tokenizer.Decode(ids, false)
	if err != nil {
		f := fault.Invalid("tokens", "tokens holds IDs that the tokenizer can't decode")
		f.Err = err
		x.fail(f)
		return
	}
	x.json(200, detokenized{Prompt: text})
}
