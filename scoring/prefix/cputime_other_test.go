//go:build !linux

package prefix_test

import "time"

// cpuTime is the clock where the system tells no thread's time.
func cpuTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
