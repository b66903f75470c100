package chaos

import (
	"os/exec"
	"syscall"
)

// endWithParent has the kernel end a process when the thread that starts it ends (PR_SET_PDEATHSIG, prctl(2)).
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
