package managed

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"plimsoll/actors/supervise"
	"plimsoll/engine"
	"plimsoll/engine/process"
)

// Config says what is started and how patient we are with it.
type Config struct {
	Name    string // the replica's
	Command process.Command
	Index   int    // of the engine among those of its command, from 0
	Device  string // what stands for {device}; "" for nothing
	LogFile string // may hold the placeholders; "" sends the output to the log, at level debug

	StartTimeout time.Duration // from the start to the first probe that succeeds; longer counts as a crash
	Grace        time.Duration // what is asked to end is made to after this
	LogBytes     int64         // the log file's size at most; there are two of them
	// Backoff is how long to wait before it is started again; failures further apart than its Window start anew.
	Backoff supervise.Config
}

// DefaultConfig is everything but name and command.
func DefaultConfig() Config {
	return Config{
		StartTimeout: 10 * time.Minute, Grace: 10 * time.Second, LogBytes: 64 << 20,
		Backoff: supervise.Config{First: 500 * time.Millisecond, Cap: 30 * time.Second, Window: 10 * time.Minute, Jitter: 0.2},
	}
}

// Validate says what is wrong.
func (c Config) Validate() error {
	switch {
	case c.Name == "":
		return errors.New("an engine to start needs a name")
	case c.StartTimeout <= 0 || c.Grace <= 0:
		return errors.New("the times to start and to end must be positive")
	case c.LogBytes < 1:
		return errors.New("the log's size must be positive")
	case c.Backoff.First <= 0 || c.Backoff.Cap < c.Backoff.First || c.Backoff.Jitter < 0 || c.Backoff.Jitter > 1:
		return errors.New("the back-off must be positive, its cap no less than its first, its jitter from 0 to 1")
	}
	return c.Command.Validate()
}

// Deps are what an Engine needs from outside. All are required.
type Deps struct {
	// Guard is the command line that makes this binary a guard.
	Guard []string
	// Connect makes the adapter of a life, which listens at a URL. It does not connect. Its capabilities do not depend on it.
	Connect func(url string) (engine.Engine, error)
	Ports   Ports
	Log     *slog.Logger
	Seed    uint64 // of jitter
}

// Ports hands out ports, as process.Ports does.
type Ports interface {
	Take(ctx context.Context) (int, error)
	Return(port int)
}
