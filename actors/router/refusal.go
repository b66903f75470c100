package router

import (
	"fmt"
	"slices"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/policy"
	"plimsoll/scoring/slo"
)

// turned is how a submission is turned away: what its client is told, and what is counted.
type turned struct {
	cause fault.Cause
	fault *fault.Fault
}

// reject turns a submission away.
func (m *machine) reject(e *entry, t *turned) {
	m.emit(refused{t.fault.Kind, t.cause})
	m.emit(tellCall{e.sub.Call, stream.Rejected{Number: e.sub.Number, Fault: t.fault}})
	m.trace.Rejected(m.now, subjectOf(e, e.sub.Legs[0].Leg), e.tokens(), t.fault.Message)
	m.spare.entries.give(e)
}

// late turns a request away whose time in the queue is up.
func (m *machine) late(now time.Time, e *entry, vs []view) *turned {
	if e.sub.Begun {
		if last := e.sub.Legs[0].LastFault; last != nil {
			return m.shedBy(now, last, vs)
		}
	}
	return &turned{
		fault.QueueTimeout,
		contended(m.retryAfter(now, e, vs), "no replica had room within %s; try again later", m.cfg.QueueTimeout),
	}
}

// retryAfter is when there will be room for an entry: between a second and a minute, in whole seconds, with some jitter so that
// refused clients do not come back together.
func (m *machine) retryAfter(now time.Time, e *entry, vs []view) time.Duration {
	return m.jittered(m.roomSeconds(now, e, vs))
}

func (m *machine) jittered(room float64) time.Duration {
	return time.Duration(slo.RetrySeconds(room, m.rng.Float64())) * time.Second
}

// shedBy passes on the last fault of a request that nobody else can take; where engines shed it, with the time until the first of those that
// did takes requests again. Who lost its place to a drain lost no engine.
func (m *machine) shedBy(now time.Time, last *fault.Fault, vs []view) *turned {
	if last.Kind == fault.NoReplica {
		return &turned{fault.Unserved, last}
	}
	if last.Kind != fault.Contended {
		return &turned{fault.Broken, last}
	}
	room, cools := last.RetryAfter, false
	for i := range vs {
		if left := vs[i].snap.CoolingUntil.Sub(now); left > 0 && (!cools || left < room) {
			room, cools = left, true
		}
	}
	f := *last
	f.RetryAfter = m.jittered(room.Seconds())
	return &turned{fault.Shed, &f}
}

// never turns a submission of several legs away that the fleet could not take even if all of it were up and idle: it would
// wait for ever. Replicas that never told their limits are given the benefit of the doubt.
func (m *machine) never(e *entry, vs []view) *turned {
	if len(vs) == 0 || slices.ContainsFunc(vs, func(v view) bool { return !v.snap.Told }) {
		return nil
	}
	for _, a := range e.sub.Legs {
		if e.leastSequence(a) > longest(vs) {
			return tooLarge(e, vs)
		}
	}
	if fit := m.packs(e, vs); fit < len(e.sub.Legs) {
		return doesNotPack(e, fit)
	}
	return nil
}

// packs says how many legs find room at once on an idle fleet, each where the most is left.
func (m *machine) packs(e *entry, vs []view) int {
	type room struct {
		seats  int
		blocks scoring.Blocks
		seen   map[int]bool // prompts whose shared blocks are counted
	}
	rooms := make([]room, len(vs))
	for i := range vs {
		l := vs[i].snap.Load.Limits
		rooms[i] = room{l.Seats, l.KVBlocks, map[int]bool{}}
	}
	for fit, a := range e.sub.Legs {
		base := m.plan(e, a)
		best, left, need := -1, scoring.Blocks(-1), scoring.Blocks(0)
		for i := range rooms {
			r, limits, plan := &rooms[i], vs[i].snap.Load.Limits, base
			if e.prompt(a).Raw && !vs[i].ref.Capabilities.Chat {
				continue
			}
			if plan.Shares = vs[i].ref.Capabilities.Sharing == engine.SharingFromDispatch && !e.prompt(a).Raw; plan.Shares {
				plan.Keys = e.keysFor(m.cfg.Model, a.Prompt, limits.BlockTokens)
			}
			claim := plan.Claim(limits)
			n := claim.PrivateBlocks
			if !r.seen[a.Prompt] {
				n += scoring.Blocks(len(claim.SharedKeys))
			}
			if e.leastSequence(a) <= limits.SequenceTokens && r.seats > 0 && n <= r.blocks && r.blocks-n > left {
				best, left, need = i, r.blocks-n, n
			}
		}
		if best < 0 {
			return fit
		}
		rooms[best].seats--
		rooms[best].blocks -= need
		rooms[best].seen[a.Prompt] = true
	}
	return len(e.sub.Legs)
}

// refused words a policy's refusal.
func (m *machine) refused(now time.Time, e *entry, ask stream.Ask, dec policy.Decision, vs []view) *turned {
	if dec.Cause == policy.TooLarge {
		return tooLarge(e, vs)
	}
	if ask.LastFault != nil {
		return m.shedBy(now, ask.LastFault, vs)
	}
	f := fault.New(fault.NoReplica, "no replica of model %q that could take this request is serving now; try again later", e.sub.Call.Request.Model)
	f.RetryAfter = m.jittered(dec.RetryAfter.Seconds())
	return &turned{fault.Unserved, f}
}

// tooLarge words the refusal of a leg that no configured replica can hold.
func tooLarge(e *entry, vs []view) *turned {
	var worst stream.Ask
	for _, a := range e.sub.Legs {
		if e.leastSequence(a) > longest(vs) {
			worst = a
			break
		}
	}
	req, what := e.sub.Call.Request, "shorten the prompt"
	param := paramOf(req)
	if e.promptTokens(worst) < longest(vs) {
		what, param = "lower min_tokens or shorten the prompt", "min_tokens"
	}
	f := fault.New(fault.ContextLength,
		"this model's maximum context length is %d tokens, but the prompt has %d and the answer needs at least %d; %s",
		longest(vs), e.promptTokens(worst), max(1, req.MinTokens), what)
	f.Param = param
	return &turned{fault.TooLarge, f}
}

func doesNotPack(e *entry, fit int) *turned {
	f := fault.New(fault.BadInput,
		"%d answers at once do not fit on this model's replicas even when they are idle: %d do; lower n or send fewer prompts",
		len(e.sub.Legs), fit)
	f.Param = "n"
	return &turned{fault.TooLarge, f}
}

func paramOf(req *stream.Request) string {
	if req.Input.Chat != nil {
		return "messages"
	}
	return "prompt"
}

func contended(wait time.Duration, format string, args ...any) *fault.Fault {
	return &fault.Fault{Kind: fault.Contended, Message: fmt.Sprintf(format, args...), RetryAfter: wait}
}
