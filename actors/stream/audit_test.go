package stream

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/replica"
	"plimsoll/engine"
	"plimsoll/scoring"
)

// TestAudit: what the engine found in its cache is held against the prediction once an attempt, and is what others learn
// from where it came in time.
func TestAudit(t *testing.T) {
	said := func(f frame, cached int) frame {
		f.event.CachedTokens = &cached
		return f
	}
	fresh := func(r *rig) scoring.Tokens { // of the last step
		for _, e := range r.m.out {
			if to, ok := e.(toReplica); ok {
				if l, ok := to.message.(replica.Learned); ok {
					return l.FreshTokens
				}
			}
		}
		return -1
	}
	const audit = "a: cached"
	r := newRig(t, DefaultConfig(), &Request{})
	r.run(100, "a")
	with(t, r.do(said(text(1, "x"), 2)), "a: cached 2 of 1 predicted", `a: learned 3 ""`)
	require.EqualValues(t, 1, fresh(r), "the engine's word goes before the prediction")
	without(t, r.do(said(text(1, "y"), 2)), audit)
	r.do(tokens(1).finish(engine.FinishStop))
	with(t, r.do(attemptEnded{attempt: 1}), `a: learned 5 ""`)
	require.EqualValues(t, 3, fresh(r))

	late := newRig(t, DefaultConfig(), &Request{})
	late.run(100, "a")
	late.do(text(1, "x"))
	require.EqualValues(t, 2, fresh(late))
	with(t, late.do(said(tokens(1), 0).finish(engine.FinishStop)), "a: cached 0 of 1 predicted")

	several := newRig(t, DefaultConfig(), &Request{N: 2})
	several.run(100, "a", "a")
	without(t, several.do(said(text(1, "x"), 2)), audit)
}
