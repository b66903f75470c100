package main

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func specOf(t *testing.T, text string) ReplicaSpec {
	t.Helper()
	spec, err := ParseReplica(text, 1)
	require.NoError(t, err)
	return spec
}

// A default name goes to clients, in headers and reports: it tells the kind, the same at every start, and no address.
func TestADefaultNameTellsTheKindAndNoAddress(t *testing.T) {
	spec := specOf(t, "vllm=http://10.0.0.7:8001")
	require.Regexp(t, regexp.MustCompile(`^vllm-[a-z2-7]{6}$`), spec.Name)
	require.Equal(t, "vllm-b2sah7", spec.Name, "it stays, or every dashboard changes with a new version")
	for _, same := range []string{"vllm=http://10.0.0.7:8001/", "vllm=http://10.0.0.7:8001/v1", "vllm=http://10.0.0.7:8001,slots=4"} {
		require.Equal(t, spec.Name, specOf(t, same).Name, same)
	}
	names := map[string]bool{spec.Name: true}
	for _, other := range []string{
		"vllm=http://10.0.0.8:8001", "vllm=http://10.0.0.7:8002", "vllm=https://10.0.0.7:8001", "vllm=http://10.0.0.7:8001/x",
		"vllm=http://10.0.0.7:8001,rank=0", "vllm=http://10.0.0.7:8001,rank=1", "llamacpp=http://10.0.0.7:8001",
	} {
		names[specOf(t, other).Name] = true
	}
	require.Len(t, names, 8, "kind, place and rank tell replicas apart")
}

func TestIdentities(t *testing.T) {
	for text, want := range map[string]string{
		"vllm=http://GPU.:80/":           "vllm=http://gpu:80",
		"vllm=https://gpu/x/,rank=3":     "vllm=https://gpu:443/x#3",
		"llamacpp=http://127.0.0.1:8001": "llamacpp=http://localhost:8001",
		"llamacpp=http://localhost:8001": "llamacpp=http://localhost:8001",
		"llamacpp=http://[::1]:8001":     "llamacpp=http://localhost:8001",
		"llamacpp=http://127.0.0.2:8001": "llamacpp=http://127.0.0.2:8001",
		"llamacpp=http://[2001:DB8::1]":  "llamacpp=http://[2001:db8::1]:80",
	} {
		require.Equal(t, want, specOf(t, text).identity(), text)
	}
}
