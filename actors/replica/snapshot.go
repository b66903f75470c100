package replica

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

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
	CoolingUntil time.Time // after a shed; zero time if never
	EngineModel  string
	Adapters     []string // LoRA adapters that the engine has, sorted
	EngineLoad   engine.Load
	LastError    string
	Since        time.Time // when State was entered
	// Suspect: it is silent, and takes nothing until a canary or a token shows that it lives.
	Suspect bool
	// Hung: it was silent too long, or only broke what it was sent; a canary is tried until one comes back.
	Hung bool
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

// Ref is how others know a replica: what does not change, what is published, and where to send messages. It outlives
// restarts of the actor.
type Ref struct {
	ID           scoring.ReplicaID
	Model        string
	Engine       engine.Engine
	Capabilities engine.Capabilities
	// Process names what the engine runs in: data-parallel ranks share one, and die with it. It is set before the ref is
	// handed out.
	Process string

	snapshot atomic.Pointer[Snapshot]
	place    atomic.Pointer[Place]
	feed     feedFigures
	pid      atomic.Pointer[actor.PID]
	root     *actor.RootContext
	epochs   atomic.Uint64
	pulse    Pulse

	// life and estate are the replica actor's: what must survive its restart.
	life   life
	estate []any
}

// life tells an engine's lives apart.
type life struct {
	incarnation uint64
	// since is a moment at which it may have begun: what was granted before ran on the one before.
	since    time.Time
	evidence string  // of the engine's own, "" if it shows none
	steps    *uint64 // its step counter when it last told
	// seen is a moment at which no later life had begun: when the last probe was sent that showed this life or nobody.
	seen    time.Time
	refused bool // the last of those showed nobody
}

// NewRef returns the handle of a replica whose actor is yet to be spawned.
func NewRef(id scoring.ReplicaID, model string, e engine.Engine, root *actor.RootContext) *Ref {
	r := &Ref{ID: id, Model: model, Engine: e, Capabilities: e.Capabilities(), Process: string(id), root: root}
	r.feed.base = time.Now()
	r.snapshot.Store(&Snapshot{ID: id, State: Starting})
	r.pulse.start(time.Now())
	return r
}

// Snapshot returns what the actor published last, never nil.
func (r *Ref) Snapshot() *Snapshot { return r.snapshot.Load() }

// Place returns the replica's slot in a prefix index, nil while it has none.
func (r *Ref) Place() *Place { return r.place.Load() }

// begin counts another instance of the actor and returns its number. Until its machine has published, nobody may take the
// old ledger for true.
func (r *Ref) begin() (epoch uint64) {
	epoch = r.epochs.Add(1)
	old := *r.Snapshot()
	old.Epoch, old.Recovering = epoch, epoch > 1
	r.snapshot.Store(&old)
	return epoch
}

// publish lets others know how the replica is now, and the next instance what life the engine has.
func (r *Ref) publish(m *machine) {
	r.life = m.life
	r.snapshot.Store(m.snapshot())
}

// fail tells others that the actor has failed at a message and takes nothing until its next instance has recovered. It is
// called on the actor's goroutine.
func (r *Ref) fail(message any) {
	snap := *r.Snapshot()
	snap.Recovering = true
	r.snapshot.Store(&snap)
	switch message.(type) {
	case Linger, AttemptFailed, Drain, Undrain: // whoever sent it says it once
		r.leave(message)
	}
}

// leave keeps a message for the actor's next instance. Each instance leaves two at most: an order that it has put off, and
// what it failed at.
func (r *Ref) leave(message any) { r.estate = append(r.estate, message) }

// inherit takes what the instances before have left, in order. What breaks this one too is not tried again.
func (r *Ref) inherit() []any {
	estate := r.estate
	r.estate = nil
	return estate
}

// Attach makes a spawned actor the one that Tell reaches.
func (r *Ref) Attach(pid *actor.PID) { r.pid.Store(pid) }

// Tell sends a message to the actor. Before the actor is spawned and after it has stopped the message is dropped.
func (r *Ref) Tell(message any) {
	if pid := r.pid.Load(); pid != nil {
		r.root.Send(pid, message)
	}
}
