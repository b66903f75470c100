package sim_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/sim"
)

// Numbers worked out by hand from the formula of the package comment.
func TestPassOfAnH100(t *testing.T) {
	timing := sim.DefaultConfig().Timing
	for _, c := range []struct {
		name                               string
		prompt, earlier, decodes, kvTokens int
		want                               time.Duration
	}{
		{"one decode reads the weights", 0, 0, 1, 1000, 7_541 * time.Microsecond},  // 1.5 + 5.993 + 0.049 ms
		{"256 decodes of 1,000", 0, 0, 256, 256_000, 26_868 * time.Microsecond},    // 1.5 + 12.848 + 12.520 ms
		{"prompt of 1,000", 1000, 0, 0, 0, 52_507 * time.Microsecond},              // 1.5 + 50.188 + 0.819 ms
		{"chunk after 100,000", 8192, 100_000, 0, 0, 1_809_789 * time.Microsecond}, // 1.5 + 411 + 1,397 ms
	} {
		got := timing.Pass(c.prompt, c.earlier, c.decodes, c.kvTokens)
		require.InDelta(t, c.want.Seconds(), got.Seconds(), 2e-6, c.name)
	}
}

// An A10 prefills eight times slower than an H100 and decodes at some 28 tokens a second; its pool holds one long context.
func TestAnA10(t *testing.T) {
	cfg := sim.A10Config()
	require.InDelta(t, 2_500, 1000/(cfg.Timing.Pass(2000, 0, 0, 0)-cfg.Timing.Pass(1000, 0, 0, 0)).Seconds(), 200)
	require.InDelta(t, 28, 1/cfg.Timing.Pass(0, 0, 1, 1000).Seconds(), 1)
	require.Equal(t, 34_304, cfg.UsableBlocks()*cfg.BlockTokens)
	const kvBytes, weightBytes = 131_072, 16.06e9
	require.Less(t, float64(cfg.UsableBlocks()*cfg.BlockTokens)*kvBytes+weightBytes, 0.92*24e9)
	require.Equal(t, cfg.ContextTokens, cfg.SequenceTokens())
}

// A batch of decodes costs hardly more than one until its cache reads weigh; prefill is quadratic in the long run.
func TestShapeOfThePassTime(t *testing.T) {
	for _, name := range sim.Profiles() {
		cfg, err := sim.Profile(name)
		require.NoError(t, err)
		timing := cfg.Timing
		require.Less(t, timing.Pass(0, 0, 64, 64*100), 2*timing.Pass(0, 0, 1, 100), name)
		near, far := timing.Pass(256, 0, 0, 0), timing.Pass(256, 100_000, 0, 0)
		require.Greater(t, far, near, name)
		require.Greater(t, timing.Pass(1024, 0, 0, 0), timing.Pass(512, 0, 0, 0), name)
		require.Greater(t, timing.Pass(0, 0, 8, 2000), timing.Pass(0, 0, 8, 1000), name)
	}
	_, err := sim.Profile("a100")
	require.ErrorContains(t, err, "a100")
}

func TestConfigIsValidated(t *testing.T) {
	require.NoError(t, sim.DefaultConfig().Validate())
	require.NoError(t, sim.A10Config().Validate())
	require.NoError(t, sim.TinyConfig().Validate())
	for name, spoil := range map[string]func(*sim.Config){
		"BlockTokens":    func(c *sim.Config) { c.BlockTokens = 0 },
		"KVBlocks":       func(c *sim.Config) { c.KVBlocks = 1 },
		"Seats":          func(c *sim.Config) { c.Seats = 0 },
		"BatchTokens":    func(c *sim.Config) { c.BatchTokens = c.Seats - 1 },
		"ContextTokens":  func(c *sim.Config) { c.ContextTokens = 1 },
		"WaitingMax":     func(c *sim.Config) { c.WaitingMax = 0 },
		"TopLogprobsMax": func(c *sim.Config) { c.TopLogprobsMax = -1 },
		"Model":          func(c *sim.Config) { c.Model = "" },
		"Timing":         func(c *sim.Config) { c.Timing.KVBytes = -1 },
		"FLOPS":          func(c *sim.Config) { c.Timing.FLOPS = 0 },
		"no time":        func(c *sim.Config) { c.Timing.Overhead, c.Timing.WeightBytes = 0, 0 },
	} {
		cfg := sim.DefaultConfig()
		spoil(&cfg)
		require.Error(t, cfg.Validate(), name)
		_, err := sim.New(cfg, sim.Deps{Source: hashSource})
		require.Error(t, err, name)
	}
	_, err := sim.New(sim.DefaultConfig(), sim.Deps{})
	require.ErrorContains(t, err, "token source")
	require.Equal(t, 400_000, sim.DefaultConfig().UsableBlocks()*sim.DefaultConfig().BlockTokens)
}

// The router's prior of an 8B model is 20,000 prompt tokens a second.
func TestPrefillRateOfAnH100(t *testing.T) {
	timing := sim.DefaultConfig().Timing
	perToken := (timing.Pass(2000, 0, 0, 0) - timing.Pass(1000, 0, 0, 0)).Seconds() / 1000
	require.InDelta(t, 1.0/20_000, perToken, 0.1/20_000)
	require.Less(t, math.Abs(timing.Pass(0, 0, 1, 0).Seconds()-0.0075), 0.0005, "some 130 tokens a second alone")
}
