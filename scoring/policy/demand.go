package policy

import (
	"time"

	"plimsoll/scoring"
	"plimsoll/scoring/cost"
	"plimsoll/scoring/ledger"
)

// Demand is one request that looks for a replica.
type Demand struct {
	PromptTokens scoring.Tokens
	OutputTokens scoring.Tokens // expected
	// MinSequenceTokens is prompt plus max(1, min_tokens): a replica that cannot hold it can never serve the request.
	MinSequenceTokens scoring.Tokens
	Arrival           time.Time
	Seats             int    // decode slots it needs, usually 1
	LoRA              string // adapter; "" is the base model
	Session           string // "" if the client named none
	Excluded          []Exclusion

	// Urgent: it broke off in the middle of its answer, and takes the best that can take it now.
	Urgent bool
	// Following: an answer to the same request has its place in this pass. None goes before all have one, so that it takes the best
	// that can take it now.
	Following bool
	// LeastPrefillSeconds is its prefill where that is shortest, as of its arrival (see [Pass.LeastPrefillSeconds]).
	LeastPrefillSeconds float64
	// FCFSSeconds is how long a fleet that serves whoever comes first would have made it wait (see [Pass.FCFSSeconds]).
	FCFSSeconds float64
}

// Exclusion names a life of a replica on which an attempt of this request failed.
type Exclusion struct {
	ID          scoring.ReplicaID
	Incarnation uint64
}

// State is a replica's state in its life cycle, as far as routing cares.
type State uint8

// States of a replica.
const (
	Ready    State = iota // serves
	Warming               // serves a limited number of requests
	Starting              // was not reached yet
	Degraded              // answers, but must not be used: our key is refused, or its results are bad
	Draining              // finishes what it has
	Down                  // does not answer
	Gone                  // was removed

	NumStates
)

// String is the word used in explain tables.
func (s State) String() string {
	switch s {
	case Ready:
		return "ready"
	case Warming:
		return "warming"
	case Starting:
		return "starting"
	case Degraded:
		return "degraded"
	case Draining:
		return "draining"
	case Down:
		return "down"
	case Gone:
		return "gone"
	case NumStates:
	}
	return "unknown"
}

// Candidate is one replica as the router sees it, whatever the request.
type Candidate struct {
	ID          scoring.ReplicaID
	Incarnation uint64
	State       State
	// Void: its load is not known, because its owner restarted and has not heard from all live attempts.
	Void bool
	// LimitsUnknown: it was never reached and nobody said what it can hold; Load.Limits means nothing.
	LimitsUnknown bool
	WarmingSeats  int  // Warming: seats that may be booked at most
	Suspect       bool // it is silent, and may hang
	Ejected       bool // it is much slower than it was, and is left alone for a while

	Load ledger.Load // the snapshot it published last
	// The router's own bookings that Load does not show yet.
	Pending       cost.Pending
	PendingBlocks scoring.Blocks
	PendingSeats  int
	// What is kept of its free room for requests that wait, against the class that is decided for (see [Pass.Keep]).
	KeptBlocks scoring.Blocks
	KeptSeats  int

	Rates cost.Rates
	// New: it has not shown yet how fast it is, or by a pass or two that may have been those of a cold engine.
	New bool
	// Busy is the share of its time that it has spent on prefill of late, below 1.
	Busy float64
	// CoolingUntil is set after it shed a request: it gets nothing before.
	CoolingUntil *time.Time
}

// Fit is what a candidate is to one request.
type Fit struct {
	OverlapTokens scoring.Tokens // leading prompt tokens it holds in cache
	// NeedBlocks is what the claim adds to its bookings at least, taking what it holds in cache for shared.
	NeedBlocks scoring.Blocks
	// RideBlocks are the prompt's blocks that are taken for pinned there already.
	RideBlocks scoring.Blocks
	LacksLoRA  bool // the demand's adapter is not there
	LacksChat  bool // the demand is a chat for the engine to render, and this one renders none
	// Barred: it refused this request and nothing has changed there since, or has its share of such requests.
	Barred bool
}
