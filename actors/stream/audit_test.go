package stream

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
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
				if l, ok := to.message.(fleet.Learned); ok {
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

// TestMoreCachedThanThereIsIsNotSaid: a figure that cannot be is no word of the engine: neither clients nor what is learned
// and audited see it, and one that can be still counts.
func TestMoreCachedThanThereIsIsNotSaid(t *testing.T) {
	r := newRig(t, DefaultConfig(), &Request{})
	r.run(100, "a")
	without(t, r.do(text(1, "x").cached(4)), "a: cached")
	require.Equal(t, Usage{PromptTokens: 3, CompletionTokens: 1}, r.m.usage())
	with(t, r.do(text(1, "y").cached(3)), "a: cached 3 of 1 predicted")
	require.Equal(t, Usage{PromptTokens: 3, CompletionTokens: 2, CachedTokens: 3, CachedKnown: true}, r.m.usage())

	r.do(attemptEnded{1, failure(engine.Broken)})
	r.run(100, "b")
	with(t, r.do(text(2, "z").cached(5)), "b: cached 5 of 1 predicted") // of the prompt and what followed it
}

// TestMoreCachedThanAnEngineRendered: of a prompt that the engine renders, its own word for the length is what counts.
func TestMoreCachedThanAnEngineRendered(t *testing.T) {
	for name, want := range map[string]struct {
		prompt *int
		cached int
		known  bool
	}{
		"less": {of(31), 16, true}, "all": {of(31), 31, true}, "more": {of(31), 32, false}, "some of who knows how many": {nil, 16, false},
		"some of more than it can hold": {of(1001), 16, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := rawRig(t, &Request{})
			r.run(3, "a")
			f := said(1, idNone, "!").cached(want.cached).finish(engine.FinishStop)
			f.event.PromptTokens = want.prompt
			r.do(f)
			require.Equal(t, want.known, r.m.usage().CachedKnown)
		})
	}
}
