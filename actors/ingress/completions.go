package ingress

import (
	"math"

	"plimsoll/engine/openai"
)

// completions answers POST /v1/completions.
func (s *Server) completions(x *exchange) {
	q := s.checked(x, func(p *params) *query {
		q := s.query(x, p)
		if q == nil {
			return nil
		}
		p.refuse(append(refusals(), refusalsInCompletions()...))
		q.req.Input = p.prompt(q.model)
		q.req.MaxTokens = p.whole("max_tokens", 1, math.MaxInt32)
		if q.req.MaxTokens == nil {
			most := completionsMax
			q.req.MaxTokens = &most
		}
		if best := p.whole("best_of", 1, nMax); best != nil && *best != q.req.N {
			p.complain("best_of", "can only be n, which is %d: answers are not chosen from", q.req.N)
		}
		p.minTokens(q)
		p.logprobs(q, "logprobs", p.whole("logprobs", 0, logprobsMax))
		s.legs(p, q)
		return q
	})
	if q != nil {
		s.generate(x, q)
	}
}

// wholeCompletion builds the answer that is not streamed.
func wholeCompletion(a *answering) openai.Completion {
	c := openai.Completion{
		ID: a.id, Object: "text_completion", Created: a.created, Model: a.q.model.Name,
		Choices: make([]openai.CompletionChoice, len(a.legs)), Usage: &a.x.entry.usage, SystemFingerprint: a.x.s.cfg.SystemFingerprint,
	}
	for i := range a.legs {
		l := &a.legs[i]
		c.Choices[i] = openai.CompletionChoice{Index: i, Text: l.text.String(), FinishReason: l.reason, StopReason: l.stop}
		if a.names != nil {
			c.Choices[i].Logprobs = a.names.completion(l.pieces, &l.told)
		}
	}
	return c
}
