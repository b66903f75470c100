package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStrayVariables(t *testing.T) {
	spec, err := ParseReplica("llamacpp=http://a:1,api-key-env=PLIMSOLL_ENGINE_KEY", 1)
	require.NoError(t, err)
	config := DefaultConfig()
	config.Replicas = []ReplicaSpec{spec}
	require.Equal(t, []stray{
		{"PLIMSOLL_API_KEYFILE", "PLIMSOLL_API_KEY_FILE"},
		{"PLIMSOLL_QUEUE_TIMEOU", "PLIMSOLL_QUEUE_TIMEOUT"},
		{"PLIMSOLL_REPLICAS", "PLIMSOLL_REPLICA"},
	}, strayVariables([]string{
		"HOME=/root", "PLIMSOLL_REPLICAS=sim=tiny", "PLIMSOLL_QUEUE_TIMEOU=3s", "PLIMSOLL_QUEUE_TIMEOUT=3s", "PLIMSOLL_API_KEYFILE=",
		"PLIMSOLL_CONFIG=x", "PLIMSOLL_SHARED=y", "PLIMSOLL_ENGINE_KEY=secret", "PLIMSOLLS=1",
	}, config))
}

func TestEverySettingsVariableIsKnown(t *testing.T) {
	config := DefaultConfig()
	var environ []string
	for _, s := range config.settings() {
		environ = append(environ, s.env()+"=x")
		require.Equal(t, s.name, flagOf(s.env()))
	}
	require.Empty(t, strayVariables(environ, config))
}
