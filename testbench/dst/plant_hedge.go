package dst

import (
	"slices"

	"plimsoll/actors/stream"
)

// racing leaves the slower of two attempts alone.
type racing struct{ *call }

// AbortAttempt implements stream.Shell.
func (r racing) AbortAttempt(id uint64) {
	if r.race.attempt == nil || r.race.over || r.stepping != nil {
		r.call.AbortAttempt(id)
	}
}

func hedgePlants() []Plant {
	hedged := func(alter func(sub *stream.Submit)) func(f *front, message any) any {
		return func(_ *front, message any) any {
			sub, ok := message.(*stream.Submit)
			if !ok || !sub.Hedge {
				return message
			}
			altered := *sub
			altered.Legs = slices.Clone(sub.Legs)
			alter(&altered)
			return &altered
		}
	}
	return []Plant{
		{Name: "the slower of two attempts goes on", Catches: Amplification, stream: func(c *call) stream.Shell { return racing{c} }},
		{Name: "hedges without a common budget", Catches: Amplification, ownBudgets: true},
		{Name: "a hedge that waits its turn", Catches: Hold, toRouter: hedged(func(sub *stream.Submit) { sub.Hedge = false })},
		{Name: "a hedge on the replica that is slow", Catches: Exclusion, toRouter: hedged(func(sub *stream.Submit) { sub.Legs[0].Excluded = nil })},
	}
}
