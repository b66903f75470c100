package fleet

import (
	"errors"
	"fmt"
	"time"

	"plimsoll/actors/replica"
	"plimsoll/actors/router"
	"plimsoll/actors/stream"
	"plimsoll/engine/sim"
)

// Model is the name of the model that a simulated fleet serves.
const Model = "replayed"

// vocabulary is as large as those of present models.
const vocabulary = 128_000

// Config says what is simulated.
type Config struct {
	Engines []sim.Config // one a replica
	Router  router.Config
	Stream  stream.Config
	Replica replica.Config // of each replica, but for its ID and process
	Seed    uint64         // of the policy's draws
	// FeedDelay is how long cache events are on their way.
	FeedDelay time.Duration
	// SampleEvery is the time between two points of the series.
	SampleEvery time.Duration
	// Unqueued is a router without queue and admission: it is told of room without end, so that every request goes to an engine at
	// once and engines queue and preempt by themselves. The gate and the holds of a policy stay.
	Unqueued bool
	// HeardShare is what part of an answer's length the router hears of when it ends: with a half of it, answers are twice as long
	// as it predicts.
	HeardShare float64
	// Backlog has requests come as soon as fewer than that many wait for a place, whenever the trace says; nil: at their times.
	Backlog *int
}

// DefaultConfig serves with the defaults.
func DefaultConfig(engines []sim.Config) Config {
	return Config{
		Engines: engines, Router: router.DefaultConfig(Model), Stream: stream.DefaultConfig(),
		Replica: replica.DefaultConfig("r", Model), Seed: 1, FeedDelay: time.Millisecond,
		SampleEvery: 5 * time.Second, HeardShare: 1,
	}
}

// Validate reports what makes no sense.
func (c Config) Validate() error {
	errs := []error{c.Router.Validate(), c.Stream.Validate(), c.Replica.Validate()}
	for i, e := range c.Engines {
		if err := e.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("fleet: engine %d: %w", i+1, err))
		}
	}
	switch {
	case len(c.Engines) == 0 || len(c.Engines) > replicasMax:
		errs = append(errs, fmt.Errorf("fleet: %d replicas: 1 to %d can be simulated", len(c.Engines), replicasMax))
	case c.FeedDelay < 0:
		errs = append(errs, errors.New("fleet: the delay of cache events must not be negative"))
	case c.SampleEvery <= 0:
		errs = append(errs, errors.New("fleet: the time between two points of the series must be positive"))
	case !(c.HeardShare > 0 && c.HeardShare <= 1):
		errs = append(errs, errors.New("fleet: the router hears of a part of an answer's length, above 0 and at most 1"))
	case c.Backlog != nil && *c.Backlog < 1:
		errs = append(errs, errors.New("fleet: a backlog is of at least one request"))
	}
	return errors.Join(errs...)
}

// replicasMax is as many as names of three digits tell apart.
const replicasMax = 999
