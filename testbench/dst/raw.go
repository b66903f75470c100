package dst

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"time"

	"plimsoll/engine"
	"plimsoll/tokenizer/chat"
)

// Some chats are rendered by their engine: what they come to there nobody here knows but about, and their answers come as text, which
// only the engine ends. They are drawn, with the engines that can do it, by a generator of their own.

// drawRaw says whether a seed has any.
func drawRaw(seed uint64) bool {
	return rand.New(rand.NewPCG(seed, 0xc4ceb9fe1a85ec53)).Float64() < 0.2
}

// drawRenders says whether a replica's engine renders chats. Of the first two one always does.
func (w *world) drawRenders(n int) bool {
	return w.plan.raw && (n <= 2 || rand.New(rand.NewPCG(w.cfg.Seed^uint64(n)<<32, 0x87c37b91114253d5)).Float64() < 0.6) //nolint:gosec // small
}

// chats have them come.
func (w *world) chats() {
	if !w.plan.raw {
		return
	}
	rng := rand.New(rand.NewPCG(w.cfg.Seed, 0x4cf5ad432745937f))
	for range 15 + rng.IntN(25) {
		c := w.blankCall()
		ids := drawTokens(rng, 4+rng.IntN(40))
		if rng.Float64() < 0.5 {
			p := w.prefixes[rng.IntN(len(w.prefixes))]
			ids = append(p[:1+rng.IntN(len(p))], ids...)
			ids = append([]uint32(nil), ids...)
		}
		c.ids = [][]uint32{ids}
		c.raw = len(ids) + rng.IntN(1+len(ids)/3)
		c.req.N = []int{1, 1, 1, 2}[rng.IntN(4)]
		c.req.MaxTokens = new(1 + rng.IntN(80))
		if rng.Float64() < 0.6 {
			c.req.Sampling.Temperature = new(0.0)
		} else if rng.Float64() < 0.5 {
			c.req.Sampling.Seed = new(rng.Int64())
		}
		if rng.Float64() < 0.2 {
			c.req.TopLogprobs = new(rng.IntN(3))
		}
		c.req.Whole, c.req.IgnoreEOS = rng.Float64() < 0.4, rng.Float64() < 0.1
		c.filled()
		body := []byte(`{"messages":[` + strconv.Itoa(c.n) + `]}`)
		c.req.Input.Texts = nil
		c.req.Input.Chat, c.req.Input.ChatBody = &chat.Request{Messages: json.RawMessage(`[` + strconv.Itoa(c.n) + `]`)}, body
		w.in(time.Duration(rng.Int64N(int64(w.plan.safety))), evCall).call = c
	}
}

// length is how long a leg's prompt is for the code: that of a chat which the engine renders it estimates.
func (c *call) length(leg int) int {
	if c.raw > 0 {
		return c.raw
	}
	return len(c.prompt(leg))
}

// prompted are the IDs that an attempt's engine computes.
func (a *attempt) prompted() []uint32 {
	if a.call != nil && a.call.raw > 0 {
		return a.call.prompt(a.place.Leg)
	}
	return a.request.PromptTokens
}

// ends are the IDs that end an attempt's answer: where the engine renders it knows them itself.
func (a *attempt) ends() []uint32 {
	if a.call != nil && a.call.raw > 0 && !a.request.IgnoreEOS {
		return []uint32{idEnd}
	}
	return a.request.EndTokens
}

// renders makes of an event what an engine sends that reads the answer itself: each token with the text that it adds, all of it with the
// last one, and with the first what the prompt has come to.
func (a *attempt) renders(e *engine.Event) {
	if a.said == nil {
		a.said = &reader{}
		e.PromptTokens = new(len(a.prompted()))
	}
	for i := range e.Tokens {
		a.said.ids = append(a.said.ids, e.Tokens[i].ID)
		text := a.said.sure()
		if e.Finish != nil && i == len(e.Tokens)-1 {
			text = a.said.all()
		}
		e.Tokens[i].Text = new(text[a.shown:])
		a.shown = len(text)
	}
}

// checkRaw looks at an attempt of a chat that its engine renders.
func (w *world) checkRaw(a *attempt, l *leg) {
	c, r := a.call, &a.request
	switch {
	case string(r.ChatBody) != string(c.req.Input.ChatBody) || len(r.PromptTokens) > 0:
		w.violate(Output, "call %d: attempt %d is not given the chat as it came", c.n, a.id)
	case len(l.got) > 0:
		w.violate(Output, "call %d: attempt %d of leg %d goes on with an answer that only its engine could", c.n, a.id, a.place.Leg)
	case !a.host.ref.Capabilities.Chat:
		w.violate(Output, "call %d: attempt %d is to be rendered by %s, which renders nothing", c.n, a.id, a.host.id)
	case a.place.OverlapTokens > 0:
		w.violate(Index, "call %d: leg %d counts %d tokens as cached of a prompt that nobody here knows", c.n, a.place.Leg, a.place.OverlapTokens)
	}
}
