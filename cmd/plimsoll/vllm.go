package main

import (
	"context"
	"errors"
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
			ranks, err := ranksOf(ctx, vllmConfig(spec, getenv), vllmDeps(log))
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
			expanded = append(expanded, spec.withRank(rank))
		}
	}
	return expanded
}

// ranksOf asks a server for its ranks.
func ranksOf(ctx context.Context, config vllm.Config, deps vllm.Deps) ([]int, error) {
	e, err := vllm.New(config, deps)
	if err != nil {
		return nil, err
	}
	st, err := e.Probe(ctx)
	return st.Ranks, errors.Join(err, e.Close())
}
