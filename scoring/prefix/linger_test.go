package prefix_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring/prefix"
)

// lateStores is a slot that was told of its host's memory, and sequences of three blocks to fill it with.
func lateStores(t *testing.T, linger int) (ix *prefix.Index, apply func(...prefix.Event)) {
	t.Helper()
	cfg := testConfig()
	cfg.OverflowFactor, cfg.LingerFactor = 100, linger
	ix = prefix.NewIndex(cfg)
	s := ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: 3})
	apply = func(events ...prefix.Event) {
		for _, e := range events {
			ix.Apply(s, []prefix.Event{e})
		}
	}
	apply(threeBlocks(0).stored(0, 3), onHost(prefix.Stored, threeBlocks(0)), onHost(prefix.Removed, threeBlocks(0)))
	return ix, apply
}

func threeBlocks(i uint32) sequence {
	return sequence{prefix.Namespace{Model: model}, []uint32{i, 1, i, 2, i, 3}}
}

// onHost is an offload tier's event of a sequence's blocks, by hash alone.
func onHost(kind prefix.EventKind, seq sequence) prefix.Event {
	return prefix.Event{Kind: kind, Hashes: seq.engineHashes(), Tier: prefix.Host}
}

// evicted is the removal of a sequence's blocks from the device, tail first, as engines do.
func evicted(seq sequence) prefix.Event {
	hashes := seq.engineHashes()
	slices.Reverse(hashes)
	return prefix.Event{Kind: prefix.Removed, Hashes: hashes}
}

// TestLateStores: the offload tier's events come after the removal from the device; the sequence is then held there with
// all its structure, and the names are let go when they leave that tier too and others follow.
func TestLateStores(t *testing.T) {
	seq := threeBlocks(1)
	keys := seq.keys()
	ix, apply := lateStores(t, 2)
	for range 3 {
		apply(seq.stored(0, 3), evicted(seq))
		require.Equal(t, onDevice(0), ix.Match(start, keys, nil), "what lingers is not held")
		require.Equal(t, 3, ix.Stats(0).Lingering)

		apply(onHost(prefix.Stored, seq))
		require.Equal(t, []prefix.Overlap{{Host: 3}}, ix.Match(start, keys, nil))
		require.Equal(t, prefix.Stats{Blocks: 3, HostBlocks: 3, Copies: 6}, ix.Stats(0), "no holes, none unknown")

		apply(prefix.Event{Kind: prefix.Removed, Hashes: seq.engineHashes()[1:2], Tier: prefix.Host})
		require.Equal(t, []prefix.Overlap{{Host: 1}}, ix.Match(start, keys, nil))
		require.Equal(t, 1, ix.Stats(0).Holes, "the last block's parent is the one that left")

		apply(onHost(prefix.Stored, sequence{seq.space, seq.tokens[:4]}))
		require.Equal(t, []prefix.Overlap{{Host: 3}}, ix.Match(start, keys, nil))
		apply(onHost(prefix.Removed, seq), onHost(prefix.Removed, sequence{seq.space, seq.tokens[:2]}))
		require.Equal(t, prefix.Stats{Blocks: 3, Copies: 3, Lingering: 3}, ix.Stats(0))
	}
}

// TestLateStoresBehind: a block is stored behind one that has just left.
func TestLateStoresBehind(t *testing.T) {
	seq := threeBlocks(1)
	ix, apply := lateStores(t, 2)
	apply(seq.stored(0, 2), evicted(sequence{seq.space, seq.tokens[:4]}), seq.stored(2, 3))
	require.Equal(t, prefix.Stats{Blocks: 4, Copies: 4, Holes: 1, Lingering: 2}, ix.Stats(0), "it waits for nothing")
	apply(onHost(prefix.Stored, sequence{seq.space, seq.tokens[:4]}))
	require.Equal(t, []prefix.Overlap{{Host: 3}}, ix.Match(start, seq.keys(), nil))
}

// TestLingeringIsBounded: only the last names to go are remembered; none by a slot that knows of no tier but the device, and
// none of a life before.
func TestLingeringIsBounded(t *testing.T) {
	t.Run("the oldest go", func(t *testing.T) {
		ix, apply := lateStores(t, 2)
		for i := range uint32(100) {
			seq := threeBlocks(i + 1)
			apply(seq.stored(0, 3), evicted(seq))
			require.LessOrEqual(t, ix.Stats(0).Lingering, 6)
		}
		for i := range uint32(100) {
			apply(onHost(prefix.Stored, threeBlocks(i+1)))
		}
		st := ix.Stats(0)
		require.Equal(t, 6, st.HostBlocks)
		require.EqualValues(t, 3*98, st.UnknownNames)
		require.Equal(t, []prefix.Overlap{{Host: 3}}, ix.Match(start, threeBlocks(100).keys(), nil))
	})
	t.Run("no tier but the device", func(t *testing.T) {
		ix := prefix.NewIndex(testConfig())
		ix.Add(prefix.SlotConfig{Source: prefix.Events, CapacityBlocks: 10})
		seq := threeBlocks(1)
		ix.Apply(0, []prefix.Event{seq.stored(0, 3)})
		ix.Apply(0, []prefix.Event{evicted(seq)})
		require.Equal(t, prefix.Stats{}, ix.Stats(0))
		ix.Apply(0, []prefix.Event{onHost(prefix.Stored, seq)})
		require.Equal(t, prefix.Stats{UnknownNames: 3}, ix.Stats(0), "the first ones are lost")
		ix.Apply(0, []prefix.Event{seq.stored(0, 3), evicted(seq), onHost(prefix.Stored, seq)})
		require.Equal(t, []prefix.Overlap{{Host: 3}}, ix.Match(start, seq.keys(), nil))
	})
	for name, end := range map[string]func(*prefix.Index){
		"cleared": func(ix *prefix.Index) { ix.Apply(0, []prefix.Event{{Kind: prefix.Cleared}}) },
		"void":    func(ix *prefix.Index) { ix.Void(0) },
	} {
		t.Run(name, func(t *testing.T) {
			ix, apply := lateStores(t, 2)
			seq := threeBlocks(1)
			apply(seq.stored(0, 3), evicted(seq))
			end(ix)
			require.Zero(t, ix.Stats(0).Lingering)
			apply(threeBlocks(2).stored(0, 1), onHost(prefix.Stored, seq))
			require.Equal(t, onDevice(0), ix.Match(start, seq.keys(), nil))
			require.EqualValues(t, 3, ix.Stats(0).UnknownNames)
			apply(seq.stored(0, 3))
			require.Equal(t, onDevice(3), ix.Match(start, seq.keys(), nil))
		})
	}
}

// TestLingeringNameForOtherContent: a name that lingers is free to be used for other content, at once.
func TestLingeringNameForOtherContent(t *testing.T) {
	old, seq := threeBlocks(1), threeBlocks(2)
	names := old.engineHashes()
	start3 := seq.stored(0, 3)
	start3.Hashes = names
	middle := seq.stored(1, 3)
	middle.Hashes = names[1:]
	for name, other := range map[string]prefix.Event{"from the start": start3, "behind what is not known": middle} {
		t.Run(name, func(t *testing.T) {
			ix, apply := lateStores(t, 2)
			apply(old.stored(0, 3), evicted(old), other)
			require.Zero(t, ix.Stats(0).Conflicts)
			apply(seq.stored(0, 1), onHost(prefix.Stored, old))
			require.Equal(t, onDevice(0), onDeviceAlone(ix.Match(start, old.keys(), nil)))
			require.Equal(t, onDevice(3), onDeviceAlone(ix.Match(start, seq.keys(), nil)))
		})
	}
}

// onDeviceAlone leaves out what is held below.
func onDeviceAlone(overlaps []prefix.Overlap) []prefix.Overlap {
	for i := range overlaps {
		overlaps[i].Host, overlaps[i].Disk = 0, 0
	}
	return overlaps
}
