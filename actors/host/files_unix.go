//go:build unix

package host

import (
	"fmt"
	"math"
	"syscall"
)

// OpenFiles returns how many files this process may have open.
func OpenFiles() (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("the limit of open files cannot be read: %w", err)
	}
	return int(min(limit.Cur, math.MaxInt32)), nil //nolint:gosec // it is bounded
}
