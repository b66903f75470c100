package kvevents

import (
	"encoding/binary"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"plimsoll/scoring/prefix"
)

// listOf is an array of n equal elements.
func listOf(n int, element []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{0xdd}, uint32(n)) //nolint:gosec // small
	for range n {
		b = append(b, element...)
	}
	return b
}

// manyOf is a batch of n equal events.
func manyOf(n int, event []byte) []byte {
	return append([]byte{0x92, 0}, listOf(n, event)...)
}

// What a few bytes on the wire become is bounded, whatever they claim or are; what an engine can mean is within the bound.
func TestDecodedSizeIsBounded(t *testing.T) {
	const messageBytes = 15 << 20
	require.LessOrEqual(t, int(unsafe.Sizeof(prefix.Event{})), eventBytes)
	long := func(element ...byte) int { return messageBytes / len(element) }
	stored := func(hashes, parent, tokens, size []byte) []byte {
		event := append([]byte{0x95}, pack("BlockStored")...)
		for _, field := range [][]byte{hashes, parent, tokens, size} {
			event = append(event, field...)
		}
		return event
	}
	none, root, one := []byte{0x90}, []byte{0xc0}, []byte{1}
	tiny := pack(l{"AllBlocksCleared"})
	removed := pack(l{"BlockRemoved", l{1}})
	for name, c := range map[string]struct {
		payload []byte
		events  int // 0: it is garbage
	}{
		"tiny events":            {manyOf(messageBytes/len(tiny), tiny), 0},
		"tiny removals":          {manyOf(messageBytes/len(removed), removed), 0},
		"tiny hashes":            {manyOf(1, append(append([]byte{0x92}, pack("BlockRemoved")...), listOf(messageBytes, one)...)), 0},
		"tiny tokens":            {manyOf(1, stored(none, root, listOf(messageBytes, one), one)), 0},
		"a step's events":        {manyOf(100_000, removed), 100_000},
		"tokens of a long batch": {manyOf(1, stored(none, root, listOf(long(0xcd, 9, 9), []byte{0xcd, 9, 9}), one)), 1},
		"hashes of a long batch": {manyOf(1, append(append([]byte{0x92}, pack("BlockRemoved")...), listOf(messageBytes/9, append([]byte{0xcf}, make([]byte, 8)...))...)), 1},
	} {
		t.Run(name, func(t *testing.T) {
			require.LessOrEqual(t, len(c.payload), DefaultConfig().MessageBytesMax)
			var before, after runtime.MemStats
			var d Decoder
			runtime.ReadMemStats(&before)
			batch, err := d.Decode(c.payload)
			runtime.ReadMemStats(&after)
			// A slice that grows has been of all smaller sizes too.
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(6*decodedBytesMax))
			if c.events == 0 {
				require.ErrorIs(t, err, ErrGarbled)
				require.ErrorIs(t, err, errTooMuch)
				return
			}
			require.NoError(t, err)
			require.Len(t, batch.Events, c.events)
		})
	}
}
