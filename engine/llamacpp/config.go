package llamacpp

import (
	"errors"
	"fmt"
	"time"

	"plimsoll/engine/wire"
)

// Config says where a llama-server is and what it does not tell itself. The last frame of a stream repeats the whole
// prompt as text, which FrameBytes must allow for.
type Config struct {
	wire.Config

	// CapacityTokens is how many tokens of KV all slots hold together: n_ctx times the slots if the server was started
	// with -np N. nil: n_ctx of one slot, which is right for the unified pool and safe for all.
	CapacityTokens *int
	Slots          *int // sequences decoded at once; nil: what the server says
	BlockTokens    int  // tokens counted as one block

	MetricsTimeout time.Duration // the part of a probe that waits for the server's main loop; longer leaves the load unknown
	LingerBound    time.Duration // how long an aborted request may still hold its KV: one batch of prompt (n_batch tokens)
}

// DefaultConfig holds everything but the URL.
func DefaultConfig() Config {
	return Config{
		Config:         wire.DefaultConfig(),
		BlockTokens:    16,
		MetricsTimeout: 2 * time.Second,
		LingerBound:    3 * time.Second,
	}
}

// Validate says what is wrong, all of it, by field.
func (c Config) Validate() error {
	err := errors.Join(
		c.Config.Validate(),
		wire.PositiveDuration("MetricsTimeout", c.MetricsTimeout),
		wire.PositiveDuration("LingerBound", c.LingerBound),
		wire.AtLeastOne("CapacityTokens", c.CapacityTokens),
		wire.AtLeastOne("Slots", c.Slots),
		wire.AtLeastOne("BlockTokens", &c.BlockTokens),
	)
	if c.CapacityTokens != nil && *c.CapacityTokens < c.BlockTokens {
		err = errors.Join(err, fmt.Errorf("CapacityTokens is %d: less than one block of %d", *c.CapacityTokens, c.BlockTokens))
	}
	return err
}
