package dst

import (
	"reflect"
	"slices"

	"plimsoll/actors/stream"
	"plimsoll/engine"
)

// checkAsked holds what an engine is asked for against what the request says and what of the answer is there by now.
func (w *world) checkAsked(a *attempt, l *leg) {
	c, r, req := a.call, &a.request, a.call.req
	want := req.Sampling
	if want.Seed != nil {
		want.Seed = new(*want.Seed + int64(a.place.Leg%req.N))
	}
	ends := req.StopTokenIDs
	if !req.IgnoreEOS {
		ends = append([]uint32{idEnd}, ends...)
	}
	if c.raw > 0 {
		ends = nil // they stand in the chat's body
	}
	most := a.place.MaxTokens
	if a.base > 0 {
		most = min(most, l.limit()-a.base)
	}
	wrong := func(what string, got, want any) {
		w.violate(Output, "call %d: attempt %d of leg %d asks for %s %v after %d tokens, and should for %v", c.n, a.id, a.place.Leg, what, got, a.base, want)
	}
	switch {
	case r.MaxTokens != most:
		wrong("max_tokens", r.MaxTokens, most)
	case r.MinTokens != max(0, req.MinTokens-a.base):
		wrong("min_tokens", r.MinTokens, max(0, req.MinTokens-a.base))
	case !reflect.DeepEqual(r.Sampling, want):
		wrong("sampling", r.Sampling, want)
	case !slices.Equal(r.EndTokens, ends) || r.IgnoreEOS != req.IgnoreEOS:
		wrong("ends", r.EndTokens, ends)
	case !reflect.DeepEqual(r.TopLogprobs, req.TopLogprobs):
		wrong("logprobs", r.TopLogprobs, req.TopLogprobs)
	case r.CacheSalt != req.CacheSalt || r.LoRA != req.LoRA:
		wrong("salt and adapter", r.CacheSalt+"/"+r.LoRA, req.CacheSalt+"/"+req.LoRA)
	}
}

// limit is how long a leg may become, as the attempt had it in which it began.
func (l *leg) limit() int {
	for _, a := range slices.Backward(l.tries[l.from:]) {
		if a.base == 0 && len(a.got) > 0 {
			return a.request.MaxTokens
		}
	}
	return 0
}

// checkFruit looks whether an answer that breaks engines goes on to break more of them.
func (w *world) checkFruit(a *attempt, l *leg) {
	row := 0
	for _, o := range slices.Backward(l.tries[:len(l.tries)-1]) {
		if len(o.got) > 0 || o.base == 0 {
			break
		}
		if o.lost != nil && o.lost.Kind != engine.Shed && o.lost.Kind != engine.Refused {
			row++
		}
	}
	if most := w.plan.stream.FruitlessMax; row >= most {
		w.violate(Amplification, "call %d: leg %d begins attempt %d after %d in a row that were taken and added nothing", a.call.n, a.place.Leg, len(l.tries), row)
	}
}

// checkUsage compares what a client is told of its tokens at the end with what it sent and got, and with what the engines said of
// their caches: of each prompt the first attempt of its first answer counts that gave a token, or its end.
func (w *world) checkUsage(c *call) {
	var want stream.Usage
	for _, ids := range c.ids {
		want.PromptTokens += len(ids)
	}
	for n, l := range c.legs {
		want.CompletionTokens += l.produced
		if n%c.req.N != 0 {
			continue
		}
		for _, a := range l.tries {
			if len(a.got) > 0 || a.over {
				if a.cached != nil {
					want.CachedTokens, want.CachedKnown = want.CachedTokens+*a.cached, true
				}
				break
			}
		}
	}
	if c.usage != want {
		w.violate(Output, "call %d ends with usage %+v, and should with %+v", c.n, c.usage, want)
	}
}
