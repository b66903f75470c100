package router

import (
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
)

// effect is something the actor does after a step, in order.
type effect interface{ isEffect() }

type (
	// tellCall answers a submission.
	tellCall struct {
		call    *stream.Call
		message any
	}
	// reserve asks a replica's actor.
	reserve struct{ *asked }
	// placed answers a submission whose every reservation was granted.
	placed struct{ by *asking }
	// giveBack ends a ticket that was granted and can't be used.
	giveBack struct {
		ref    *fleet.Ref
		ticket scoring.Ticket
	}
	// refused reports that a submission was turned away.
	refused struct {
		kind  fault.Kind
		cause fault.Cause
	}
	// reranked reports a reservation that was refused.
	reranked struct{}
	// ejected reports that a replica gets nothing for a while because its steps take so many times as long as they did.
	ejected struct {
		id       scoring.ReplicaID
		slowdown float64
		until    time.Time
	}
	// dispatched reports that a submission was placed after a wait.
	dispatched struct{ by *asking }
	// speculated counts a prompt as cached on a replica, on behalf of a reservation.
	speculated struct{ *asked }
)

func (tellCall) isEffect()   {}
func (reserve) isEffect()    {}
func (placed) isEffect()     {}
func (giveBack) isEffect()   {}
func (refused) isEffect()    {}
func (reranked) isEffect()   {}
func (ejected) isEffect()    {}
func (dispatched) isEffect() {}
func (speculated) isEffect() {}

// predictedPrefill is how long the prompt is predicted to take; nil: too little was seen of the replica. It is the receiver's.
func (a *asked) predictedPrefill() *time.Duration {
	if !a.predicted {
		return nil
	}
	return new(a.prefill)
}

// work is what the leg is for its engine.
func (a *asked) work() fleet.Work {
	r := a.by.call().Request
	return fleet.Work{PromptTokens: a.place.Claim.PrefillTokens, Logprobs: r.TopLogprobs != nil, Schema: r.Schema, LoRA: r.LoRA}
}

func (by *asking) call() *stream.Call { return by.entry.sub.Call }

// message is what the call is told.
func (p placed) message() stream.Placed {
	return stream.Placed{Number: p.by.entry.sub.Number, Placements: p.by.placed}
}
