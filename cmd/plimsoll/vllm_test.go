package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/vllm"
)

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
