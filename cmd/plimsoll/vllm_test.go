package main

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/enginetest"
	"plimsoll/engine/vllm"
)

func TestEachRankOfAServerBecomesAReplica(t *testing.T) {
	const info = `vllm:cache_config_info{engine="0",block_size="16"} 1` + "\n"
	serve := func(metrics string) string {
		return enginetest.Site{
			"/health": enginetest.Saying(200, ""), "/version": enginetest.Saying(404, ""), "/metrics": enginetest.Saying(200, metrics),
			"/v1/models": enginetest.Saying(200, `{"data":[{"id":"m","max_model_len":64}]}`),
		}.Serve(t)
	}
	two := serve(info + `vllm:cache_config_info{engine="1",block_size="16"} 1` + "\n")
	one := serve(info)
	rank := 1
	specs := []ReplicaSpec{
		{Kind: kindSim, Target: "tiny", Name: "s"},
		{Kind: vllm.Kind, Target: two, Name: "a"},
		{Kind: vllm.Kind, Target: two, Name: "b", Rank: &rank},
		{Kind: vllm.Kind, Target: one, Name: "c"},
		{Kind: vllm.Kind, Target: enginetest.ClosedPort(t), Name: "down"},
	}
	none := func(string) (string, bool) { return "", false }
	var names []string
	var ranks []int
	for _, spec := range expandRanks(t.Context(), specs, none, slog.New(slog.DiscardHandler)) {
		names = append(names, spec.Name)
		if spec.Rank != nil {
			ranks = append(ranks, *spec.Rank)
		}
	}
	require.Equal(t, []string{"s", "a-dp0", "a-dp1", "b", "c", "down"}, names)
	require.Equal(t, []int{0, 1, 1}, ranks)
}

func TestAVLLMReplicaIsConfiguredAsSpecified(t *testing.T) {
	spec, err := ParseReplica("vllm=http://a:1,slots=16,capacity-tokens=640,api-key-env=K,model=tiny,api=auto,rank=3", 1)
	require.NoError(t, err)
	got := vllmConfig(spec, func(name string) (string, bool) { return "secret of " + name, true })
	want := vllm.DefaultConfig()
	capacity, rank := 640, 3
	want.Kinds = engineKinds()
	want.URL, want.APIKey, want.Model, want.API = "http://a:1", "secret of K", "tiny", vllm.APIAuto
	want.Slots, want.CapacityTokens, want.Rank = 16, &capacity, &rank
	require.Equal(t, want, got)
	plain, err := ParseReplica("vllm=http://a:1", 1)
	require.NoError(t, err)
	want = vllm.DefaultConfig()
	want.URL, want.Kinds = "http://a:1", engineKinds()
	require.Equal(t, want, vllmConfig(plain, nil))
}
