package live

import (
	"errors"
	"fmt"

	"plimsoll/engine/sim"
)

// Version is what the engine calls itself in its status.
const Version = "plimsoll-sim/1"

// Config describes the engine and how it runs.
type Config struct {
	Sim sim.Config
	// Speed divides the simulated time of a pass: 1 is real time, 10 is ten times as fast.
	Speed float64
	// FeedBatchesMax bounds the batches that wait for a slow subscriber of cache events.
	FeedBatchesMax int
	// Entropy stands in for Deps.Entropy where unseeded sampling draws on it, so that a checker can know its answers; nil: they
	// are random.
	Entropy *uint64
}

// DefaultConfig is the default engine in real time.
func DefaultConfig() Config {
	return Config{Sim: sim.DefaultConfig(), Speed: 1, FeedBatchesMax: 1024}
}

// Validate says what is wrong, all of it.
func (c Config) Validate() error {
	var errs []error
	if !(c.Speed > 0) {
		errs = append(errs, fmt.Errorf("sim: Speed is %g, it must be above 0", c.Speed))
	}
	if c.FeedBatchesMax < 1 {
		errs = append(errs, fmt.Errorf("sim: FeedBatchesMax is %d, at least 1 is needed", c.FeedBatchesMax))
	}
	return errors.Join(append(errs, c.Sim.Validate())...)
}

// Deps are what the engine is given.
type Deps struct {
	Source sim.TokenSource
	// Entropy returns random bits: for unseeded sampling and the name of an incarnation. It is called from many
	// goroutines.
	Entropy func() uint64
}
