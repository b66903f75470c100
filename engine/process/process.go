package process

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// Config says how an engine is run.
type Config struct {
	// Guard is the command line that makes this binary a guard, without the guard's own arguments.
	Guard   []string
	Command Command       // filled in
	Grace   time.Duration // how long what is asked to end may take
	Output  io.Writer     // gets what the engine and all below it print; Start's caller closes it, if at all, after Wait
}

// outputDelay is how long the output of an engine whose guard was killed may stay open.
const outputDelay = time.Second

// Process is an engine that was started.
type Process struct {
	cmd     *exec.Cmd
	control *os.File
	started chan int  // gets the process ID, closed without if it did not start
	exit    chan Exit // gets how the main process ended
	gone    chan struct{}
}

// Start starts a guard and, through it, the engine. An engine that cannot be started has ended: Exited says why. The caller
// must Wait.
func Start(cfg Config) (*Process, error) {
	if err := Supported(); err != nil {
		return nil, err
	}
	if len(cfg.Guard) == 0 || len(cfg.Command.Words) == 0 {
		return nil, errors.New("there is no guard or no command")
	}
	var pipes pipes
	controlIn, controlOut := pipes.open()
	reportIn, reportOut := pipes.open()
	outputIn, outputOut := pipes.open()
	if pipes.err != nil {
		pipes.close()
		return nil, pipes.err
	}
	cmd := exec.Command(cfg.Guard[0], append(cfg.Guard[1:len(cfg.Guard):len(cfg.Guard)], guardArguments(cfg.Grace, cfg.Command.Words)...)...) //nolint:noctx // it ends by its control pipe, in steps
	cmd.Dir = cfg.Command.Folder
	cmd.Env = append(os.Environ(), cfg.Command.Environment...)
	cmd.Stdout, cmd.Stderr = outputOut, outputOut
	cmd.ExtraFiles = []*os.File{controlIn, reportOut} // controlFile, reportFile
	detach(cmd)
	if err := cmd.Start(); err != nil {
		pipes.close()
		return nil, fmt.Errorf("the engine's guard cannot be started: %w", err)
	}
	for _, theirs := range []*os.File{controlIn, reportOut, outputOut} {
		_ = theirs.Close() // an open copy would hide the guard's end
	}
	p := &Process{cmd: cmd, control: controlOut, started: make(chan int, 1), exit: make(chan Exit, 1), gone: make(chan struct{})}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(cfg.Output, outputIn) // nobody to tell: the output is where one would
	}()
	go p.follow(reportIn, outputIn, copied)
	return p, nil
}

// pipes are opened together or not at all.
type pipes struct {
	files []*os.File
	err   error
}

func (p *pipes) open() (in, out *os.File) {
	if p.err != nil {
		return nil, nil
	}
	in, out, p.err = os.Pipe()
	if p.err == nil {
		p.files = append(p.files, in, out)
	}
	return in, out
}

func (p *pipes) close() {
	for _, f := range p.files {
		_ = f.Close()
	}
}

// follow reads the guard's reports until it has ended.
func (p *Process) follow(reports, output *os.File, copied <-chan struct{}) {
	defer close(p.gone)
	lines := bufio.NewScanner(reports)
	told := false
	for lines.Scan() {
		var line report
		switch err := json.Unmarshal(lines.Bytes(), &line); {
		case err != nil:
		case line.Error != "":
			p.exit <- Exit{Error: "it cannot be started: " + line.Error}
			told = true
		case line.Exit != nil:
			p.exit <- *line.Exit
			told = true
		default:
			p.started <- line.PID
		}
	}
	_ = reports.Close()
	err := p.cmd.Wait()
	if !told {
		why := "its guard ended without a word"
		if err != nil {
			why = "its guard ended: " + err.Error()
		}
		p.exit <- Exit{Error: why}
	}
	close(p.started)
	close(p.exit)
	_ = p.control.Close()
	// Nothing is left that could write, unless the guard was killed.
	late := time.NewTimer(outputDelay)
	defer late.Stop()
	select {
	case <-copied:
	case <-late.C:
	}
	_ = output.Close()
	<-copied
}

// Started gets the ID of the engine's main process once it runs; it is closed, maybe without, at the latest when all are gone.
func (p *Process) Started() <-chan int { return p.started }

// Exited gets how the main process ended, and is closed then or a little later. What it started may still run.
func (p *Process) Exited() <-chan Exit { return p.exit }

// Wait returns when the engine and all below it are gone.
func (p *Process) Wait() { <-p.gone }

// End asks the engine and all below it to end, and makes them when the grace is over. It does not wait.
func (p *Process) End() { p.tell(commandEnd) }

// Kill makes them end now. It does not wait.
func (p *Process) Kill() { p.tell(commandKill) }

// tell sends a command. A guard that is gone needs none.
func (p *Process) tell(command byte) { _, _ = p.control.Write([]byte{command}) }
