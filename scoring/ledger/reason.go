package ledger

// Reason says why a claim is not granted.
type Reason uint8

// Reasons, in the order in which they are looked for.
const (
	None            Reason = iota // granted
	Closed                        // the replica's owner takes nothing new: draining, recovering, not yet ready
	Duplicate                     // the ticket is booked, or was a moment ago
	SequenceTooLong               // the sequence may become longer than the replica allows
	TooLarge                      // more blocks or seats than the replica has when empty
	Overdraft                     // running sequences have outgrown their prediction
	NoSeats                       // no decode slot is free
	NoBlocks                      // not enough KV blocks are free

	NumReasons
)

// String is the word used in logs, metrics and explain tables.
func (r Reason) String() string {
	switch r {
	case None:
		return "granted"
	case Closed:
		return "closed"
	case Duplicate:
		return "duplicate"
	case SequenceTooLong:
		return "sequence too long"
	case TooLarge:
		return "too large"
	case Overdraft:
		return "overdraft"
	case NoSeats:
		return "no seats"
	case NoBlocks:
		return "no blocks"
	case NumReasons:
	}
	return "unknown"
}

// State is where a booked ticket stands.
type State uint8

// States of a ticket.
const (
	Reserved  State = iota // granted; its prefill is queued or runs
	Running                // its first token came
	Lingering              // nobody waits for it any more; the engine may still hold its blocks
	Ended                  // not booked: never granted, or over

	NumStates
)

// String is the word used in logs.
func (s State) String() string {
	switch s {
	case Reserved:
		return "reserved"
	case Running:
		return "running"
	case Lingering:
		return "lingering"
	case Ended:
		return "ended"
	case NumStates:
	}
	return "unknown"
}

// EndReason says how a ticket ended.
type EndReason uint8

// Ways to end.
const (
	Finished  EndReason = iota // the engine finished it
	Failed                     // the attempt failed and the engine let go
	Cancelled                  // the client left and the engine let go
	Refused                    // the engine did not take it
	Expired                    // it lingered until the engine's figures showed it gone, or its bound passed
	Lost                       // the engine's process is gone, and its KV with it

	NumEndReasons
)

// String is the word used in logs and metrics.
func (r EndReason) String() string {
	switch r {
	case Finished:
		return "finished"
	case Failed:
		return "failed"
	case Cancelled:
		return "cancelled"
	case Refused:
		return "refused"
	case Expired:
		return "expired"
	case Lost:
		return "lost"
	case NumEndReasons:
	}
	return "unknown"
}
