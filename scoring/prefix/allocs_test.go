package prefix_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring"
	"plimsoll/scoring/prefix"
)

// TestNothingIsAllocated: a look-up into memory of the caller's, and batches that store and remove once the tables have the
// size they need, whatever tiers and copies are in them.
func TestNothingIsAllocated(t *testing.T) {
	const blocks = 300 // several chunks
	tokens := benchTokens(blocks * benchBlock)
	keys := prefix.AppendKeys(nil, prefix.Namespace{Model: "m"}.Seed(), tokens, benchBlock)
	stored := storedBlocks(tokens, 1)
	reversed := slices.Clone(stored.Hashes)
	slices.Reverse(reversed)
	removed := prefix.Event{Kind: prefix.Removed, Hashes: reversed}
	onHost := prefix.Event{Kind: prefix.Stored, Hashes: stored.Hashes, Tier: prefix.Host}
	offHost := prefix.Event{Kind: prefix.Removed, Hashes: stored.Hashes, Tier: prefix.Host}
	fine := make([]prefix.Event, 0, 2*blocks)
	for i := range blocks {
		e := prefix.Event{
			Kind: prefix.Stored, BlockTokens: benchBlock,
			Hashes: stored.Hashes[i : i+1], Tokens: tokens[i*benchBlock : (i+1)*benchBlock],
		}
		if i > 0 {
			e.Parent = &stored.Hashes[i-1]
		}
		fine = append(fine, e)
	}
	for i := range blocks {
		fine = append(fine, prefix.Event{Kind: prefix.Removed, Hashes: reversed[i : i+1]})
	}

	for _, tc := range []struct {
		name  string
		held  []prefix.Event // of every slot, before
		batch []prefix.Event
	}{
		{"bulk", nil, []prefix.Event{stored, removed}},
		{"a block an event", nil, fine},
		{"blocks that others hold", []prefix.Event{stored}, []prefix.Event{removed, stored}},
		{"further copies", []prefix.Event{stored}, []prefix.Event{storedBehind(stored), withoutFirst(removed)}},
		{"to the host in time", []prefix.Event{onHost}, []prefix.Event{stored, onHost, removed, offHost}},
		{"to the host late", []prefix.Event{onHost}, []prefix.Event{stored, removed, onHost, offHost}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ix := benchIndex(3)
			for s := range 3 {
				ix.Apply(prefix.Slot(s), tc.held)
			}
			for range 10 { // the tables grow to what they need
				ix.Apply(1, tc.batch)
			}
			require.Zero(t, testing.AllocsPerRun(20, func() { ix.Apply(1, tc.batch) }))
		})
	}

	for _, held := range []int{0, blocks / 2, blocks} {
		ix := benchIndex(70)
		for s := range 70 {
			ix.Apply(prefix.Slot(s), []prefix.Event{storedBlocks(tokens[:held*benchBlock], 1)})
		}
		ix.Apply(3, []prefix.Event{onHost, {Kind: prefix.Removed, Hashes: stored.Hashes[min(2, held):min(4, held)]}})
		ix.Speculate(5, scoring.Ticket{Number: 1}, keys, start.Add(time.Hour))
		dst := ix.Match(start, keys, nil)
		require.Equal(t, scoring.Blocks(held), dst[0].Device)
		require.Zero(t, testing.AllocsPerRun(20, func() { dst = ix.Match(start, keys, dst) }), "%d blocks held", held)
	}
}

// storedBehind leaves a store's first block out.
func storedBehind(e prefix.Event) prefix.Event {
	e.Parent = &e.Hashes[0]
	e.Hashes, e.Tokens = e.Hashes[1:], e.Tokens[benchBlock:]
	return e
}

// withoutFirst leaves a sequence's first block out of its removal, which names it last.
func withoutFirst(e prefix.Event) prefix.Event {
	e.Hashes = e.Hashes[:len(e.Hashes)-1]
	return e
}
