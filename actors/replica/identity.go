package replica

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"plimsoll/actors/fleet"
)

// probed holds an answer of the engine against what the model's other engines have said, and takes it.
func (a *replicaActor) probed(c actor.Context, p Probed) {
	self, root := c.Self(), c.ActorSystem().Root
	now := time.Now()
	if a.early != nil && now.Sub(a.earlySince) >= a.cfg.ProbeTimeout {
		a.deps.Accord.Enough()
	}
	v := a.deps.Accord.Hear(fleet.Word{
		ID: a.cfg.ID, Kind: a.deps.Ref.Capabilities.Kind, Asked: a.cfg.EngineModel, Status: p.Status,
	}, func() { root.Send(self, sayAgain{}) })
	p.Early, p.Foreign = v.Early, v.Foreign
	switch {
	case !v.Early:
		a.early = nil
	case a.early == nil:
		a.early, a.earlySince = &p, now
	default:
		a.early = &p
	}
	if v.Settled != nil {
		a.deps.Settled(v.Settled)
	}
	a.observe(c)
	a.perform(c, a.m.step(time.Now(), p), nil)
	if ranks := p.Status.Ranks; !v.Early && v.Foreign == "" && len(ranks) > 1 && !slices.Equal(ranks, a.ranks) {
		a.ranks = slices.Clone(ranks)
		a.deps.Ranks(a.ranks)
	}
}
