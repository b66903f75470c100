package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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
	cmd       *exec.Cmd
	url       string           // where it listens; of a plimsoll
	listening chan string      // likewise, once it says so
	state     *os.ProcessState // how it ended; when it is done
	done      chan struct{}    // it has ended, and its log with it

	mu   sync.Mutex
	tail []string // guarded by mu: the log's last lines
}

// launch starts a plimsoll and returns when it listens. Its log goes to w too.
func launch(ctx context.Context, w io.Writer, binary string, args ...string) (*process, error) {
	p, err := begin(w, append([]string{binary}, append(args, "--log-format", "json")...))
	if err != nil {
		return nil, err
	}
	select {
	case p.url = <-p.listening:
		return p, nil
	case <-p.done:
		err = errEnded
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.kill()
	return nil, p.late("plimsoll "+strings.Join(args, " "), err)
}

// healthEvery is how often a program that comes up is asked.
const healthEvery = 100 * time.Millisecond

// launchServer starts a program and returns when it is healthy. What it prints goes to w too.
func launchServer(ctx context.Context, w io.Writer, words []string, healthy func(context.Context) bool) (*process, error) {
	p, err := begin(w, words)
	if err != nil {
		return nil, err
	}
	for err == nil && !healthy(ctx) {
		select {
		case <-time.After(healthEvery):
		case <-p.done:
			err = errEnded
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err == nil {
		return p, nil
	}
	p.kill()
	return nil, p.late(strings.Join(words, " "), err)
}

var errEnded = errors.New("it ended")

func (p *process) late(what string, err error) error {
	return fmt.Errorf("chaos: %s did not come up: %w\n%s", what, err, p.lastLines())
}

// begin starts a program.
func begin(w io.Writer, words []string) (*process, error) {
	p := &process{
		cmd:  exec.Command(words[0], words[1:]...), //nolint:noctx,gosec // ended by kill; ourselves, or what the plan says
		done: make(chan struct{}), listening: make(chan string, 1),
	}
	log, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout = p.cmd.Stderr
	started := make(chan error, 1)
	go func() {
		defer close(p.done)
		p.live(started, log, w)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	return p, nil
}

// lastWords is how long a log is read when its process has ended: others that it has started may hold it open.
const lastWords = time.Second

// live is the process's whole life: it says whether it has started, reads what it logs, and waits for its end. What dies with
// its parent dies with the thread that started it, so that this one is kept for as long.
func (p *process) live(started chan<- error, log io.ReadCloser, w io.Writer) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	endWithParent(p.cmd)
	err := p.cmd.Start()
	if started <- err; err != nil {
		return
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.read(log, w)
	}()
	p.state, _ = p.cmd.Process.Wait() // of a child of ours, which nobody else waits for
	late := time.AfterFunc(lastWords, func() { _ = log.Close() })
	<-read
	late.Stop()
	_ = log.Close()
}

// read follows the log.
func (p *process) read(log io.Reader, w io.Writer) {
	lines := bufio.NewScanner(log)
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
			case p.listening <- line.URL:
			default:
			}
		}
	}
	_, _ = io.Copy(io.Discard, log) // a line was too long
}

func (p *process) lastLines() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.tail, "\n")
}

func (p *process) signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// spent is the CPU time of a process that is done.
func (p *process) spent() time.Duration { return p.state.UserTime() + p.state.SystemTime() }

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
	return p.spent()
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
