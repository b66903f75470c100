package main

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"

	"plimsoll/engine"
	"plimsoll/engine/llamacpp"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/live"
	"plimsoll/engine/vllm"
	"plimsoll/tokenizer/simmodel"
)

// simulatedReplicas is how many replicas are served where the configuration names none.
const simulatedReplicas = 4

// engineKinds lists the words that may stand before = in --replica.
func engineKinds() []string { return []string{llamacpp.Kind, vllm.Kind, kindSim} }

// simProfiles lists the profiles of simulated replicas, the default first.
func simProfiles() []string { return sim.Profiles() }

// replicaEngine is an engine with what was said of it.
type replicaEngine struct {
	ReplicaSpec
	engine engine.Engine
}

// toServe returns what is to be served beside what is started: the configured replicas, else the simulated ones.
func toServe(c Config) []ReplicaSpec {
	if len(c.Replicas)+len(c.Launches) > 0 {
		return c.Replicas
	}
	specs := make([]ReplicaSpec, simulatedReplicas)
	for i := range specs {
		specs[i] = ReplicaSpec{Kind: kindSim, Target: simProfiles()[0], Name: "sim-" + strconv.Itoa(i+1)}
	}
	return specs
}

// openEngines makes an engine for each spec; none of them is connected to. source is the text of simulated ones.
func openEngines(
	specs []ReplicaSpec, source sim.TokenSource, getenv func(string) (string, bool), log *slog.Logger,
) ([]replicaEngine, error) {
	if err := checkBinds(specs); err != nil {
		return nil, err
	}
	replicas := make([]replicaEngine, 0, len(specs))
	for i, spec := range specs {
		e, err := openEngine(spec, uint64(i)+1, source, getenv, log) //nolint:gosec // an index is not negative
		if err != nil {
			return nil, errors.Join(fmt.Errorf("replica %s: %w", spec.Name, err), closeEngines(replicas))
		}
		replicas = append(replicas, replicaEngine{spec, e})
	}
	return replicas, nil
}

func openEngine(
	spec ReplicaSpec, seed uint64, source sim.TokenSource, getenv func(string) (string, bool), log *slog.Logger,
) (engine.Engine, error) {
	switch spec.Kind {
	case kindSim:
		return openSim(spec, seed, source)
	case vllm.Kind:
		config := vllmConfig(spec, getenv)
		var err error
		if config.Events, config.Publisher, err = spec.publisher(); err != nil {
			return nil, err
		}
		return vllm.New(config, vllmDeps(log))
	}
	config := llamacpp.DefaultConfig()
	config.URL, config.CapacityTokens, config.Slots = spec.Target, spec.CapacityTokens, spec.Slots
	config.Kinds = engineKinds()
	if spec.APIKeyEnv != nil {
		config.APIKey, _ = getenv(*spec.APIKeyEnv)
	}
	return llamacpp.New(config, llamacpp.Deps{Dial: new(net.Dialer).DialContext, Log: log})
}

// openSim starts a simulated engine. Engines of different seeds hash their blocks differently, as real ones do.
func openSim(spec ReplicaSpec, seed uint64, source sim.TokenSource) (engine.Engine, error) {
	profile, err := simProfile(spec)
	if err != nil {
		return nil, err
	}
	profile.HashSeed = seed
	config := live.DefaultConfig()
	config.Sim = profile
	return live.New(config, live.Deps{Source: source, Entropy: rand.Uint64})
}

// simProfile is the profile that a spec names, with the capacity and the slots that it says.
func simProfile(spec ReplicaSpec) (sim.Config, error) {
	profile, err := sim.Profile(spec.Target)
	if err != nil {
		return sim.Config{}, err
	}
	if spec.CapacityTokens != nil {
		profile.KVBlocks = *spec.CapacityTokens/profile.BlockTokens + 1 // the null block holds nothing
	}
	if spec.Slots != nil {
		profile.Seats = *spec.Slots
		profile.BatchTokens = max(profile.BatchTokens, profile.Seats) // each running request gets its token in every pass
	}
	return profile, nil
}

func closeEngines(replicas []replicaEngine) error {
	errs := make([]error, 0, len(replicas))
	for _, r := range replicas {
		errs = append(errs, r.engine.Close())
	}
	return errors.Join(errs...)
}

// innerName is what the model is called inside the node, and by clients as long as no engine has said its name: --model, else
// the name of the tokenizer's folder.
func innerName(c Config) string {
	if c.Model != nil {
		return *c.Model
	}
	return fallbackName(c)
}

// fallbackName is the name of the tokenizer's folder.
func fallbackName(c Config) string {
	if c.TokenizerDir == nil {
		return simmodel.Name
	}
	dir, err := filepath.Abs(*c.TokenizerDir)
	if err != nil {
		dir = *c.TokenizerDir
	}
	return filepath.Base(dir)
}
