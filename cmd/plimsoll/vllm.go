package main

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"

	"plimsoll/engine/vllm"
)

// vllmConfig is the adapter's configuration of a replica.
func vllmConfig(spec ReplicaSpec, getenv func(string) (string, bool)) vllm.Config {
	config := vllm.DefaultConfig()
	config.URL, config.CapacityTokens, config.Rank = spec.Target, spec.CapacityTokens, spec.Rank
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

// expandRanks puts a replica for each data-parallel rank in the place of a vLLM server that has several. One that does not
// answer now is taken for one rank.
func expandRanks(ctx context.Context, specs []ReplicaSpec, getenv func(string) (string, bool), log *slog.Logger) []ReplicaSpec {
	ctx, cancel := context.WithTimeout(ctx, nameWait)
	defer cancel()
	found := make([]chan []int, len(specs))
	for i, spec := range specs {
		found[i] = make(chan []int, 1)
		if spec.Kind != vllm.Kind || spec.Rank != nil {
			found[i] <- nil
			continue
		}
		go func() {
			ranks, err := vllm.Ranks(ctx, vllmConfig(spec, getenv), vllmDeps(log))
			if err != nil {
				log.Warn("the engine cannot be asked for its data-parallel ranks: only its first is used; give each a --replica with rank=N to be sure",
					slog.String("replica", spec.Name), slog.Any("error", err))
			}
			found[i] <- ranks
		}()
	}
	expanded := make([]ReplicaSpec, 0, len(specs))
	for i, spec := range specs {
		ranks := <-found[i]
		if len(ranks) < 2 {
			expanded = append(expanded, spec)
			continue
		}
		for _, rank := range ranks {
			of := spec
			of.Name, of.Rank = spec.Name+"-dp"+strconv.Itoa(rank), &rank
			expanded = append(expanded, of)
		}
	}
	return expanded
}
