package sim

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Config describes one engine.
type Config struct {
	Model          string   // name the engine serves the model under
	Adapters       []string // LoRA adapters that are loaded
	BlockTokens    int      // tokens a KV block
	KVBlocks       int      // blocks of the pool; one of them is the null block and not usable
	HostBlocks     int      // blocks of host memory that evicted ones move to; 0: they are lost
	Seats          int      // sequences in a batch
	BatchTokens    int      // token budget of a forward pass
	ContextTokens  int      // longest prompt plus answer that the model allows
	WaitingMax     int      // requests that wait for admission; more are shed
	TopLogprobsMax int      // alternatives a request may ask for
	Timing         Timing
	Firsts         Firsts
	HashSeed       uint64 // block hashes of two engines differ if their seeds do
}

// Firsts are how much longer a pass takes in which the engine does something for the first time in its life: it compiles what it
// needs for that, and stands still for all.
type Firsts struct {
	Logprobs time.Duration // the first request that asks for them
	LoRA     time.Duration // each adapter's first
	Length   time.Duration // a prompt's part of twice the length of any before
}

// Names of the profiles.
const (
	ProfileH100x8B = "h100-8b"
	ProfileA10x8B  = "a10-8b"
	ProfileTiny    = "tiny"
)

// DefaultConfig is the profile h100-8b: an 8B model in 16 bit with grouped-query attention on one H100 (80 GB).
func DefaultConfig() Config {
	return Config{
		Model:          "plimsoll-sim",
		BlockTokens:    16,
		KVBlocks:       25_001, // 400,000 tokens of 128 KiB: 52 GB beside 16 GB of weights
		Seats:          256,
		BatchTokens:    8192,
		ContextTokens:  131_072,
		WaitingMax:     4096,
		TopLogprobsMax: 20,
		Timing:         h100x8B(),
		HashSeed:       1,
	}
}

// A10Config is the profile a10-8b: the same model on one A10 (24 GB). Of its memory 92 % serve, as vLLM takes them: 22.1 GB,
// less 16.1 GB of weights and 1.5 GB of activations and graphs, leave 4.5 GB of KV cache.
func A10Config() Config {
	cfg := DefaultConfig()
	cfg.KVBlocks = 2_145 // 34,304 tokens of 128 KiB and the null block
	cfg.Seats = 64
	cfg.BatchTokens = 2048
	cfg.ContextTokens = 32_768
	cfg.Timing = a10x8B()
	return cfg
}

// TinyConfig is the profile tiny: passes of microseconds and a pool that a test fills with a few requests.
func TinyConfig() Config {
	cfg := DefaultConfig()
	cfg.KVBlocks = 257
	cfg.Seats = 8
	cfg.BatchTokens = 256
	cfg.ContextTokens = 2048
	cfg.WaitingMax = 1024
	cfg.Timing = tiny()
	return cfg
}

// Profiles lists the names of the profiles, the default first.
func Profiles() []string { return []string{ProfileH100x8B, ProfileA10x8B, ProfileTiny} }

// Profile returns the configuration of a named profile.
func Profile(name string) (Config, error) {
	switch name {
	case ProfileH100x8B:
		return DefaultConfig(), nil
	case ProfileA10x8B:
		return A10Config(), nil
	case ProfileTiny:
		return TinyConfig(), nil
	}
	return Config{}, fmt.Errorf("sim: unknown profile %q: want one of %s", name, strings.Join(Profiles(), ", "))
}

// Validate says what is wrong, all of it.
func (c Config) Validate() error {
	var errs []error
	least := func(name string, value, minimum int) {
		if value < minimum {
			errs = append(errs, fmt.Errorf("sim: %s is %d, at least %d is needed", name, value, minimum))
		}
	}
	least("BlockTokens", c.BlockTokens, 1)
	least("KVBlocks", c.KVBlocks, 2)
	least("HostBlocks", c.HostBlocks, 0)
	least("Seats", c.Seats, 1)
	least("BatchTokens", c.BatchTokens, c.Seats) // every running sequence gets its token in every pass
	least("ContextTokens", c.ContextTokens, 2)
	least("WaitingMax", c.WaitingMax, 1)
	least("TopLogprobsMax", c.TopLogprobsMax, 0)
	if c.Model == "" {
		errs = append(errs, errors.New("sim: Model is empty"))
	}
	if c.Firsts.Logprobs < 0 || c.Firsts.LoRA < 0 || c.Firsts.Length < 0 {
		errs = append(errs, errors.New("sim: a pause of Firsts is negative"))
	}
	if err := c.Timing.validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// UsableBlocks is the size of the pool without the null block.
func (c Config) UsableBlocks() int { return c.KVBlocks - 1 }

// SequenceTokens is the longest prompt plus answer: the model's context, or the whole pool if that is smaller.
func (c Config) SequenceTokens() int {
	return min(c.ContextTokens, c.UsableBlocks()*c.BlockTokens)
}
