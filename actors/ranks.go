package actors

import (
	"errors"
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"
)

// ranks are the data-parallel ranks that were found of a replica's server, ever: one that an operator has removed does not come
// back by itself. They are the node actor's.
type ranks struct{ known map[int]bool }

// fresh returns the ranks that were not known before. The replica that has found them is the lowest itself.
func (r *ranks) fresh(found []int) []int {
	var fresh []int
	for _, rank := range found[1:] {
		if !r.known[rank] {
			fresh = append(fresh, rank)
		}
	}
	return fresh
}

// grow takes in a replica for each rank that was found and is new.
func (n *node) grow(c actor.Context, f ranksFound) {
	of := n.s.roll.members[f.ref]
	if of == nil {
		return // it is gone
	}
	id := slog.String("replica", string(f.ref.ID))
	fresh := of.ranks.fresh(f.ranks)
	if len(fresh) == 0 || of.parts.Rank == nil {
		return
	}
	n.s.deps.Log.Info("data-parallel ranks found", id, slog.Any("ranks", f.ranks))
	for _, rank := range fresh {
		if err := n.addRank(c, of, rank); err != nil {
			n.s.deps.Log.Warn("a data-parallel rank is not used", id, slog.Int("rank", rank), slog.Any("error", err))
		}
		of.ranks.known[rank] = true // not before: an instance that fails here leaves the others to the next one
	}
}

func (n *node) addRank(c actor.Context, of *member, rank int) error {
	parts, err := of.parts.Rank(rank)
	if err != nil {
		return err
	}
	if f := n.add(c, of.model, parts); f != nil {
		return errors.Join(f, parts.Engine.Close())
	}
	return nil
}
