package fleet

import (
	"slices"
	"strings"
	"sync/atomic"

	"plimsoll/scoring"
)

// Roster is where a model's replicas stand. The node's owner changes it ([Membership]); everybody reads it.
type Roster struct{ now atomic.Pointer[[]*Ref] }

// newRoster returns an empty one.
func newRoster() *Roster {
	r := &Roster{}
	r.now.Store(&[]*Ref{})
	return r
}

// Refs are the replicas, ordered by ID. Nobody writes to the slice: a change is a new one.
func (r *Roster) Refs() []*Ref { return *r.now.Load() }

// Find returns the replica of a name, nil if there is none.
func (r *Roster) Find(id scoring.ReplicaID) *Ref {
	for _, ref := range r.Refs() {
		if ref.ID == id {
			return ref
		}
	}
	return nil
}

// OtherServes says whether a replica of a fleet beside one takes new work now.
func OtherServes(refs []*Ref, than *Ref) bool {
	return slices.ContainsFunc(refs, func(ref *Ref) bool { return ref != than && ref.Snapshot().Serves() })
}

func (r *Roster) add(ref *Ref) {
	refs := append(slices.Clone(r.Refs()), ref)
	slices.SortFunc(refs, func(a, b *Ref) int { return strings.Compare(string(a.ID), string(b.ID)) })
	r.now.Store(&refs)
}

func (r *Roster) remove(ref *Ref) {
	refs := slices.DeleteFunc(slices.Clone(r.Refs()), func(other *Ref) bool { return other == ref })
	r.now.Store(&refs)
}
