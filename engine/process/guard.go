package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// The guard's open files beside the standard ones.
const (
	controlFile = 3 // to read: commands; end of file when the starter is gone
	reportFile  = 4 // to write: one JSON object a line
)

// Commands of the control pipe.
const (
	commandEnd  = 'T' // ask all to end, and make them after the grace
	commandKill = 'K' // make all end now
)

// report is one line that a guard writes.
type report struct {
	PID   int    `json:"pid,omitempty"`   // the engine runs
	Error string `json:"error,omitempty"` // it cannot be started
	Exit  *Exit  `json:"exit,omitempty"`  // its main process has ended; others may still run
}

// Exit is how an engine's main process ended.
type Exit struct {
	Code   int    `json:"code"`             // its exit code, if no signal ended it
	Signal string `json:"signal,omitempty"` // what ended it, e.g. "killed"
	// Error is why there is no other answer: it could not be started, or its guard is gone.
	Error string `json:"error,omitempty"`
}

// String says it in words.
func (e Exit) String() string {
	switch {
	case e.Error != "":
		return e.Error
	case e.Signal != "":
		return "ended by signal: " + e.Signal
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// signalled is added to a signal's number to make an exit code of it, as shells do.
const signalled = 128

// cannotStart is the guard's exit code for a program that does not start.
const cannotStart = 127

// guardArguments are what stands behind the word that makes the binary a guard: how long what is asked to end may take, the
// program and its arguments.
func guardArguments(grace time.Duration, words []string) []string {
	return append([]string{grace.String()}, words...)
}

// parseGuard is the inverse of guardArguments.
func parseGuard(arguments []string) (grace time.Duration, words []string, err error) {
	if len(arguments) < 2 {
		return 0, nil, errNotStarted
	}
	grace, err = time.ParseDuration(arguments[0])
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errNotStarted, err)
	}
	return grace, arguments[1:], nil
}

// errNotStarted is for those who call a guard by hand.
var errNotStarted = errors.New("plimsoll guard is for plimsoll serve --launch alone, which starts it")

// reporter writes reports. Nobody may be left to read them.
type reporter struct{ out *os.File }

func (r reporter) send(line report) {
	text, err := json.Marshal(line)
	if err == nil {
		_, _ = r.out.Write(append(text, '\n'))
	}
}
