package router

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/actors/stream"
)

// TestOfWhatSeveralAreInUse: tenants and adapters of the last minutes, each of its own.
func TestOfWhatSeveralAreInUse(t *testing.T) {
	u, now := uses{}, start
	see := func(tenant, adapter string) fleet.Several {
		now = now.Add(time.Second)
		return u.see(now, &stream.Request{Tenant: tenant, LoRA: adapter})
	}
	for range 3 {
		require.Zero(t, see("a", ""), "one of each")
	}
	require.Equal(t, fleet.Several{Tenants: true}, see("b", ""))
	require.Equal(t, fleet.Several{Tenants: true, Adapters: true}, see("b", "x"))
	require.Equal(t, fleet.Several{Tenants: true, Adapters: true}, see("c", "y"))
	now = now.Add(usedFor)
	require.Zero(t, see("c", "y"), "the others are used no more")
	require.Equal(t, fleet.Several{Adapters: true}, see("c", ""))
}
