package actors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/engine/sim"
	"plimsoll/tokenizer/simmodel"
)

// An adapter that an engine has is a model that clients may name. Only replicas that have it serve it, and what they cache
// for it is not shared with the base model.
func TestAdaptersAreModels(t *testing.T) {
	f := startFleet(t, fleetConfig{replicas: 2, profile: sim.TinyConfig(), speed: 10})
	profile := sim.TinyConfig()
	profile.Adapters = []string{"poet", simmodel.Name} // a name that a served model has is that model's
	require.NoError(t, f.Add(simmodel.Name, f.another(t, "extra", profile, 10)))
	names := func() (names, parents []string) {
		for _, m := range f.Models() {
			names, parents = append(names, m.Name), append(parents, m.Parent)
		}
		return names, parents
	}
	require.Eventually(t, func() bool { n, _ := names(); return len(n) == 2 }, time.Minute, time.Millisecond)
	listed, parents := names()
	require.Equal(t, []string{simmodel.Name, "poet"}, listed)
	require.Equal(t, []string{"", simmodel.Name}, parents)

	const text = "a text of more than one block, told again and again, that whoever reads it first will hold in the cache"
	ask := func(model string) answer {
		req := chatRequest(text, 8)
		req.Model = model
		response := f.Submit(req)
		a := readAll(t.Context(), response, 1)
		require.NoError(t, a.err)
		if model == "poet" {
			require.Equal(t, []string{"extra"}, response.Replicas())
		}
		return a
	}
	require.Zero(t, ask("poet").usage.CachedTokens)
	require.Positive(t, ask("poet").usage.CachedTokens)
	for range 6 {
		ask("poet")
	}
	tokens, err := f.Tokenize(t.Context(), "poet", chatRequest(text, 1).Input)
	require.NoError(t, err)
	require.NotEmpty(t, tokens[0].IDs)

	missing := chatRequest(text, 8)
	missing.Model = "painter"
	require.Equal(t, fault.ModelNotFound, fault.Of(readAll(t.Context(), f.Submit(missing), 1).err).Kind)

	require.NoError(t, f.Remove("extra"))
	require.Eventually(t, func() bool { n, _ := names(); return len(n) == 1 }, time.Minute, time.Millisecond, "nobody has it any more")
}
