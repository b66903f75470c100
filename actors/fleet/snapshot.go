package fleet

import (
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/scoring"
	"plimsoll/scoring/ledger"
	"plimsoll/scoring/prefix"
)

// Snapshot is what a replica actor publishes: immutable once stored.
type Snapshot struct {
	ID          scoring.ReplicaID
	Epoch       uint64
	Incarnation uint64
	State       State
	Recovering  bool // the actor has failed, or its new epoch still waits for announcements
	// Told: the engine has said its limits at least once; Load.Limits hold them, also while it is down.
	Told bool
	Load ledger.Load
	// Answered is the reservation answered last: Load shows what became of it and of all that its router sent before.
	Answered     scoring.Ticket
	CoolingUntil time.Time // it shed a request, and gets none until then; zero time if it does not cool down
	CoolingWhy   string    // what it said
	EngineModel  string    // the engine's name of its model, by which it is asked
	EngineNames  []string  // all that it has for the model; none of an engine that is not one of the model's
	Adapters     []string  // LoRA adapters that requests may name, sorted
	EngineLoad   engine.Load
	LastError    string
	Since        time.Time // when State was entered
	// Suspect: it is silent, and takes nothing until a canary or a token shows that it lives.
	Suspect bool
	// Hung: it was silent too long, or only broke what it was sent; a canary is tried until one comes back.
	Hung bool
	// Silent: it is down for its silence alone. It may be slow, and go on at any moment: where nobody else serves it is waited for.
	Silent bool
	// Turned is since when it takes new work, or takes none; see Serves.
	Turned time.Time
	// Life is its last sign of life, or when its present work began, as of this snapshot; the Pulse may know of a later one.
	Life time.Time
	// Seen is what work the engine was seen to do in its life; nil: none.
	Seen *Seen
	// QuotaSeats is how many seats may be booked while it ramps up; nil: all.
	QuotaSeats *int
	// PrefilledAt is when a ticket last waited for its first token, as far as that is over; the zero time if none has. While
	// Load.Reserved is not 0 some do.
	PrefilledAt time.Time
	// StepP99 is the gap between two tokens of a stream that 99 of 100 do not exceed; nil: too few were seen.
	StepP99 *time.Duration
	// Lingering are the tickets that nobody will announce to the actor's next instance: their attempts have returned, and the
	// engine does not say when it lets go.
	Lingering []ledger.Lingerer
	Held      bool       // their bounds are on hold: the engine gives no sign of life
	LeaveBy   *time.Time // draining: what still runs then is moved; nil: it may end
	Kept      bool       // draining, and staying when it is empty
	Strikes   int        // in a row
}

// Serves says whether the replica takes new work now.
func (s *Snapshot) Serves() bool { return s.State.Routable() && !s.Suspect && !s.Recovering }

// Has says whether the engine has a LoRA adapter. "" is the base model, which it always has.
func (s *Snapshot) Has(lora string) bool {
	if lora == "" {
		return true
	}
	_, found := slices.BinarySearch(s.Adapters, lora)
	return found
}

// Place is a replica's slot in a prefix index. It is immutable once stored.
type Place struct {
	Index       *prefix.Index
	Slot        prefix.Slot
	BlockTokens scoring.Tokens
	// Incarnation is the engine's life that the slot speaks of: of another one it says nothing.
	Incarnation uint64
}

// Standing is how the replica stands, in a word for people: its state, or why one that is ready takes nothing for a while.
func (s *Snapshot) Standing(now time.Time) string {
	if s.State == Ready && now.Before(s.CoolingUntil) {
		return "cooling"
	}
	return s.State.String()
}
