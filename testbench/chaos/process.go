package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// logLines is how much of a process's log is kept for an error's message.
const logLines = 20

// process is a plimsoll of its own.
type process struct {
	cmd  *exec.Cmd
	url  string        // where it listens
	done chan struct{} // its log has ended

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
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("chaos: %s: %w", args[0], err)
	}
	listening := make(chan string, 1)
	go func() {
		defer close(p.done)
		p.read(stderr, w, listening)
	}()
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
	_ = p.cmd.Wait()
}

// stop asks the process to end, and makes it after a while. It returns the CPU time that it took.
func (p *process) stop(within time.Duration) time.Duration {
	if p.signal(syscall.SIGTERM) == nil {
		late := time.AfterFunc(within, func() { _ = p.cmd.Process.Kill() })
		<-p.done
		late.Stop()
	}
	_ = p.cmd.Wait()
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
