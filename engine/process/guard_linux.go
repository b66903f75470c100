package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// prSetChildSubreaper makes orphans below a process its own children (prctl(2)).
const prSetChildSubreaper = 36

// sweepEvery is how often what does not end is looked for again: processes may start others while they are ended.
const sweepEvery = 20 * time.Millisecond

// Supported says why there can be no guard.
func Supported() error {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return fmt.Errorf("engines are started only where /proc is mounted: %w", err)
	}
	return nil
}

// detach keeps the keys of a terminal, such as Ctrl-C, from the guard and what is below it: it ends when it is told to.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// Guard starts the program that the arguments name and ends it, with all that it has started, when the control pipe says so
// or ends, or at a signal. It returns when nothing is left, with the program's exit code: 128 and the signal's number if one
// ended it, 127 if it could not be started. It is called once in a process, on its first goroutine.
func Guard(arguments []string) (int, error) {
	grace, words, err := parseGuard(arguments)
	if err == nil {
		err = Supported()
	}
	if err != nil {
		return 0, err
	}
	if !isPipe(controlFile) || !isPipe(reportFile) {
		return 0, errNotStarted
	}
	syscall.CloseOnExec(controlFile)
	syscall.CloseOnExec(reportFile)
	control, reports := os.NewFile(controlFile, "control"), reporter{os.NewFile(reportFile, "report")}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	// The engine gets a signal at the death of the thread that started it, which is this one: it lives as long as the process.
	runtime.LockOSThread()
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		return 0, fmt.Errorf("this system lets no process adopt orphans: %w", errno)
	}
	pid, err := startEngine(words)
	if err != nil {
		reports.send(report{Error: err.Error()})
		return cannotStart, nil //nolint:nilerr // the report tells the starter; the code is all that is left to say
	}
	reports.send(report{PID: pid})
	g := &guard{grace: grace, reports: reports, engine: pid, commands: make(chan byte), reaped: make(chan reaped), gone: make(chan struct{})}
	go g.listen(control)
	go g.reap()
	return g.run(signals), nil
}

// isPipe tells what the starter gave from what happens to be open under that number.
func isPipe(file int) bool {
	var stat syscall.Stat_t
	return syscall.Fstat(file, &stat) == nil && stat.Mode&syscall.S_IFMT == syscall.S_IFIFO
}

func startEngine(words []string) (pid int, err error) {
	path, err := exec.LookPath(words[0])
	if err != nil {
		return 0, err
	}
	p, err := os.StartProcess(path, words, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		// A group of its own: what an engine sends to its group is not for us.
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return 0, err
	}
	pid = p.Pid
	return pid, p.Release() // reap waits for all children alike
}

// guard is the state of the one guard of a process; run's goroutine owns it.
type guard struct {
	grace    time.Duration
	reports  reporter
	engine   int           // process ID
	commands chan byte     // from the control pipe
	reaped   chan reaped   // children that have ended
	gone     chan struct{} // closed when there is no child left, and so no descendant
	code     int
}

// reaped is a child that has ended.
type reaped struct {
	pid    int
	status syscall.WaitStatus
}

// listen passes on what the control pipe says. Its end is a command to end.
func (g *guard) listen(control *os.File) {
	one := make([]byte, 1)
	for {
		n, err := control.Read(one)
		if n == 1 {
			select {
			case g.commands <- one[0]:
			case <-g.gone:
				return
			}
		}
		if err != nil {
			select {
			case g.commands <- commandEnd:
			case <-g.gone:
			}
			return
		}
	}
}

// reap waits for children, those it was given as orphans too, until there is none.
func (g *guard) reap() {
	defer close(g.gone)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return
		default:
			g.reaped <- reaped{pid, status}
		}
	}
}

// run returns when nothing is left, with the exit code.
func (g *guard) run(signals <-chan os.Signal) int {
	var grace, sweep <-chan time.Time // nil: nothing to wait for
	end := func() {
		if grace == nil && sweep == nil {
			signalAll(syscall.SIGTERM)
			signalAll(syscall.SIGCONT) // what is stopped hears it only then
			grace = time.After(g.grace)
		}
	}
	kill := func() {
		signalAll(syscall.SIGKILL)
		sweep = time.After(sweepEvery)
	}
	for {
		select {
		case <-g.gone:
			return g.code
		case <-signals:
			end()
		case command := <-g.commands:
			if command == commandKill {
				kill()
			} else {
				end()
			}
		case child := <-g.reaped:
			if child.pid == g.engine {
				g.ended(child.status)
				end()
			}
		case <-grace:
			kill()
		case <-sweep:
			kill()
		}
	}
}

// ended notes how the engine's main process ended.
func (g *guard) ended(status syscall.WaitStatus) {
	exit := Exit{Code: status.ExitStatus()}
	g.code = exit.Code
	if status.Signaled() {
		exit = Exit{Signal: status.Signal().String()}
		g.code = signalled + int(status.Signal())
	}
	g.reports.send(report{Exit: &exit})
}
