//go:build !unix

package host

import "math"

// OpenFiles returns how many files this process may have open.
func OpenFiles() (int, error) { return math.MaxInt32, nil }
