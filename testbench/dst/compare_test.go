package dst

import (
	"bytes"
	"fmt"
	"slices"

	"plimsoll/actors/fault"
)

// tally is what a comparison of the two drivers' runs has come to.
//
// What must hold of each request, whatever the schedulers did:
//
//   - What the node delivered is what the oracles of its attempts say: the checks that the first driver's answers go through.
//   - A leg whose answer is determined (see determined) was given the same tokens by both drivers, as far as both went. If both
//     finished it, they agree on the number of tokens, text, logprobs, reason and length, and the requests on their usage. The
//     exception is a leg without max_tokens, or with more of them than fit: its room is its replica's. Then one answer begins with the other.
//   - A request that does not finish has a cause of its own in that very run (see caused). So one that nothing has happened
//     to in either run has finished in both.
//
// The outcomes themselves may differ where something did happen to a request in one run that had not yet, or no longer, a
// chance to happen in the other: the drivers deliver messages at other moments, so a client that leaves at a given time may
// have its answer by then, a cut may find the request on another replica, or no replica may be up at the moment of its arrival.
// How often is bounded by the test.
type tally struct {
	seeds    int
	requests int
	same     int // finished by both drivers, with all tokens equal
	chained  int // finished by both, and some leg's tokens depend on where it broke: held against oracles only
	clamped  int // finished by both, and some leg had other room
	resumed  int // finished by both with all tokens equal, and the node's answer comes of several engines
	tokens   int // compared one by one
	panics   int // of actors
	ends     [NumEnds][NumEnds]int
	bad      []string // what is wrong, the first ones
}

// badMax bounds what is told of what is wrong.
const badMax = 20

func (t *tally) violate(format string, args ...any) {
	if len(t.bad) < badMax {
		t.bad = append(t.bad, fmt.Sprintf(format, args...))
	}
}

func (t *tally) add(o *tally) {
	t.seeds += o.seeds
	t.requests += o.requests
	t.same += o.same
	t.chained += o.chained
	t.clamped += o.clamped
	t.resumed += o.resumed
	t.tokens += o.tokens
	t.panics += o.panics
	t.bad = append(t.bad, o.bad...)
	for i := range t.ends {
		for j := range t.ends[i] {
			t.ends[i][j] += o.ends[i][j]
		}
	}
}

// differing counts the requests whose outcome is another one.
func (t *tally) differing() (n int) {
	for i := range t.ends {
		for j := range t.ends[i] {
			if i != j {
				n += t.ends[i][j]
			}
		}
	}
	return n
}

func (t *tally) String() string {
	return fmt.Sprintf("%d seeds, %d requests: %d finished by both with equal tokens (%d of them resumed), %d in another way than by the other driver, "+
		"%d depend on where they broke, %d on their replica's room; %d tokens equal, %d actors panicked; outcomes %v",
		t.seeds, t.requests, t.same, t.resumed, t.differing(), t.chained, t.clamped, t.tokens, t.panics, t.ends)
}

// compare holds a client's request against the first driver's.
func (t *tally) compare(c *client) {
	was, now := c.was, c.now
	t.requests++
	for i, l := range now.legs {
		l.tries = c.chain[i].tries
	}
	a, b := was.end(), now.end()
	t.ends[a][b]++
	if now.fault != nil && !c.caused() {
		t.violate("seed %d: call %d fails without a cause: %s: %s", was.w.cfg.Seed, was.n, now.fault.Kind, now.fault.Message)
	}
	var v verdict
	for i, l := range now.legs {
		if !anonymous(now.req) {
			c.givers(i)
		}
		if now.fault == nil && l.finish == nil {
			t.violate("seed %d: call %d ends well without an end of leg %d", was.w.cfg.Seed, was.n, i)
			return
		}
		if l.finish != nil && !anonymous(now.req) {
			c.b.w.checkFinish(now, i, l, now.usage)
		}
		t.compareLeg(c, i, &v)
	}
	if a != Finished || b != Finished {
		return
	}
	switch {
	case v.chained:
		t.chained++
	case v.clamped:
		t.clamped++
	default:
		t.same++
		if v.resumed {
			t.resumed++
		}
		if was.usage.PromptTokens != now.usage.PromptTokens || was.usage.CompletionTokens != now.usage.CompletionTokens {
			t.violate("seed %d: call %d: usage %+v, and was %+v", was.w.cfg.Seed, was.n, now.usage, was.usage)
		}
	}
}

// verdict is what was found of a request's legs.
type verdict struct{ chained, clamped, resumed bool }

func (t *tally) compareLeg(c *client, n int, v *verdict) {
	was, now := c.was.legs[n], c.now.legs[n]
	if !determined(c.now, was, now) {
		v.chained = true
		return
	}
	v.resumed = v.resumed || len(gave(now)) > 1
	common := min(len(was.got), len(now.got))
	if !slices.Equal(was.got[:common], now.got[:common]) {
		t.violate("seed %d: call %d: leg %d is %v, and was %v", c.was.w.cfg.Seed, c.was.n, n, now.got, was.got)
		return
	}
	t.tokens += common
	if was.finish == nil || now.finish == nil {
		return
	}
	if len(was.got) != len(now.got) && room(was) != room(now) {
		v.clamped = true
		return
	}
	f, g := was.finish, now.finish
	if len(was.got) != len(now.got) || f.Reason != g.Reason || f.CompletionTokens != g.CompletionTokens ||
		!bytes.Equal(was.text, now.text) || was.logprobs != now.logprobs {
		t.violate("seed %d: call %d: leg %d ends with %d tokens, %d logprobs, %+v and %q, and did with %d, %d, %+v and %q", c.was.w.cfg.Seed, c.was.n, n,
			len(now.got), now.logprobs, *g, now.text, len(was.got), was.logprobs, *f, was.text)
	}
}

// determined says whether a leg's tokens follow from its request alone, in both runs: it is greedy without penalties that
// count an answer's beginning; or all came of one attempt each, of the same seed or, without one, the same entropy. Of an
// anonymous call engines can tell no leg's, so what they sample is not compared.
func determined(c *call, was, now *leg) bool {
	if exact(c.req) {
		return true
	}
	a, b := gave(was), gave(now)
	if anonymous(c.req) || len(a) > 1 || len(b) > 1 {
		return false
	}
	return c.req.Sampling.Seed != nil || len(a) == 0 || len(b) == 0 || a[0].entropy == b[0].entropy
}

// gave are the attempts that gave a leg what it has.
func gave(l *leg) []*attempt {
	return slices.DeleteFunc(slices.Clone(l.tries[l.from:]), func(a *attempt) bool { return len(a.got) == 0 })
}

// room is how long prompt and answer of a leg may become where it has ended.
func room(l *leg) int {
	a := l.current()
	if g := gave(l); len(g) > 0 {
		a = g[len(g)-1] // and not a hedge that lost
	}
	return len(a.request.PromptTokens) + a.request.MaxTokens
}

// caused says whether the node had a cause to end a request with a fault.
func (c *client) caused() bool {
	switch c.now.fault.Kind {
	case fault.ClientGone, fault.SlowReader:
		return c.leaves
	case fault.EngineFailed, fault.Deadline:
		return c.troubled
	case fault.NoReplica:
		return c.b.harmed
	case fault.Contended: // the fleet is small
		slo := c.was.req.SLO
		return c.now.fault.Code != codeSLO || slo.TTFT != nil || slo.TPOT != nil
	case fault.BadInput, fault.ContextLength: // it fits nobody: then it fitted nobody before, unless the fleet was another one
		return c.was.fault != nil && c.was.fault.Kind == c.now.fault.Kind || c.b.drained
	case fault.Unauthorized, fault.Forbidden, fault.ModelNotFound, fault.NotFound, fault.MethodNotAllowed, fault.BodyTooLarge,
		fault.MediaType, fault.EngineRefused, fault.Internal, fault.ShuttingDown, fault.OverQuota, fault.NumKinds:
	}
	return false
}

// givers leaves of a leg's attempts those that gave it its answer, cut to what was taken of each: the next one's input shows
// that. Another attempt with the same input was a hedge, or came before the leg began anew.
func (c *client) givers(n int) {
	l, prompt := c.now.legs[n], len(c.was.prompt(n))
	tries := c.chain[n].tries
	var out []*attempt // from the last to the first
	for end := -1; len(tries) > 0; {
		from := len(tries[len(tries)-1].request.PromptTokens)
		if end >= 0 && from >= end { // it gave nothing
			tries = tries[:len(tries)-1]
			continue
		}
		if end < 0 {
			end = max(from, prompt+len(l.got))
		}
		a := giver(tries, from, end, l.got[min(from-prompt, len(l.got)):])
		if a == nil {
			c.b.w.violate(Output, "call %d: leg %d has tokens that no attempt has got", c.was.n, n)
			return
		}
		a.got = a.got[:min(len(a.got), end-from)]
		out = append(out, a)
		if end = from; end == prompt {
			break
		}
		tries = tries[:len(tries)-1]
	}
	slices.Reverse(out)
	l.tries = out
}

// giver is the last of the attempts from a place on that has all tokens up to another, as far as these are known.
func giver(tries []*attempt, from, end int, known []uint32) *attempt {
	for _, a := range slices.Backward(tries) {
		same := min(end-from, len(known))
		if len(a.request.PromptTokens) == from && len(a.got) >= end-from && slices.Equal(a.got[:same], known[:same]) {
			return a
		}
	}
	return nil
}
