package fakeengine

import (
	"net/http"
)

// tokenized is the answer of POST /tokenize.
type tokenized struct {
	Count       int      `json:"count"`
	MaxModelLen int      `json:"max_model_len"`
	Tokens      []uint32 `json:"tokens"`
	TokenStrs   []string `json:"token_strs"`
}

// detokenized is the answer of POST /detokenize.
type detokenized struct {
	Prompt string `json:"prompt"`
}

// tokenize answers POST /tokenize: a text, or a chat, as the IDs that the engine would get.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	p := s.body(w, r)
	if p == nil {
		return
	}
	a := &ask{}
	s.named(p, a)
	names := p.flag("return_token_strs", false)
	if p.has("prompt") {
		s.textPrompt(p, a, p.o.Raw("prompt"))
	} else {
		s.conversation(p, a)
	}
	if p.fault != nil {
		s.fail(w, p.fault)
		return
	}
	out := tokenized{MaxModelLen: s.cfg.Engine.Sim.SequenceTokens(), Tokens: append([]uint32{}, a.prompts[0]...)}
	out.Count = len(out.Tokens)
	if names {
		out.TokenStrs = make([]string, len(out.Tokens))
		for i, id := range out.Tokens {
			out.TokenStrs[i], _ = s.deps.Model.Token(id)
		}
	}
	s.write(w, http.StatusOK, out)
}

// detokenize answers POST /detokenize: IDs as text, special tokens written out; an ID beyond the vocabulary is passed over.
func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) {
	p := s.body(w, r)
	if p == nil {
		return
	}
	s.named(p, &ask{})
	if !p.has("tokens") {
		p.complain(schemaFault("body.tokens", "Field required"))
	}
	known := make([]uint32, 0)
	for _, id := range p.ids("tokens") {
		if int(id) < s.deps.Model.VocabSize() {
			known = append(known, id)
		}
	}
	if p.fault != nil {
		s.fail(w, p.fault)
		return
	}
	text, err := s.deps.Model.Decode(known, false)
	if err != nil {
		s.fail(w, valueFault("", "%s", err))
		return
	}
	s.write(w, http.StatusOK, detokenized{Prompt: text})
}
