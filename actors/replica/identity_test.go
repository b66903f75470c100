package replica

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
)

// The actor says an early answer again as soon as it may, not at its next probe.
func TestAnEarlyAnswerIsSaidAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		accord := fleet.NewAccord("first")
		accord.Join("first")
		accord.Join("r")
		ref, _ := spawnedIn(t, accord, &answering{stub: stub{caps: withoutFeed}}, func() bool { return false })
		began := time.Now()
		synctest.Wait()
		require.Equal(t, fleet.Starting, ref.Snapshot().State)
		accord.Silent("first")
		synctest.Wait()
		require.Equal(t, fleet.Ready, ref.Snapshot().State)
		require.Zero(t, time.Since(began))
	})
}
