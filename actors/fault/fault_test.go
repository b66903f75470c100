package fault_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
)

// TestLabels: every kind and every cause has a word of its own, which metrics show.
func TestLabels(t *testing.T) {
	seen := map[string]bool{"unknown": true}
	for k := range fault.NumKinds {
		require.False(t, seen[k.String()], "%d: %s", k, k)
		seen[k.String()] = true
	}
	seen = map[string]bool{"unknown": true}
	for c := range fault.NumCauses {
		require.False(t, seen[c.String()], "%d: %s", c, c)
		seen[c.String()] = true
	}
}
