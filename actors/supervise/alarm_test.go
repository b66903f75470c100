package supervise

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAlarm: one time is set at once, the latest one; after it has rung the same time can be set again.
func TestAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Alarm
		var rung []string
		ring := func(name string) func() { return func() { rung = append(rung, name) } }
		start := time.Now()
		a.Set(start.Add(time.Second), true, ring("first"))
		a.Set(start.Add(2*time.Second), true, ring("second"))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"second"}, rung, "the first was replaced")

		a.Rung()
		a.Set(start.Add(2*time.Second), true, ring("late")) // in the past: soon
		time.Sleep(Soon(0))
		synctest.Wait()
		require.Equal(t, []string{"second", "late"}, rung)

		a.Rung()
		a.Set(start.Add(5*time.Second), true, ring("dropped"))
		a.Set(time.Time{}, false, ring("never"))
		a.Set(start.Add(6*time.Second), true, ring("stopped"))
		a.Stop()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"second", "late"}, rung)
	})
}
