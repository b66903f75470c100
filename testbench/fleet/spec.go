package fleet

import (
	"fmt"
	"strings"
	"time"

	"plimsoll/engine/sim"
)

// Spec is a fleet in words.
type Spec struct {
	Replicas    int    `json:"replicas"`
	Profile     string `json:"profile"` // of engine/sim
	BlockTokens int    `json:"block_tokens"`
	KVTokens    *int   `json:"kv_tokens,omitempty"` // that the cache of each holds; nil: the profile's
	Seats       *int   `json:"seats,omitempty"`     // of each; nil: the profile's
	// Unequal: every second replica works at a third of the speed, with half the cache.
	Unequal bool `json:"unequal,omitempty"`
}

// DefaultSpec is eight equal replicas. Blocks of 64 tokens take a third of the time that the profiles' 16 take to simulate.
func DefaultSpec() Spec { return Spec{Replicas: 8, Profile: sim.ProfileH100x8B, BlockTokens: 64} }

// Names of the fleets that policies are compared on.
const (
	SmallFleet   = "8"
	LargeFleet   = "32"
	TightFleet   = "8-tight"
	UnequalFleet = "8-unequal"
)

// tightTokens is the cache of a replica of a tight fleet: little more than the longest request needs.
const tightTokens = 150_000

// Names lists the fleets that have a name.
func Names() []string { return []string{SmallFleet, LargeFleet, TightFleet, UnequalFleet} }

// Named returns a fleet by its name.
func Named(name string) (Spec, error) {
	s := DefaultSpec()
	switch name {
	case SmallFleet:
	case LargeFleet:
		s.Replicas = 32
	case TightFleet:
		s.KVTokens = new(tightTokens)
	case UnequalFleet:
		s.Unequal = true
	default:
		return Spec{}, fmt.Errorf("fleet: unknown fleet %q: choose one of %s", name, strings.Join(Names(), ", "))
	}
	return s, nil
}

// What the slower half of an unequal fleet has of the others' speed and cache.
const (
	slowSpeed = 1.0 / 3
	slowCache = 1.0 / 2
)

// Engines are the simulated engines of the fleet.
func (s Spec) Engines() ([]sim.Config, error) {
	cfg, err := sim.Profile(s.Profile)
	if err != nil {
		return nil, err
	}
	if s.Replicas < 1 || s.Replicas > replicasMax {
		return nil, fmt.Errorf("fleet: %d replicas: 1 to %d can be simulated", s.Replicas, replicasMax)
	}
	if s.BlockTokens < 1 {
		return nil, fmt.Errorf("fleet: blocks of %d tokens", s.BlockTokens)
	}
	tokens := cfg.UsableBlocks() * cfg.BlockTokens
	if s.KVTokens != nil {
		tokens = *s.KVTokens
	}
	if s.Seats != nil {
		cfg.Seats = *s.Seats
		cfg.BatchTokens = max(cfg.BatchTokens, cfg.Seats)
	}
	cfg.BlockTokens = s.BlockTokens
	engines := make([]sim.Config, s.Replicas)
	for i := range engines {
		e := cfg
		e.HashSeed = uint64(i + 1) //nolint:gosec // a small number
		share := 1.0
		if s.Unequal && i%2 == 1 {
			share = slowCache
			e.Timing = slowed(e.Timing, slowSpeed)
		}
		e.KVBlocks = int(share*float64(tokens))/s.BlockTokens + 1 // and the null block
		if err := e.Validate(); err != nil {
			return nil, err
		}
		engines[i] = e
	}
	return engines, nil
}

// slowed is the timing of a device that does everything at a part of the speed.
func slowed(t sim.Timing, speed float64) sim.Timing {
	t.Overhead = time.Duration(float64(t.Overhead) / speed)
	t.FLOPS *= speed
	t.BytesPerSecond *= speed
	t.HostBytesPerSecond *= speed
	return t
}
