package prefix

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSearchesOfASmallDictEnd: a table of few buckets that is filled as far as it may be, whose oldest word goes for each new
// one, comes to have something past every bucket. Who looks for an absent word there goes round once.
func TestSearchesOfASmallDictEnd(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	d := dict{}
	var words []uint64
	want := map[uint64]uint32{}
	crowded := 0
	for n := range uint32(20_000) {
		if len(words) == dictLoaded*dictPlaces*dictLeast/16 {
			d.remove(words[0])
			delete(want, words[0])
			words = words[1:]
		}
		word := rng.Uint64()
		require.Zero(t, d.get(word))
		d.set(word, n+1)
		words, want[word] = append(words, word), n+1
		past := 0
		for i := range d.buckets {
			if d.buckets[i].state > inUse {
				past++
			}
		}
		if past == len(d.buckets) {
			crowded++
		}
	}
	for word, val := range want {
		require.Equal(t, val, d.get(word))
	}
	require.Len(t, d.buckets, dictLeast, "it has not grown")
	require.Positive(t, crowded, "it was never so crowded")
}
