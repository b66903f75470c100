package dst

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
	"plimsoll/engine"
)

// client is one request to the node: the one that the first driver's call was.
type client struct {
	b     *bubble
	was   *call
	now   *call    // what the checkers look at: filled from what the client reads and from what engines were sent
	chain []*chain // attempts by leg

	response *stream.Response
	hold     context.CancelFunc // stops reading
	reads    context.Context    //nolint:containedctx // until the client reads no more
	err      *fault.Fault

	// Guarded by bubble.mu.
	leaves   bool // the client has left, or stopped reading
	troubled bool // an engine has failed the request, or was told to let go of it
	ended    bool
}

// chain is the attempts of a leg.
type chain struct {
	prompt int
	tries  []*attempt
}

// newClient draws nothing: the request is the call's. Two parameters are added that change no answer, and tell engines who asks:
// TopP says what no TopP says, and its address, which is passed on as it is, names the call; the seed, which to a greedy answer
// means nothing, names the leg.
func (b *bubble) newClient(was *call) *client {
	c := &client{b: b, was: was}
	c.reads, c.hold = context.WithCancel(context.Background())
	req := *was.req
	req.Input = stream.Input{Tokens: was.ids}
	req.Arrival = time.Now()
	req.Sampling.TopP = new(1.0)
	if s := &req.Sampling; s.Temperature != nil && *s.Temperature == 0 {
		s.Seed = new(int64(0))
	}
	c.now = &call{w: b.w, n: was.n, req: &req, ids: was.ids, legs: make([]*leg, len(was.legs))}
	for i := range c.now.legs {
		c.now.legs[i] = &leg{}
	}
	c.chain = make([]*chain, len(was.legs))
	for i := range c.chain {
		c.chain[i] = &chain{prompt: i / req.N}
	}
	b.clients[was.n] = c
	b.named[req.Sampling.TopP] = c
	return c
}

// start submits the request and reads the answer.
func (b *bubble) start(c *client) {
	c.response = b.sys.Submit(c.now.req)
	go c.read()
}

// slowFor is how long a client that reads nothing does so. Nothing is left of its request by then.
const slowFor = time.Minute

// read takes the answer to its end.
func (c *client) read() {
	ctx := c.reads
	for {
		d, err := c.response.Next(ctx)
		if ctx.Err() != nil && err != nil && errors.Is(err, ctx.Err()) {
			time.Sleep(slowFor)
			ctx = context.Background()
			continue
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				c.err = fault.Of(err)
			}
			break
		}
		l := c.now.legs[d.Leg]
		if d.Restarted {
			l.got, l.groups, l.produced, l.text, l.logprobs = nil, nil, 0, nil, 0
		}
		for i := range d.Entries {
			e := &d.Entries[i]
			l.got, l.groups = append(l.got, e.ID), append(l.groups, 1)
			l.produced++
			l.text = append(l.text, e.Text...)
			if e.Logprob != nil {
				l.logprobs++
			}
		}
		if d.Finish != nil {
			l.finish = d.Finish
			l.text = append(l.text, d.Finish.Text...)
		}
	}
	c.now.usage = c.response.Usage()
	c.now.fault = c.err
	c.hold()
	c.b.lock()
	c.ended = true
	c.b.unlock()
}

// open are the attempts of a leg that run.
func (c *client) open(leg int) (out []*attempt) {
	for _, a := range c.chain[leg].tries {
		if !a.returned {
			out = append(out, a)
		}
	}
	return out
}

// clientOf is whose attempt it is; nil: it is a canary.
func (b *bubble) clientOf(a *attempt) *client {
	if a.call == nil {
		return nil
	}
	return b.clients[a.call.n]
}

// newAttempt tells whose attempt a request is.
func (b *bubble) newAttempt(h *host, req engine.Request) *attempt {
	a := &attempt{host: h, request: req, mischief: NumFaults}
	c := b.named[req.Sampling.TopP]
	if c == nil || req.Sampling.TopP == nil {
		return a // a canary
	}
	leg := c.legOf(&req)
	if leg < 0 && anonymous(c.now.req) {
		leg = 0
	}
	if leg < 0 {
		b.w.violate(Output, "call %d: an engine is sent what continues none of its legs", c.was.n)
		return a
	}
	ch := c.chain[leg]
	a.call, a.nth = c.now, len(ch.tries)+1
	a.place.Leg = leg
	a.entropy = entropy(b.first.cfg.Seed, c.was.n, leg, fruitful(ch.tries))
	ch.tries = append(ch.tries, a)
	return a
}

// legOf finds the leg that a request is for: the seed tells it and, of several prompts, how it begins. -1 if it does not go on
// where that leg can be. The legs of an anonymous call are told apart by where they are only.
func (c *client) legOf(req *engine.Request) int {
	best, longest := -1, 0
	for i, ch := range c.chain {
		prompt := c.was.ids[ch.prompt]
		if seed := c.now.req.Sampling.Seed; seed != nil && *req.Sampling.Seed != *seed+int64(i%c.was.req.N) || len(req.PromptTokens) < len(prompt) {
			continue
		}
		if fit := fits(req.PromptTokens, prompt); fit > longest {
			best, longest = i, fit
		}
		for _, a := range ch.tries {
			if fit := fits(req.PromptTokens, slices.Concat(a.request.PromptTokens, a.got)); fit > longest {
				best, longest = i, fit
			}
		}
	}
	return best
}

// fits says how much speaks for an input that goes on somewhere in what a leg has; 0: it does not.
func fits(input, has []uint32) int {
	n := len(input)
	switch {
	case n > len(has) || !slices.Equal(input, has[:n]):
		return 0
	case n == len(has):
		return n + math.MaxInt/2 // where it ends
	}
	return n
}

// anonymous says that engines cannot tell the legs of a call apart.
func anonymous(req *stream.Request) bool { return req.N > 1 && req.Sampling.Seed == nil }
