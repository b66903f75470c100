package dst

import (
	"time"
	"unsafe"
)

// reading is how the standard library lays out a time that has both clocks; TestTheWallClockJumpsAlone fails where it does not.
type reading struct {
	wall      uint64
	monotonic int64
	zone      *time.Location
}

// skewed moves the wall clock of a time and leaves its monotonic one, which no function of the standard library does: as
// time.Now would read after somebody has set the clock. A machine that compares times by their wall clock goes wrong by it.
func skewed(t time.Time, by time.Duration) time.Time {
	moved := t.Add(by)
	(*reading)(unsafe.Pointer(&moved)).monotonic = (*reading)(unsafe.Pointer(&t)).monotonic
	return moved
}

// dawn is the time at which runs begin: always the same by its wall clock, and with a monotonic one.
func dawn() time.Time {
	now := time.Now()
	return skewed(now, time.Unix(1_800_000_000, 0).Sub(now.Round(0)))
}
