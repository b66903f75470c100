package host

import (
	"errors"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/stretchr/testify/require"

	"plimsoll/testbench/printed"
)

// unlimited has a test begin without a limit, and the process go on with the one it had.
func unlimited(t *testing.T) {
	t.Helper()
	before := debug.SetMemoryLimit(math.MaxInt64)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
}

// withoutTheVariable takes GOMEMLIMIT from the environment until the test ends.
func withoutTheVariable(t *testing.T) {
	t.Helper()
	t.Setenv("GOMEMLIMIT", "") // puts back what was there
	require.NoError(t, os.Unsetenv("GOMEMLIMIT"))
}

func limitOf(t *testing.T, from memlimit.Provider) (limit int64, log string) {
	t.Helper()
	unlimited(t)
	var text printed.Text
	limitMemory(slog.New(slog.NewTextHandler(&text, nil)), from)
	return debug.SetMemoryLimit(-1), text.String()
}

func TestTheHeapStaysBelowTheControlGroupsMemory(t *testing.T) {
	withoutTheVariable(t)
	limit, log := limitOf(t, memlimit.Limit(1000<<20))
	require.Equal(t, int64(800<<20), limit)
	require.Contains(t, log, "gomemlimit_bytes=838860800")
}

func TestGOMEMLIMITBeatsTheControlGroup(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "123MiB") // the runtime has read it at its start, if it was there
	limit, log := limitOf(t, memlimit.Limit(1000<<20))
	require.Equal(t, int64(math.MaxInt64), limit)
	require.Empty(t, log)
}

func TestWithoutAControlGroupThereIsNoLimit(t *testing.T) {
	withoutTheVariable(t)
	for _, err := range []error{memlimit.ErrNoLimit, errors.New("no control group")} {
		limit, log := limitOf(t, func() (uint64, error) { return 0, err })
		require.Equal(t, int64(math.MaxInt64), limit)
		require.Empty(t, log)
	}
}
