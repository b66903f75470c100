package actors

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/fleet"
	"plimsoll/actors/meter"
	"plimsoll/actors/replica"
	"plimsoll/scoring"
)

// member is a replica at run time: its handle, and what its actor is spawned from.
type member struct {
	ref    *fleet.Ref
	memory *replica.Memory
	parts  Replica
	actor  string // its actor's name below node; never used again
	meter  *meter.Registered
	ranks  *ranks
}

// roster is a model's replicas, ordered by ID. It is immutable: a change is a new one.
type roster struct {
	members []member
	refs    []*fleet.Ref
}

// replicaSet is where a model's roster stands. The system changes it under its lock; everybody reads it.
type replicaSet struct{ now atomic.Pointer[roster] }

func newReplicaSet(members []member) *replicaSet {
	f := &replicaSet{}
	f.set(members)
	return f
}

func (f *replicaSet) set(members []member) {
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(string(a.ref.ID), string(b.ref.ID)) })
	r := &roster{members: members, refs: make([]*fleet.Ref, len(members))}
	for i, m := range members {
		r.refs[i] = m.ref
	}
	f.now.Store(r)
}

func (f *replicaSet) members() []member { return f.now.Load().members }

// refs are the handles, ordered by ID.
func (f *replicaSet) refs() []*fleet.Ref { return f.now.Load().refs }

func (f *replicaSet) find(id scoring.ReplicaID) (member, bool) {
	for _, m := range f.members() {
		if m.ref.ID == id {
			return m, true
		}
	}
	return member{}, false
}

// other says whether a replica beside one is so.
func (f *replicaSet) other(than *fleet.Ref, is func(*fleet.Snapshot) bool) bool {
	return slices.ContainsFunc(f.refs(), func(ref *fleet.Ref) bool { return ref != than && is(ref.Snapshot()) })
}

// serves says whether a replica takes new work now.
func serves(s *fleet.Snapshot) bool { return s.State.Routable() && !s.Suspect && !s.Recovering }

// rises says whether a replica can be expected to serve soon: its first life begins, or it is about to be ready.
func rises(s *fleet.Snapshot) bool {
	return s.State == fleet.Starting || s.State == fleet.Warming || s.State == fleet.Down && s.Incarnation == 0
}

// newMember gives a replica a handle, an actor's name and its metrics.
func (s *System) newMember(model string, parts Replica) member {
	s.replicas++
	ref := fleet.NewRef(parts.Config.ID, model, parts.Engine, s.actors.Root)
	ref.Process = parts.Config.Process
	return member{
		ref: ref, memory: replica.NewMemory(),
		parts: parts, actor: "replica-" + strconv.Itoa(s.replicas),
		meter: s.deps.Meter.Register(string(parts.Config.ID), model),
		ranks: &ranks{known: map[int]bool{}},
	}
}

// Add takes a replica into a running model's fleet. Its engine need not be up yet; the system closes it at the end, unless
// Add fails. The error is a [*fault.Fault].
func (s *System) Add(modelName string, parts Replica) error {
	m := s.model(modelName)
	if m == nil {
		return fault.New(fault.ModelNotFound, "the model %q does not exist", modelName)
	}
	if err := parts.Config.Validate(); err != nil {
		return &fault.Fault{Kind: fault.BadInput, Message: err.Error(), Err: err}
	}
	s.changes.Lock()
	defer s.changes.Unlock()
	if s.closing.Load() {
		return fault.New(fault.ShuttingDown, "this node is shutting down")
	}
	for _, other := range s.models {
		if _, taken := other.fleet.find(parts.Config.ID); taken {
			return fault.New(fault.BadInput, "there is a replica %q already: give this one another name", parts.Config.ID)
		}
	}
	m.accord.Join(parts.Config.ID)
	added := s.newMember(modelName, parts)
	m.fleet.set(append(slices.Clone(m.fleet.members()), added))
	s.actors.Root.Send(s.node, spawnReplica{m, added})
	return nil
}

// Remove drains a replica and then forgets it: it gets nothing new, what still runs after Config.DrainWait is moved to other
// replicas, and it is gone when its last request has ended. It returns at once; the error is a [*fault.Fault].
func (s *System) Remove(id scoring.ReplicaID) error {
	leave := time.Now().Add(s.cfg.DrainWait)
	return s.order(id, fleet.Drain{Leave: &leave})
}

// DrainReplica empties a replica and keeps it, until UndrainReplica or Remove: it gets nothing new, and what still runs after wait is moved
// to other replicas. It returns at once; the error is a [*fault.Fault].
func (s *System) DrainReplica(id scoring.ReplicaID, wait time.Duration) error {
	leave := time.Now().Add(wait)
	return s.order(id, fleet.Drain{Leave: &leave, Keep: true})
}

// UndrainReplica takes a DrainReplica back. The error is a [*fault.Fault].
func (s *System) UndrainReplica(id scoring.ReplicaID) error { return s.order(id, fleet.Undrain{}) }

// order tells a replica's actor what an operator wants.
func (s *System) order(id scoring.ReplicaID, what any) error {
	for _, m := range s.models {
		if found, ok := m.fleet.find(id); ok {
			found.ref.Tell(what)
			return nil
		}
	}
	return fault.New(fault.NotFound, "there is no replica %q", id)
}

// forget takes a drained replica out of its fleet, and its metrics with it: its name is free.
func (s *System) forget(m *model, gone member) {
	s.changes.Lock()
	defer s.changes.Unlock()
	m.fleet.set(slices.DeleteFunc(slices.Clone(m.fleet.members()), func(other member) bool { return other.ref == gone.ref }))
	m.accord.Leave(gone.ref.ID)
	gone.meter.Close()
}
