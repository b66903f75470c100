package printed_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"plimsoll/testbench/printed"
)

// TestText: many write at once, lines stay whole, and it can be read meanwhile.
func TestText(t *testing.T) {
	const writers, lines = 8, 100
	var text printed.Text
	require.Empty(t, text.String())
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range lines {
				_, err := fmt.Fprintf(&text, "%d of %d\n", i, w)
				assert.NoError(t, err)
				assert.Contains(t, text.String(), fmt.Sprintf("%d of %d\n", i, w))
			}
		})
	}
	all.Wait()
	next := make([]int, writers)
	for line := range strings.Lines(text.String()) {
		var i, w int
		_, err := fmt.Sscanf(line, "%d of %d\n", &i, &w)
		require.NoError(t, err)
		require.Equal(t, next[w], i)
		next[w]++
	}
	for _, n := range next {
		require.Equal(t, lines, n)
	}
}
