package router

import (
	"fmt"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
	"plimsoll/scoring"
)

// Shell does what a router's machine asks for, in the order in which it is called.
type Shell interface {
	TellCall(call *stream.Call, message any)
	// Reserve asks a replica's actor, which answers with [fleet.Granted] or [fleet.Refused]. From is left to the shell.
	Reserve(ref *fleet.Ref, r *fleet.Reserve)
	// GiveBack ends a ticket that was granted and can't be used.
	GiveBack(ref *fleet.Ref, ticket scoring.Ticket)
	// Turned tells of a submission that was turned away. For statistics.
	Turned(kind fault.Kind, cause fault.Cause)
	// Ejected tells of a replica that gets nothing for a while because its steps take so many times as long as they did.
	Ejected(id scoring.ReplicaID, slowdown float64, until time.Time)
	// Reranked tells of a reservation that was refused, so that the request was ranked again. For statistics.
	Reranked()
	// Dispatched tells of a submission that was placed after a wait. For statistics.
	Dispatched(waited time.Duration)
}

// perform has a shell do what a step asks for, and notes which grants are passed on.
func perform(effects []effect, to Shell, granted grants) {
	for _, e := range effects {
		switch e := e.(type) {
		case tellCall:
			to.TellCall(e.call, e.message)
		case reserve:
			to.Reserve(e.place.Ref, &fleet.Reserve{
				Claim: e.place.Claim, Incarnation: e.place.Incarnation, Prefill: e.predictedPrefill(), Work: e.work(),
			})
		case placed:
			to.TellCall(e.by.call(), e.message())
		case giveBack:
			to.GiveBack(e.ref, e.ticket)
		case refused:
			to.Turned(e.kind, e.cause)
		case dispatched:
			to.Dispatched(e.by.waited)
		case ejected:
			to.Ejected(e.id, e.slowdown, e.until)
		case speculated:
			e.tellIndex()
		case reranked:
			to.Reranked()
		default:
			panic(fmt.Sprintf("router: no shell does %T", e))
		}
		granted.told(e)
	}
}
