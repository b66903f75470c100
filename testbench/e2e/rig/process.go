//go:build e2e

package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/printed"
)

const (
	// StartPatience is how long a process may take to serve.
	StartPatience = 5 * time.Minute
	// Patience is how long what processes bring about may take.
	Patience  = 30 * time.Second
	pollEvery = 50 * time.Millisecond
	logDelay  = time.Second // how long children that live on may keep the log of a process that has ended
)

// Process is one that a test started.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed once it has
	log   *printed.Text // what it prints
}

// Start starts a program that ends with the test: asked first, made to after endPatience. Children that it leaves behind
// are ended too.
func Start(t *testing.T, endPatience time.Duration, program string, arguments ...string) *Process {
	t.Helper()
	p := &Process{cmd: exec.Command(program, arguments...), ended: make(chan struct{}), log: &printed.Text{}} //nolint:noctx // it is ended in two steps below
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.WaitDelay = logDelay
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		children := p.Descendants()
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(endPatience):
			p.Kill()
		}
		EndAll(children)
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(program), tail(p.log.String(), 4000))
		}
	})
	return p
}

// Kill ends a process as a crash does. What it started may live on.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// Over says whether the process has ended.
func (p *Process) Over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Log is what the process has printed.
func (p *Process) Log() string { return p.log.String() }

// Child is a process below one of ours. Its start time tells it from a later process with its ID.
type Child struct {
	ID    int
	start string
}

// Descendants lists the living processes below this one.
func (p *Process) Descendants() []Child {
	var found []Child
	next := []int{p.cmd.Process.Pid}
	for len(next) > 0 {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", next[0]))
		next = next[1:]
		for _, file := range files {
			text, _ := os.ReadFile(file)
			for _, field := range strings.Fields(string(text)) {
				if id, err := strconv.Atoi(field); err == nil {
					found = append(found, Child{id, startOf(id)})
					next = append(next, id)
				}
			}
		}
	}
	return found
}

// startOf reads when a process started; "" if there is none.
func startOf(id int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	const startTime = 19 // field 22 of proc(5), behind ID and name
	fields := strings.Fields(rest)
	if len(fields) <= startTime || fields[0] == "Z" {
		return ""
	}
	return fields[startTime]
}

// Alive says whether the child still runs.
func (c Child) Alive() bool { return c.start != "" && startOf(c.ID) == c.start }

// EndAll ends children that still run.
func EndAll(children []Child) {
	for _, c := range children {
		if c.Alive() {
			_ = syscall.Kill(c.ID, syscall.SIGKILL)
		}
	}
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// Eventually waits for a condition that the processes bring about.
func Eventually(t *testing.T, patience time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		require.False(t, time.Now().After(deadline), "not within %v: %s", patience, what)
		time.Sleep(pollEvery)
	}
}
