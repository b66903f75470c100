package ledger

import (
	"time"

	"plimsoll/scoring"
)

// Load is a snapshot of a ledger: what a replica is committed to. It is a value and shares nothing with the ledger.
type Load struct {
	Limits scoring.Limits

	BookedBlocks    scoring.Blocks // by all tickets, shared blocks once, overdraft included
	SharedBlocks    scoring.Blocks // the part of BookedBlocks that further tickets may ride on
	OverdraftBlocks scoring.Blocks // the part of BookedBlocks beyond predictions
	ForeignBlocks   scoring.Blocks // in use by others than us, as the engine's figures show
	SeatsBooked     int
	ForeignSeats    int // sequences of others that run
	ForeignWaiting  int // sequences of others that wait in the engine

	Reserved, Running, Lingering int // tickets by state

	// QueuedPrefillTokens are uncached prompt tokens of tickets without a first token.
	QueuedPrefillTokens scoring.Tokens
	// QueuedPrefillTokens2 is the sum over the same tickets of u*(hit + u/2), u uncached tokens behind hit cached ones:
	// what the quadratic part of prefill costs is proportional to it.
	QueuedPrefillTokens2 float64
	// ReservedPromptTokens are all prompt tokens of the same tickets.
	ReservedPromptTokens scoring.Tokens
	// OldestPrefill is since when the first of those tickets can be worked on: its grant, or the last first token of another
	// one if that was later; nil if there is none.
	OldestPrefill *time.Time
	// OldestPrefillTokens is that ticket's part of QueuedPrefillTokens.
	OldestPrefillTokens scoring.Tokens

	// DecodeKVTokens are prompt and produced tokens of the running sequences.
	DecodeKVTokens scoring.Tokens
	// RemainingOutputTokens is what reserved and running sequences are expected to produce yet.
	RemainingOutputTokens scoring.Tokens
}

// UsableBlocks is the capacity less foreign use.
func (ld Load) UsableBlocks() scoring.Blocks {
	return max(0, ld.Limits.KVBlocks-ld.ForeignBlocks)
}

// Overdrawn says whether nothing new may be granted because answers have outgrown their predictions: as far as they have, they
// may again, and there is no room for as much once more. While there is, the predictions were too low for some but nothing is
// short, and a replica that is nearly empty goes on.
func (ld Load) Overdrawn() bool {
	return ld.OverdraftBlocks > 0 && ld.BookedBlocks+ld.OverdraftBlocks > ld.UsableBlocks()
}

// FreeBlocks is what is usable and not booked.
func (ld Load) FreeBlocks() scoring.Blocks { return max(0, ld.UsableBlocks()-ld.BookedBlocks) }

// UsableSeats is the number of seats less foreign sequences.
func (ld Load) UsableSeats() int { return max(0, ld.Limits.Seats-ld.ForeignSeats) }

// FreeSeats is what is usable and not booked.
func (ld Load) FreeSeats() int { return max(0, ld.UsableSeats()-ld.SeatsBooked) }

// Counters count what should be rare since the ledger was made.
type Counters struct {
	Grants          uint64
	Ends            [NumEndReasons]uint64
	Refusals        [NumReasons]uint64 // of Reserve
	LateEnds        uint64             // ends of a ticket that had ended
	UnknownEnds     uint64             // ends of a ticket that was never booked, or long ago
	OverdraftBlocks uint64             // blocks booked past a prediction
	Alarms          uint64             // runs of missed samples that made foreign use expire
}
