package prefix_test

import (
	"syscall"
	"time"
	"unsafe"
)

// cpuTime is the time this thread has computed for: on a busy machine it says what an operation costs, where the clock says
// how long it waited for a core. The caller has locked the thread.
func cpuTime() time.Duration {
	const threadCPU = 3 // CLOCK_THREAD_CPUTIME_ID
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadCPU, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic(errno)
	}
	return time.Duration(ts.Nano())
}
