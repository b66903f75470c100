package fleet

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// Messages to the replica actor. None may be lost but by a panic of the actor itself. The announcements after its restart make
// up for those that were; what they can't make up for (Linger, AttemptFailed, Drain, Undrain) the next instance takes first.
type (
	// Reserve asks for a place. From a router, which is answered with Granted or Refused.
	Reserve struct {
		Claim       ledger.Claim
		Incarnation uint64 // the engine's life the router ranked; another one is refused
		// Prefill is how long the prompt is predicted to take, without waiting; nil where too little was seen of the replica.
		Prefill *time.Duration
		Work    Work // what it is to do
		From    *actor.PID
	}
	// Started: the first token has arrived. From the request's goroutine.
	Started struct {
		Ticket scoring.Ticket
		Waited time.Duration // since the attempt began
	}
	// Progress: tokens produced so far, sent once a block. From the request's goroutine.
	Progress struct {
		Ticket   scoring.Ticket
		Produced scoring.Tokens
	}
	// End: the engine has let go of the attempt. From the request's or the attempt's goroutine, or from a router that gives
	// back what it was granted and can't use.
	End struct {
		Ticket scoring.Ticket
		Reason ledger.EndReason
	}
	// Linger: the attempt was aborted and the engine may still hold its blocks. An End follows if the engine confirms
	// aborts; else the ticket ends after the engine's LingerBound. From the request's goroutine. It says all that there is to
	// know of the attempt, because it may be the last that anybody says of it: an instance of the actor that has not heard of
	// the ticket books it now.
	Linger struct{ Attempt }
	// Late: another replica has answered the request of a ticket that has brought nothing here in the time that was predicted
	// for it. Its Linger follows. From the request's goroutine.
	Late struct{ Ticket scoring.Ticket }
	// AttemptFailed: the engine failed the attempt. After Stalled the ticket lingers as after Linger, because the attempt may
	// still run; after Broken it does unless the engine confirms aborts. Any other kind ends it. From the request's goroutine.
	AttemptFailed struct {
		Attempt

		Failure *engine.Failure
		Of      Likeness // what the request has in common with others
	}
	// Announced answers Restarted: the tickets a request has here. From the request's goroutine, one for each call; and one
	// from the register of calls for attempts that have outlived theirs.
	Announced struct {
		Epoch   uint64
		Tickets []Announcement
	}
	// Learned: an engine has computed a sequence. From the request's goroutine; may be lost. Passed on to the feed. What the
	// slices hold is shared and not written to.
	Learned struct {
		LoRA, Salt     string
		Prompt, Output []uint32
		FreshTokens    scoring.Tokens // of both, those that it did not find in its cache, as far as is known
		Began          time.Time      // of the attempt
	}
	// Cached: an engine has told how much of a prompt it found in its cache. From the request's goroutine, once an attempt;
	// may be lost. Passed on to the feed.
	Cached struct {
		Incarnation     uint64         // the engine's life
		Began           time.Time      // of the attempt
		PredictedTokens scoring.Tokens // by the index, at the dispatch
		ReportedTokens  scoring.Tokens
	}
	// Drain: take nothing new. From the system, on an operator's order.
	Drain struct {
		// Leave is when what still runs is moved to other replicas; nil: it may end here.
		Leave *time.Time
		// Keep has the replica stay when it is empty, until Undrain; else it is gone then.
		Keep bool
	}
	// Undrain takes a Drain with Keep back. From the system, on an operator's order.
	Undrain struct{}
)

// Attempt is what a request knows of one of its attempts here: enough to book what the engine holds for it.
type Attempt struct {
	Claim       ledger.Claim
	Produced    scoring.Tokens
	Incarnation uint64    // the life of the engine that the router ranked
	Began       time.Time // when the attempt did: it may have come to a later life, which nobody knew of yet
}

// Announcement is one live ticket after the actor's restart.
type Announcement struct {
	Attempt

	State ledger.State
}

// Messages of the replica actor to a router.
type (
	// Granted answers Reserve: the claim is booked.
	Granted struct {
		Ticket   scoring.Ticket
		Replica  scoring.ReplicaID
		Snapshot *Snapshot
	}
	// Refused answers Reserve: nothing is booked.
	Refused struct {
		Ticket   scoring.Ticket
		Replica  scoring.ReplicaID
		Reason   ledger.Reason
		Snapshot *Snapshot
	}
	// Room: a published snapshot has more room than the one before. May be lost.
	Room struct{ Replica scoring.ReplicaID }
)
