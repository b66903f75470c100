package stream

import (
	"errors"
	"fmt"
	"time"
)

// Config holds the limits of a stream.
type Config struct {
	// JournalBytes bounds what a client has not read yet; beyond it the request is cancelled.
	JournalBytes int
	// FirstTokenTimeout is how long an engine may work on a prompt; TokenTimeout how long it may pause between tokens.
	FirstTokenTimeout time.Duration
	TokenTimeout      time.Duration
	// StallLeast is the shortest time that counts as either, however quick the replica is.
	StallLeast time.Duration
	// SettleTimeout is how long an engine that has given all its tokens may take to say so before it is aborted.
	SettleTimeout time.Duration
	// AttemptsMax bounds the attempts of a leg; FruitlessMax those in a row that got what it had produced, were begun by the
	// engine, and added no token: an answer that breaks engines must not break all of them.
	AttemptsMax  int
	FruitlessMax int
	// RetryWait is how long a leg that was shed waits for the retry budget, RetryPoll how often it tries.
	RetryWait time.Duration
	RetryPoll time.Duration
	// HedgeAfter is after how many times as long as its replica was predicted to need for it a first token is late, so that
	// a second attempt is begun on another one, and the quicker goes on. 0: never. Where nothing is predicted none is late.
	HedgeAfter float64
	// RouterWait is how long a router may say nothing of a submission before it is asked whether it knows it, and how long it
	// may be silent then before the request is submitted anew. It is longer than a router is away that restarts.
	RouterWait time.Duration
	// EncodeWait is how long after a request's arrival its prompts must be known.
	EncodeWait time.Duration
	// ResubmitsMax bounds how often a request is submitted anew because its router restarted or is silent: one that makes the
	// router panic must not do so for ever.
	ResubmitsMax int
}

// HedgeAfterMax bounds Config.HedgeAfter: far beyond any use, and far from an overflow.
const HedgeAfterMax = 1000

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		JournalBytes: 16 << 20, FirstTokenTimeout: 10 * time.Minute, TokenTimeout: time.Minute, StallLeast: 20 * time.Second,
		SettleTimeout: time.Second, AttemptsMax: 8, FruitlessMax: 2, RetryWait: time.Second, RetryPoll: 10 * time.Millisecond, HedgeAfter: 0,
		RouterWait: 10 * time.Second, EncodeWait: 2 * time.Minute, ResubmitsMax: 3,
	}
}

// Validate reports what makes no sense.
func (c Config) Validate() error {
	if c.JournalBytes < 1 || c.AttemptsMax < 1 || c.FruitlessMax < 1 || c.ResubmitsMax < 0 {
		return errors.New("journal bytes and attempts must be at least 1, resubmissions at least 0")
	}
	if c.FirstTokenTimeout <= 0 || c.TokenTimeout <= 0 || c.StallLeast <= 0 || c.SettleTimeout <= 0 || c.RetryWait <= 0 || c.RetryPoll <= 0 || c.RouterWait <= 0 || c.EncodeWait <= 0 {
		return errors.New("stream time-outs must be positive")
	}
	if c.HedgeAfter != 0 && !(c.HedgeAfter >= 1 && c.HedgeAfter <= HedgeAfterMax) { // also what is no number
		return fmt.Errorf("a hedge after %g times the predicted first token makes no sense: 0 for never, or 1 to %d", c.HedgeAfter, HedgeAfterMax)
	}
	return nil
}
