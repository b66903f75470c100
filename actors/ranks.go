package actors

import (
	"errors"
	"log/slog"
)

// ranks are the data-parallel ranks that were found of a replica's server, ever: one that an operator has removed does not come
// back by itself. They are the node actor's.
type ranks struct{ known map[int]bool }

// fresh returns the ranks that were not known before. The replica that has found them is the lowest itself.
func (r *ranks) fresh(found []int) []int {
	var fresh []int
	for i, rank := range found {
		if !r.known[rank] && i > 0 {
			fresh = append(fresh, rank)
		}
		r.known[rank] = true
	}
	return fresh
}

// grow takes in a replica for each rank that was found and is new.
func (s *System) grow(f ranksFound) {
	id := slog.String("replica", string(f.member.ref.ID))
	fresh := f.member.ranks.fresh(f.ranks)
	if len(fresh) == 0 || f.member.parts.Rank == nil {
		return
	}
	s.deps.Log.Info("data-parallel ranks found", id, slog.Any("ranks", f.ranks))
	for _, rank := range fresh {
		parts, err := f.member.parts.Rank(rank)
		if err == nil {
			if err = s.Add(f.model.Router.Model, parts); err != nil {
				err = errors.Join(err, parts.Engine.Close())
			}
		}
		if err != nil {
			s.deps.Log.Warn("a data-parallel rank is not used", id, slog.Int("rank", rank), slog.Any("error", err))
		}
	}
}
