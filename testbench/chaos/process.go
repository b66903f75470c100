package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// logLines is how much of a process's log is kept for an error's message.
const logLines = 20

// process is one of its own. It ends with this one, however this one ends.
type process struct {
	cmd  *exec.Cmd
	url  string        // where it listens
	done chan struct{} // it has ended, and its log with it

	mu   sync.Mutex
	tail []string // guarded by mu: the log's last lines
}

// launch starts a command and returns when it listens. Its log goes to w too.
func launch(ctx context.Context, w io.Writer, binary string, args ...string) (*process, error) {
	p := &process{
		cmd:  exec.Command(binary, append(args, "--log-format", "json")...), //nolint:noctx,gosec // ended by kill; ourselves
		done: make(chan struct{}),
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	started, listening := make(chan error, 1), make(chan string, 1)
	go func() {
		defer close(p.done)
		p.live(started, func() { p.read(stderr, w, listening) })
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("chaos: %s: %w", args[0], err)
	}
	select {
	case p.url = <-listening:
		return p, nil
	case <-p.done:
		err = errors.New("it ended")
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.kill()
	return nil, fmt.Errorf("chaos: plimsoll %s did not come up: %w\n%s", strings.Join(args, " "), err, p.lastLines())
}

// live is the process's whole life: it says whether it has started, reads on until there is nothing more to read, and waits for
// its end. What dies with its parent dies with the thread that started it, so that this one is kept for as long.
func (p *process) live(started chan<- error, read func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	endWithParent(p.cmd)
	err := p.cmd.Start()
	if started <- err; err == nil {
		read()
		_ = p.cmd.Wait() // how it ended is no news
	}
}

// read follows the log.
func (p *process) read(stderr io.Reader, w io.Writer, listening chan<- string) {
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		_, _ = w.Write(append(slices.Clone(lines.Bytes()), '\n'))
		p.mu.Lock()
		p.tail = append(p.tail, lines.Text())
		p.tail = p.tail[max(0, len(p.tail)-logLines):]
		p.mu.Unlock()
		var line struct{ Msg, URL string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
			select {
			case listening <- line.URL:
			default:
			}
		}
	}
	_, _ = io.Copy(io.Discard, stderr) // a line was too long
}

func (p *process) lastLines() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.tail, "\n")
}

func (p *process) signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// kill ends the process at once and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// stop asks the process to end, and makes it after a while. It returns the CPU time that it took.
func (p *process) stop(within time.Duration) time.Duration {
	_ = p.signal(syscall.SIGTERM) // it may have ended
	late := time.AfterFunc(within, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	<-p.done
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// oneByOne lets many processes write their lines.
type oneByOne struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (o *oneByOne) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(line)
}
