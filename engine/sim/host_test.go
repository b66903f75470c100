package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/sim"
	"plimsoll/scoring/prefix"
)

// hostConfig has room for 5 blocks of 4 tokens on the device and for 8 on the host.
func hostConfig() sim.Config {
	cfg := smallConfig()
	cfg.KVBlocks, cfg.HostBlocks, cfg.BatchTokens, cfg.ContextTokens = 6, 8, 64, 20
	return cfg
}

// told is what happened, in short: kind, tier and how many blocks.
func told(events []prefix.Event) (list []prefix.Event) {
	for _, e := range events {
		list = append(list, prefix.Event{Kind: e.Kind, Tier: e.Tier, BlockTokens: len(e.Hashes)})
	}
	return list
}

func of(kind prefix.EventKind, tier prefix.Tier, blocks int) prefix.Event {
	return prefix.Event{Kind: kind, Tier: tier, BlockTokens: blocks}
}

// What is evicted moves to the host, and comes back when it is asked for: the pass takes longer by its way over the bus.
func TestHostTier(t *testing.T) {
	d := newDriver(t, hostConfig(), hashSource)
	run := func(id string, seed uint32) (cached int, events []prefix.Event, pass time.Duration) {
		d.kv = nil
		d.step(ask(id, prompt(18, seed, 1000), 1))
		pass = d.running.Duration
		d.drain()
		return *d.of(id).cached, d.kv, pass
	}
	cached, events, _ := run("a", 1)
	require.Zero(t, cached)
	require.Equal(t, []prefix.Event{of(prefix.Stored, prefix.Device, 4)}, told(events))

	cached, events, whole := run("b", 2)
	require.Zero(t, cached)
	require.Equal(t, []prefix.Event{
		of(prefix.Removed, prefix.Device, 4), of(prefix.Stored, prefix.Host, 4), of(prefix.Stored, prefix.Device, 4),
	}, told(events))
	require.Equal(t, events[0].Hashes, events[1].Hashes)
	require.Empty(t, events[1].Tokens, "hashes only")
	require.Equal(t, 4, d.m.Status().HostBlocks)

	cached, events, loading := run("a again", 1)
	require.Equal(t, 16, cached)
	require.Equal(t, []prefix.Event{
		of(prefix.Removed, prefix.Device, 3), of(prefix.Stored, prefix.Host, 3), of(prefix.Stored, prefix.Device, 4),
		of(prefix.Removed, prefix.Device, 1), of(prefix.Stored, prefix.Host, 1),
	}, told(events), "b gives way to a, which comes back, and to the block that is computed")
	require.Equal(t, 8, d.m.Status().HostBlocks, "what was loaded stays there too")
	timing := hostConfig().Timing
	require.InDelta(t, timing.Pass(2, 16, 0, 0).Seconds()+16*timing.KVBytes/timing.HostBytesPerSecond, loading.Seconds(), 1e-9)
	require.Positive(t, whole)

	_, events, _ = run("c", 3)
	require.Equal(t, []prefix.Event{of(prefix.Removed, prefix.Device, 4), of(prefix.Stored, prefix.Device, 4)}, told(events), "a is there")
	_, events, _ = run("d", 4)
	require.Equal(t, []prefix.Event{
		of(prefix.Removed, prefix.Device, 4),
		of(prefix.Removed, prefix.Host, 1), of(prefix.Stored, prefix.Host, 1), of(prefix.Removed, prefix.Host, 1), of(prefix.Stored, prefix.Host, 1),
		of(prefix.Removed, prefix.Host, 1), of(prefix.Stored, prefix.Host, 1), of(prefix.Removed, prefix.Host, 1), of(prefix.Stored, prefix.Host, 1),
		of(prefix.Stored, prefix.Device, 4),
	}, told(events), "the host is full: b, which was used less recently than a, goes block by block")
	cached, _, _ = run("b again", 2)
	require.Zero(t, cached)
}

// A reset empties the device, and the host goes on serving, as a vLLM's offload tier does.
func TestResetLeavesTheHostTier(t *testing.T) {
	d := newDriver(t, hostConfig(), hashSource)
	for i, id := range []string{"a", "b"} {
		d.step(ask(id, prompt(18, uint32(i), 1000), 1))
		d.drain()
	}
	d.step(sim.ResetPrefixCache{})
	require.Equal(t, []bool{true}, d.resets)
	require.Zero(t, d.m.Status().CachedBlocks)
	d.step(ask("a again", prompt(18, 0, 1000), 1))
	d.drain()
	require.Equal(t, 16, *d.of("a again").cached)
	unread := ask("unread", prompt(18, 0, 1000), 1)
	unread.SkipCacheRead = true
	d.step(unread)
	d.drain()
	require.Zero(t, *d.of("unread").cached)
}
