package fleet

import (
	"slices"

	"plimsoll/actors/fault"
	"plimsoll/scoring"
)

// Membership decides who is in a node's fleets, and has operators' orders carried out: an order that was accepted waits for its
// replica's actor, whatever becomes of the actors meanwhile. The node's actor owns it, and it outlives that actor's
// instances. It is pure: what is to be done it tells the shell, after it has noted what it is about.
//
//	Add ──▶ in its model's roster ──Spawn──▶ actor runs ◀──Tell── Drain, Undrain
//	           ▲                                │ Gone: drained
//	           │ Ended with the node            ▼
//	        Begin, a new instance         out of the roster (Forget, Stop) ──Ended──▶ Close
//
// What an operator has ordered last is told to every new actor of a replica, because the message may have been lost with
// the one before. Replicas take an order twice as once.
type Membership struct {
	models  []string
	rosters map[string]*Roster
	members map[scoring.ReplicaID]*member
	leaving []*Ref // out of their fleets; their actors have not ended
	begun   bool   // the node's actor runs
}

type member struct {
	ref     *Ref
	spawned bool // there is an actor that takes messages
	order   any  // the last Drain or Undrain; nil: there was none
}

// Shell does what a Membership decides, in the order in which it is called.
type Shell interface {
	// Spawn starts a replica's actor. What it is told from now on reaches it.
	Spawn(ref *Ref)
	// Tell gives a replica's actor a Drain or an Undrain.
	Tell(ref *Ref, order any)
	// Forget is about a replica that is out of its fleet: its name is free.
	Forget(ref *Ref)
	// Stop ends the actor of a replica that is out of its fleet. Ended follows.
	Stop(ref *Ref)
	// Close ends the engine of a replica that is out of its fleet and whose actor has ended.
	Close(ref *Ref)
}

// NewMembership returns empty fleets of models.
func NewMembership(models ...string) *Membership {
	m := &Membership{models: models, rosters: map[string]*Roster{}, members: map[scoring.ReplicaID]*member{}}
	for _, model := range models {
		m.rosters[model] = newRoster()
	}
	return m
}

// Roster is a model's fleet; nil if there is no such model. Everybody may ask, and keep it.
func (m *Membership) Roster(model string) *Roster { return m.rosters[model] }

// Begin says that an instance of the node's actor begins, and that no replica's actor runs.
func (m *Membership) Begin(to Shell) {
	m.begun = true
	for _, ref := range m.leaving { // their actors have ended with the instance before
		m.ended(ref, to)
	}
	for _, model := range m.models {
		for _, ref := range m.rosters[model].Refs() {
			m.spawn(m.members[ref.ID], to)
		}
	}
}

func (m *Membership) spawn(mem *member, to Shell) {
	mem.spawned = true
	to.Spawn(mem.ref)
	if mem.order != nil {
		to.Tell(mem.ref, mem.order)
	}
}

// Check says why a replica of this name can't be added, nil if it can.
func (m *Membership) Check(model string, id scoring.ReplicaID) *fault.Fault {
	if m.rosters[model] == nil {
		return fault.New(fault.ModelNotFound, "the model %q does not exist", model)
	}
	if m.members[id] != nil {
		return fault.New(fault.BadInput, "there is a replica %q already: give this one another name", id)
	}
	return nil
}

// Add takes a replica into its model's fleet; not if Check would complain.
func (m *Membership) Add(ref *Ref, to Shell) *fault.Fault {
	if f := m.Check(ref.Model, ref.ID); f != nil {
		return f
	}
	mem := &member{ref: ref}
	m.members[ref.ID] = mem
	m.rosters[ref.Model].add(ref)
	if m.begun {
		m.spawn(mem, to)
	}
	return nil
}

// Order takes what an operator wants of a replica: a Drain or an Undrain. One that is to leave stays no more.
func (m *Membership) Order(id scoring.ReplicaID, order any, to Shell) *fault.Fault {
	mem := m.members[id]
	if mem == nil {
		return fault.New(fault.NotFound, "there is no replica %q", id)
	}
	if removes(mem.order) && !removes(order) {
		return fault.New(fault.BadInput, "the replica %q is being removed: add it again when it is gone", id)
	}
	mem.order = order
	if mem.spawned {
		to.Tell(mem.ref, order)
	}
	return nil
}

func removes(order any) bool {
	d, ok := order.(Drain)
	return ok && !d.Keep
}

// Gone says that a replica is drained and does not stay; maybe more than once.
func (m *Membership) Gone(ref *Ref, to Shell) {
	mem := m.members[ref.ID]
	if mem == nil || mem.ref != ref {
		return
	}
	delete(m.members, ref.ID)
	m.rosters[ref.Model].remove(ref)
	m.leaving = append(m.leaving, ref)
	to.Forget(ref)
	to.Stop(ref)
}

// Ended says that a replica's actor has: for good, or with the node's.
func (m *Membership) Ended(ref *Ref, to Shell) {
	if mem := m.members[ref.ID]; mem != nil && mem.ref == ref {
		mem.spawned = false
		return
	}
	m.ended(ref, to)
}

func (m *Membership) ended(ref *Ref, to Shell) {
	if at := slices.Index(m.leaving, ref); at >= 0 {
		m.leaving = slices.Delete(slices.Clone(m.leaving), at, at+1)
		to.Close(ref)
	}
}
