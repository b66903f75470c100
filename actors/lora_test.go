package actors

import (
	"strconv"
	"testing"
	"testing/synctest"
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
	tokens, err := f.Tokenize(t.Context(), "poet", "default", chatRequest(text, 1).Input)
	require.NoError(t, err)
	require.NotEmpty(t, tokens[0].IDs)

	missing := chatRequest(text, 8)
	missing.Model = "painter"
	require.Equal(t, fault.ModelNotFound, fault.Of(readAll(t.Context(), f.Submit(missing), 1).err).Kind)

	require.NoError(t, f.Remove("extra"))
	require.Eventually(t, func() bool { n, _ := names(); return len(n) == 1 }, time.Minute, time.Millisecond, "nobody has it any more")
}

// A fleet may have thousands of adapters: what a request costs does not grow with their number, and the list of all of them
// not faster than they do. In a bubble: whatever else goes on in the process would count.
func TestAdaptersCostARequestNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		few, many := adaptersFleet(t, 10), adaptersFleet(t, 4000)
		synctest.Wait()
		for _, name := range []string{simmodel.Name, "lora-7", "nobody"} {
			asking := func(f *rig) float64 {
				return testing.AllocsPerRun(10, func() { f.Model(name) })
			}
			require.LessOrEqual(t, asking(many), asking(few), name)
		}
		require.Len(t, many.Models(), 4001)
		listing := testing.AllocsPerRun(1, func() { many.Models() })
		require.Less(t, listing, 4000.0, "an allocation or more for each would be a look-up for each")
		for _, listed := range many.Models() {
			asked, ok := many.Model(listed.Name)
			require.True(t, ok, listed.Name)
			require.Equal(t, listed, asked)
		}
		_, ok := many.Model("")
		require.False(t, ok)
	})
}

// adaptersFleet is a fleet of two whose engines have so many adapters.
func adaptersFleet(t *testing.T, adapters int) *rig {
	t.Helper()
	profile := sim.TinyConfig()
	for i := range adapters {
		profile.Adapters = append(profile.Adapters, "lora-"+strconv.Itoa(i))
	}
	f := startFleet(t, fleetConfig{replicas: 2, profile: profile, speed: 10})
	require.Eventually(t, func() bool { return len(f.Models()) == adapters+1 }, time.Minute, time.Millisecond)
	return f
}
