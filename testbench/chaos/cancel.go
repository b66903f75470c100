package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Cancel is how clients leave.
type Cancel struct {
	Each    int           `yaml:"each"`    // in each phase, at least
	Total   int           `yaml:"total"`   // in all
	Clients int           `yaml:"clients"` // at once
	Closed  time.Duration `yaml:"closed"`  // p99 of the time from a client's leaving until the engine's socket is closed
}

func (c Cancel) validate() error {
	if c.Each < 1 || c.Total < c.Each*int(NumPhases) || c.Clients < 1 || c.Closed <= 0 {
		return fmt.Errorf("plan: cancel needs some clients, some leaves in each of %d phases, as many in all, and a bound", NumPhases)
	}
	return nil
}

// Phase is where a request is when its client leaves.
type Phase uint8

// The phases.
const (
	Tokenizing Phase = iota
	Queued
	Prefill
	Decode
	Resume
	SlowClient

	NumPhases
)

var phaseNames = [NumPhases]string{"tokenizing", "queue", "prefill", "decode", "resume", "slow client"}

// String returns the phase's name.
func (p Phase) String() string {
	if p < NumPhases {
		return phaseNames[p]
	}
	return "unknown"
}

// MarshalText implements encoding.TextMarshaler.
func (p Phase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// Leave is a client that left.
type Leave struct {
	Request int           `json:"request"`
	Phase   Phase         `json:"phase"`
	At      time.Duration `json:"at"`
	Closed  time.Duration `json:"closed"` // until the engine's socket was closed; 0: there was none
	Open    bool          `json:"open"`   // it never was
}

func (r *run) cancellations(context.Context) error { return errors.New("none") }

func judgeLeaves(Cancel, *Result, say) {}
