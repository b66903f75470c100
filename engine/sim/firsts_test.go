package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/sim"
)

// TestFirsts: what an engine does for the first time in its life holds its whole batch up, once.
func TestFirsts(t *testing.T) {
	cfg := sim.TinyConfig()
	cfg.Adapters = []string{"a"}
	cfg.Firsts = sim.Firsts{Logprobs: time.Second, LoRA: time.Minute, Length: time.Hour}
	m, err := sim.New(cfg, sim.Deps{Source: sim.HashSource{Vocab: 100, EOSID: 99}})
	require.NoError(t, err)
	at := time.Duration(0)
	pass := func(id string, length int, logprobs *int, lora string) time.Duration {
		prompt := make([]uint32, length)
		for i := range prompt {
			prompt[i] = uint32(i%90) + uint32(len(id)) //nolint:gosec // small
		}
		effects := m.Step(at, sim.Submit{ID: id, PromptTokens: prompt, MaxTokens: 1, TopLogprobs: logprobs, LoRA: lora, Salt: id})
		start, ok := effects[len(effects)-1].(sim.StartStep)
		require.True(t, ok)
		at = start.Due
		m.Step(at, sim.StepDone{Step: start.Step})
		return start.Duration.Truncate(time.Second)
	}
	zero := 0
	require.Equal(t, time.Hour, pass("a", 20, nil, ""))
	require.Zero(t, pass("b", 39, nil, ""))
	require.Equal(t, time.Hour+time.Second, pass("c", 40, &zero, ""))
	require.Zero(t, pass("d", 40, &zero, ""))
	require.Equal(t, time.Minute, pass("e", 10, &zero, "a"))
	require.Zero(t, pass("f", 10, nil, "a"))
	m.Step(at, sim.Kill{})
	m.Step(at, sim.Start{})
	require.Equal(t, time.Hour+time.Minute+time.Second, pass("g", 10, &zero, "a"), "another life has done nothing yet")
}
