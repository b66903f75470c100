package main

import (
	"log/slog"
	"math/rand/v2"
	"net"

	"plimsoll/engine/vllm"
)

// vllmConfig is the adapter's configuration of a replica.
func vllmConfig(spec ReplicaSpec, getenv func(string) (string, bool)) vllm.Config {
	config := vllm.DefaultConfig()
	config.URL, config.CapacityTokens, config.Rank = spec.Target, spec.CapacityTokens, spec.Rank
	config.Kinds = engineKinds()
	if spec.Slots != nil {
		config.Slots = *spec.Slots
	}
	if spec.APIKeyEnv != nil {
		config.APIKey, _ = getenv(*spec.APIKeyEnv)
	}
	if spec.Model != nil {
		config.Model = *spec.Model
	}
	if spec.API != nil {
		config.API = vllm.API(*spec.API)
	}
	return config
}

func vllmDeps(log *slog.Logger) vllm.Deps {
	return vllm.Deps{Dial: new(net.Dialer).DialContext, Log: log, Entropy: rand.Uint64}
}
