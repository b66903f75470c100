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

// Around is how it stands with the other replicas of a model.
type Around struct {
	Serves bool // another one takes new work now
	Rises  bool // another one can be expected to soon
}

// Around says how it stands beside a replica.
func (r *Roster) Around(than *Ref) Around {
	var around Around
	for _, ref := range r.Refs() {
		if ref != than {
			s := ref.Snapshot()
			around.Serves = around.Serves || s.Serves()
			around.Rises = around.Rises || s.rises()
		}
	}
	return around
}

// rises says whether a replica can be expected to serve soon: its first life begins, or it is about to be ready.
func (s *Snapshot) rises() bool {
	return s.State == Starting || s.State == Warming || s.State == Down && s.Incarnation == 0
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
