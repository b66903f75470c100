package chaos

import "fmt"

// Kind is what a fault does.
type Kind uint8

// The kinds of faults. Back is how long an engine that ended stays away, For how long the others last.
const (
	Kill      Kind = iota // kill -9; the same address serves again after Back
	Stop                  // SIGSTOP, and SIGCONT after For
	Term                  // SIGTERM, after which the engine hangs; killed after For, it comes back after Back
	Core                  // the engine's core dies: error frames, then the end of the process, Back
	Hang                  // the engine's core stands still, its API server answers as ever, For
	HangAfter             // answers stop after Tokens, For
	Slow                  // passes take Factor times as long, For
	Status                // requests are answered with Status, For
	Break                 // answers under way end with an error frame
	Cut                   // connections break in the middle of a frame
	Delay                 // each byte comes late by Latency and up to Jitter more, For
	Partition             // nothing comes through, and nothing breaks, For
	Events                // cache events go wrong as Events says, For
	Clock                 // the engine's wall clock is ahead by Jump, For
	Flap                  // killed Times times, back after Back each time

	NumKinds
)

var kindNames = [NumKinds]string{
	"kill", "stop", "term", "core", "hang", "hang-after", "slow", "status", "break", "cut", "delay", "partition", "events", "clock", "flap",
}

// String returns the word used in plans.
func (k Kind) String() string {
	if k < NumKinds {
		return kindNames[k]
	}
	return "unknown"
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Kind) UnmarshalText(text []byte) error {
	for i, name := range kindNames {
		if name == string(text) {
			*k = Kind(i) //nolint:gosec // an index of the array
			return nil
		}
	}
	return fmt.Errorf("%q is no kind of fault: there are %v", text, kindNames)
}

// MarshalText implements encoding.TextMarshaler.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// restarts says whether the fault ends the engine's process, so that it needs Plimsoll to have started it.
func (k Kind) restarts() bool {
	switch k {
	case Kill, Term, Core, Flap:
		return true
	case Stop, Hang, HangAfter, Slow, Status, Break, Cut, Delay, Partition, Events, Clock, NumKinds:
	}
	return false
}

// injected says whether a simulated engine is asked for the fault over HTTP, which no real one knows.
func (k Kind) injected() bool {
	switch k {
	case Core, Hang, HangAfter, Slow, Status, Break, Events, Clock:
		return true
	case Kill, Stop, Term, Cut, Delay, Partition, Flap, NumKinds:
	}
	return false
}

// breaks says whether clients' answers are struck, so that their gaps count.
func (k Kind) breaks() bool {
	switch k {
	case Kill, Stop, Term, Core, Hang, Break, Cut, Partition, Flap:
		return true
	case HangAfter, Slow, Status, Delay, Events, Clock, NumKinds:
	}
	return false
}

// silent says whether the struck answers stand still rather than end, so that they must be found by their silence.
func (k Kind) silent() bool {
	switch k {
	case Stop, Term, Hang, Partition:
		return true
	case Kill, Core, Break, Cut, Flap, HangAfter, Slow, Status, Delay, Events, Clock, NumKinds:
	}
	return false
}
