package fleet

import (
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"plimsoll/engine"
	"plimsoll/scoring"
)

// Ref is how others know a replica: what does not change, what is published, and where to send messages. It outlives
// restarts of the actor.
type Ref struct {
	ID           scoring.ReplicaID
	Model        string
	Engine       engine.Engine
	Capabilities engine.Capabilities
	// Identity says what and where the engine is: its kind, URL and rank, for operators alone; "" where there is nothing to say.
	// It is set before the ref is handed out.
	Identity string
	// Process names what the engine runs in: data-parallel ranks share one, and die with it. It is set before the ref is
	// handed out.
	Process string

	snapshot atomic.Pointer[Snapshot]
	place    atomic.Pointer[Place]
	feed     FeedFigures
	pid      atomic.Pointer[actor.PID]
	root     *actor.RootContext
	epochs   atomic.Uint64
	pulse    Pulse
}

// NewRef returns the handle of a replica whose actor is yet to be spawned.
func NewRef(id scoring.ReplicaID, model string, e engine.Engine, root *actor.RootContext) *Ref {
	r := &Ref{ID: id, Model: model, Engine: e, Capabilities: e.Capabilities(), Process: string(id), root: root}
	now := time.Now()
	r.feed.Start(now)
	r.snapshot.Store(&Snapshot{ID: id, State: Starting})
	r.pulse.Start(now)
	return r
}

// Snapshot returns what the actor published last, never nil.
func (r *Ref) Snapshot() *Snapshot { return r.snapshot.Load() }

// Place returns the replica's slot in a prefix index, nil while it has none.
func (r *Ref) Place() *Place { return r.place.Load() }

// Feed returns how the replica's part of the index does.
func (r *Ref) Feed() FeedReport { return r.feed.report() }

// Tell sends a message to the actor. Before the actor is spawned and after it has stopped the message is dropped.
func (r *Ref) Tell(message any) {
	if pid := r.pid.Load(); pid != nil {
		r.root.Send(pid, message)
	}
}

// Attach makes a spawned actor the one that Tell reaches.
func (r *Ref) Attach(pid *actor.PID) { r.pid.Store(pid) }

// Begin counts another instance of the actor and returns its number. Until its machine has published, nobody may take the
// old ledger for true. The replica's owner alone calls it, as it does Publish, Fail, SetPlace, Pulse and Figures.
func (r *Ref) Begin() (epoch uint64) {
	epoch = r.epochs.Add(1)
	old := *r.Snapshot()
	old.Epoch, old.Recovering = epoch, epoch > 1
	r.snapshot.Store(&old)
	return epoch
}

// Publish lets others know how the replica is now. Nobody changes the snapshot any more.
func (r *Ref) Publish(s *Snapshot) { r.snapshot.Store(s) }

// Fail tells others that the actor has failed and takes nothing until its next instance has recovered.
func (r *Ref) Fail() {
	snap := *r.Snapshot()
	snap.Recovering = true
	r.snapshot.Store(&snap)
}

// Answer sends a message to whoever asked the replica's actor for something.
func (r *Ref) Answer(to *actor.PID, message any) { r.root.Send(to, message) }

// SetPlace publishes the replica's slot in a prefix index; nil while it has none.
func (r *Ref) SetPlace(p *Place) { r.place.Store(p) }

// Pulse is what the replica's streams have shown.
func (r *Ref) Pulse() *Pulse { return &r.pulse }

// Figures are what the replica's feed shows to others.
func (r *Ref) Figures() *FeedFigures { return &r.feed }
