package stream

import (
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
)

// Messages of a call to its model's router. A router that restarts asks for them again; none else may be lost.
type (
	// Submit asks for a place for legs. The request's prompts come along once they are known.
	Submit struct {
		Call    *Call
		Number  uint64 // of this submission of the call; the answer names it
		Arrival time.Time
		Prompts []Prompt // nil: to be tokenized first, by the model's tokenizer, which passes it on
		Legs    []Ask
		Again   bool // some legs had an attempt before: to the head of the queue
		// Begun: some answer of the request has tokens, so that it is not turned away for want of room, and waits longer for
		// a replica that serves. Some of the legs may be placed before the others, which are then submitted anew.
		Begun bool
		// Hedge: the leg's attempt runs and is only slow. It is placed at once if that keeps nobody waiting, or Rejected.
		Hedge bool
	}
	// Withdraw takes a submission back; number 0 takes back any. The router answers Withdrawn, also if it knows of none; nobody
	// waits for it.
	Withdraw struct {
		Call   *Call
		Number uint64
	}
	// Inquire asks whether a submission is known that was not answered for long. The router answers Known or Lost.
	Inquire struct {
		Call   *Call
		Number uint64
	}
	// FirstToken tells of a finished prefill. May be lost.
	FirstToken struct {
		Replica       scoring.ReplicaID
		Ticket        scoring.Ticket
		PrefillTokens scoring.Tokens // not found in the cache
		HitTokens     scoring.Tokens
		Took          time.Duration // since the dispatch
	}
	// Steps tells of a run of decode steps. May be lost.
	Steps struct {
		Replica  scoring.ReplicaID
		KVTokens scoring.Tokens
		Since    time.Time     // of the token before the first of them
		Gap      time.Duration // mean time between two tokens
	}
	// Finished tells of the end of an attempt that gave tokens. May be lost.
	Finished struct {
		Replica  scoring.ReplicaID
		Ticket   scoring.Ticket
		Prompt   scoring.Tokens // of the leg, without what it produced before
		Produced scoring.Tokens // by the leg
		Limit    scoring.Tokens // the most it could produce; 0: that is not known
		Broken   bool           // by the engine's failure: it says nothing of how long answers are
		Cached   *int           // prompt tokens that the engine found in its cache; nil: it has not said
	}
	// Failed tells that an attempt ended before its first token, or that its place is not used, so that what was speculated
	// for it is withdrawn. May be lost: speculation ends by itself.
	Failed struct {
		Replica scoring.ReplicaID
		Ticket  scoring.Ticket
	}
)

// Prompt is one prompt: tokenized, or raw, which is a chat that the engine renders and encodes by itself.
type Prompt struct {
	Text string // as rendered; "" for token input
	IDs  []uint32
	Raw  bool // the request's chat body is the prompt; Text and IDs are empty
	// EstimatedTokens is about how long a raw prompt is, at least 1.
	EstimatedTokens int
}

// Tokens is the prompt's length as far as it is known here.
func (p *Prompt) Tokens() int {
	if p.Raw {
		return p.EstimatedTokens
	}
	return len(p.IDs)
}

// Ask is a leg that wants a place.
type Ask struct {
	Leg    int
	Prompt int // index of its prompt, which for a leg that goes on ends with what it has produced
	// Produced counts those tokens, MaxTokens those that may follow; nil: it is the request's.
	Produced  int
	MaxTokens *int
	// Excluded are lives of engines that failed this leg.
	Excluded []Exclusion
	// Lives: the engine that failed it last is not known to have failed otherwise, and no other life of it will come. Where nobody else
	// serves or may come to serve it, it is refused at once.
	Lives bool
	// Only are the replicas that it may go to while any of them serves; nil: all.
	Only []scoring.ReplicaID
	// LastFault is why the last attempt failed, nil if there was none: it decides the error if nobody else is left. Since is
	// when that was.
	LastFault *fault.Fault
	Since     time.Time
}

// Exclusion is one life of one replica or, if Process is set, of its process with all replicas that live in it.
type Exclusion struct {
	Replica     scoring.ReplicaID
	Incarnation uint64
	Process     bool
}

// Messages to a call. From its router unless said otherwise.
type (
	// Encoded brings the prompts as soon as they are known; a place follows.
	Encoded struct{ Prompts []Prompt }
	// Placed grants every leg asked for, or at least one if the submission said Begun.
	Placed struct {
		Number     uint64
		Placements []Placement
	}
	// Rejected ends the request, or declines the hedge: no leg is placed.
	Rejected struct {
		Number uint64
		Fault  *fault.Fault
	}
	// Withdrawn answers Withdraw.
	Withdrawn struct{ Number uint64 }
	// Known and Lost answer Inquire: the submission waits or is under way, or its router knows of no such thing.
	Known struct{ Number uint64 }
	Lost  struct{ Number uint64 }
	// RouterRestarted: the router has forgotten all submissions. From its new instance.
	RouterRestarted struct{}
	// TokenizerRestarted: the tokenizer has forgotten all submissions whose prompts are not known. From its new instance.
	TokenizerRestarted struct{}
	// ReplicaRestarted asks for the tickets on a replica. From its actor's new instance.
	ReplicaRestarted struct {
		Ref   *fleet.Ref
		Epoch uint64
	}
	// Leave: attempts on a life of a replica are to go on elsewhere. From that replica's actor.
	Leave struct {
		fleet.Leaving

		Ref *fleet.Ref
	}
	// Shutdown ends the request: this node goes down. From the system.
	Shutdown struct{ Fault *fault.Fault }
	// clientGone: nobody reads any more. From Response.Cancel.
	clientGone struct{}
)

// Placement is where a leg's next attempt goes: what the router reserved.
type Placement struct {
	Leg           int
	Claim         ledger.Claim
	Ref           *fleet.Ref
	Incarnation   uint64
	Epoch         uint64 // of the replica's actor that granted it
	EngineModel   string // the engine's name of the model
	Several       fleet.Several
	BlockTokens   scoring.Tokens
	LongestTokens scoring.Tokens // prompt and answer that the replica can hold at most
	MaxTokens     int            // fitted to the replica's room
	OverlapTokens scoring.Tokens // what the index says is cached there
	// FirstToken is how long the first token is predicted to take, and Step the gap between two that 99 of 100 there do not
	// exceed; nil where too little was seen of the replica.
	FirstToken, Step *time.Duration
}
