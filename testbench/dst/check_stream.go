package dst

import (
	"errors"
	"slices"

	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/engine/sim"
)

// failedOn notes why an attempt has returned, and where its leg may not go again.
func (w *world) failedOn(a *attempt, err error) {
	var f *engine.Failure
	if a.cancelled || err == nil || !errors.As(err, &f) {
		return
	}
	l := a.call.legs[a.place.Leg]
	l.lastFail, a.lost = f, f
	if f.Kind == engine.Operator {
		w.refusalSeen(a)
	}
	if f.Kind != engine.Client && (f.Kind != engine.Shed || !a.call.begun()) {
		l.failed = append(l.failed, failedOn{a.host, a.place.Incarnation, ofProcess(f)})
	}
}

// begun says whether some leg has tokens.
func (c *call) begun() bool {
	return slices.ContainsFunc(c.legs, func(l *leg) bool { return len(l.got) > 0 })
}

// lingers notes an attempt that is given up although nothing has failed.
func (c *call) lingers(ticket uint64) {
	for _, a := range c.open {
		if a.place.Claim.Ticket.Number == ticket {
			c.legs[a.place.Leg].moved = true
		}
	}
}

// stalled notes that the code gave an attempt up. A replica that fell silent may be asked again by those who were not the cause.
func (c *call) stalled(ticket uint64, f *engine.Failure) {
	for _, a := range c.open {
		if a.place.Claim.Ticket.Number == ticket && f.Kind == engine.Stalled {
			l := c.legs[a.place.Leg]
			l.lastFail, a.lost = f, f
			if c.told == nil || !c.told.Silent || slices.Contains(c.told.Suspects, a.place.Claim.Ticket) && len(a.got) == 0 {
				l.failed = append(l.failed, failedOn{a.host, a.place.Incarnation, true})
			}
		}
	}
}

// released counts the messages that end a ticket.
func (w *world) released(number uint64, h *host) {
	rec := w.ticket(number)
	if rec.host != h {
		w.violate(Once, "ticket %d of another replica is ended on %s", number, h.id)
	}
	if rec.releases++; rec.releases > 1 {
		w.violate(Once, "ticket %d is ended a second time", number)
	}
}

// checkAttempt looks where an attempt goes and what it asks for.
func (w *world) checkAttempt(a *attempt, l *leg) {
	c := a.call
	for _, f := range l.failed {
		if f.keeps(w, a.host, a.place.Incarnation) {
			w.violate(Exclusion, "call %d: leg %d goes to %s, life %d, and %s has failed it", c.n, a.place.Leg, a.host.id, a.place.Incarnation, &f)
		}
	}
	if len(l.tries) > attemptsMax {
		w.violate(Amplification, "call %d: leg %d has its attempt %d", c.n, a.place.Leg, len(l.tries))
	}
	w.checkRivals(a, l)
	w.checkAsked(a, l)
	w.checkFruit(a, l)
	rec := w.ticket(a.place.Claim.Ticket.Number)
	if rec.grants != 1 || rec.host != a.host {
		w.violate(Grant, "call %d: attempt %d has ticket %d, which %s has not granted", c.n, a.id, a.place.Claim.Ticket.Number, a.host.id)
	}
	if c.raw > 0 {
		w.checkRaw(a, l)
		return
	}
	prompt := c.prompt(a.place.Leg)
	if want := len(prompt) + len(l.got); len(a.request.PromptTokens) != want ||
		!slices.Equal(a.request.PromptTokens[:len(prompt)], prompt) || !slices.Equal(a.request.PromptTokens[len(prompt):], l.got) {
		w.violate(Output, "call %d: attempt %d is given %d tokens, and prompt and answer so far are %d", c.n, a.id, len(a.request.PromptTokens), want)
	}
	if most := c.req.MaxTokens; most != nil && len(l.got)+a.request.MaxTokens > *most {
		w.violate(Output, "call %d: attempt %d may give %d tokens beside %d of at most %d", c.n, a.id, a.request.MaxTokens, len(l.got), *most)
	}
}

// attemptsMax is how many attempts a leg may have.
const attemptsMax = 8

// exact says whether an answer is determined by the request alone, however often its engine changes.
func exact(req *stream.Request) bool {
	s := &req.Sampling
	return s.Temperature != nil && *s.Temperature == 0 && s.PresencePenalty == nil && s.FrequencyPenalty == nil
}

func (a *attempt) submission() sim.Submit {
	r := &a.request
	return sim.Submit{
		ID: r.ID, PromptTokens: a.prompted(), MaxTokens: r.MaxTokens, MinTokens: r.MinTokens, Sampling: r.Sampling,
		EndTokens: a.ends(), IgnoreEOS: r.IgnoreEOS, TopLogprobs: r.TopLogprobs, Salt: r.CacheSalt, LoRA: r.LoRA,
		Entropy: a.entropy,
	}
}

// checkFinish compares an answer with what the oracles of its attempts say.
func (w *world) checkFinish(c *call, n int, l *leg, _ stream.Usage) {
	left := l.got
	for _, a := range l.tries[l.from:] {
		if len(a.got) == 0 {
			continue
		}
		said, _ := sim.Answer(a.host.p.cfg, source, a.submission())
		took := min(len(a.got), len(left))
		if len(a.got) > len(said) || !slices.Equal(a.got, said[:len(a.got)]) {
			w.violate(Output, "call %d: attempt %d did not get what its engine says", c.n, a.id)
			return
		}
		if !slices.Equal(left[:took], said[:took]) {
			w.violate(Output, "call %d: leg %d is not what its attempts have got, from token %d on", c.n, n, len(l.got)-len(left))
			return
		}
		left = left[took:]
	}
	if len(left) > 0 {
		w.violate(Output, "call %d: leg %d has %d tokens that no attempt has got", c.n, n, len(left))
		return
	}
	if len(l.tries) > l.from+1 && exact(c.req) {
		first := l.tries[l.from].submission()
		first.MaxTokens = len(l.got)
		first.MinTokens = min(first.MinTokens, first.MaxTokens)
		boundless := l.tries[0].host.p.cfg
		boundless.ContextTokens, boundless.KVBlocks = 1<<20, 1<<20
		said, _ := sim.Answer(boundless, source, first)
		if len(said) < len(l.got) || !slices.Equal(l.got, said[:len(l.got)]) {
			w.violate(Output, "call %d: leg %d is not what one engine would have said", c.n, n)
			return
		}
	}
	w.checkText(c, n, l)
}

// checkOutcome looks whether a request had a cause to end as it did.
func (w *world) checkOutcome(c *call) {
	w.checkSlow(c)
	if c.fault == nil {
		for n, l := range c.legs {
			if l.finish == nil {
				w.violate(Outcome, "call %d ends well without an end of leg %d", c.n, n)
			}
		}
		w.checkUsage(c)
		return
	}
	troubled := slices.ContainsFunc(c.legs, func(l *leg) bool { return l.lastFail != nil || l.moved })
	ok := false
	switch c.fault.Kind {
	case fault.ClientGone:
		ok = c.left && !c.overran
	case fault.SlowReader:
		ok = c.overran
	case fault.EngineFailed, fault.Deadline:
		ok = troubled
	case fault.Contended, fault.NoReplica, fault.ContextLength, fault.BadInput:
		ok = c.rejected || troubled // where it was rejected its cause was looked at
	case fault.Unauthorized, fault.Forbidden, fault.ModelNotFound, fault.NotFound, fault.MethodNotAllowed, fault.BodyTooLarge,
		fault.MediaType, fault.EngineRefused, fault.Internal, fault.ShuttingDown, fault.OverQuota, fault.NumKinds:
	}
	if !ok {
		w.violate(Outcome, "call %d fails without a cause: %s: %s", c.n, c.fault.Kind, c.fault.Message)
	}
}
