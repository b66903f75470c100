package fakeengine

import (
	"errors"
	"fmt"
	"time"

	"plimsoll/engine/sim"
	"plimsoll/engine/sim/live"
	"plimsoll/testbench/kvpub"
	"plimsoll/tokenizer"
)

// Version is the version of vLLM whose API is served; the suffix tells a simulation from a real one.
const Version = "0.32.0+plimsoll.sim"

// Config describes a simulated server. The model's name and its LoRA adapters are those of Engine.Sim.
type Config struct {
	Engine live.Config
	// Generate serves /inference/v1/generate and abort_requests; without it they answer 403, as a vLLM does that was
	// started without --enable-scale-out.
	Generate bool
	// KVEvents publishes the cache's events; nil: it does not. Faults are injected by [kvpub.Publisher.SetPlan].
	KVEvents *kvpub.Config
	// Faults serves PUT /faults, which makes the server faulty. [Server.SetFaults] does so without it.
	Faults    bool
	BodyBytes int64 // longest request body
	LegsMax   int   // choices of one request: prompts x n
}

// DefaultConfig is a server of the default engine.
func DefaultConfig() Config {
	return Config{Engine: live.DefaultConfig(), Generate: true, BodyBytes: 64 << 20, LegsMax: 1024}
}

// Validate says what is wrong.
func (c Config) Validate() error {
	if c.BodyBytes < 1 || c.LegsMax < 1 {
		return fmt.Errorf("fakeengine: BodyBytes (%d) and LegsMax (%d) must be at least 1", c.BodyBytes, c.LegsMax)
	}
	if c.KVEvents != nil {
		if err := c.KVEvents.Validate(); err != nil {
			return err
		}
	}
	return c.Engine.Validate()
}

// Deps are what a server is given. All are required.
type Deps struct {
	Model   *tokenizer.Model // renders and encodes prompts, spells answers; the caller closes it after the server
	Source  sim.TokenSource  // what the model says
	Entropy func() uint64    // random bits; called from many goroutines
	Now     func() time.Time
}

func (d Deps) validate() error {
	if d.Model == nil || d.Source == nil || d.Entropy == nil || d.Now == nil {
		return errors.New("fakeengine: Model, Source, Entropy and Now are needed")
	}
	return nil
}
