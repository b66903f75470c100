package kvevents

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"plimsoll/engine/wire"
)

// Config says where one engine publishes its cache events, and bounds what listening to it may cost.
type Config struct {
	// Endpoint is the publisher's address, tcp://HOST:PORT: the one to connect to or, with Bind, the one to listen on for
	// engines that connect out (vLLM does where its own endpoint names no wildcard).
	Endpoint string
	Bind     bool
	// ReplayEndpoint answers with what was published before; "": the engine has none, so what happened before the
	// connection, or is lost, stays unknown.
	ReplayEndpoint string
	Topic          string // prefix of the topics to hear; "": all
	// Rank is the data-parallel rank whose batches count, where engines share a bound endpoint; nil: all batches.
	Rank *int

	ReplayTimeout        time.Duration // longest silence within a replay, and how long what is known may wait for proof
	ReplayWhole          time.Duration // longest replay: one that goes on and on is none, and holds up what is published
	RetryFirst, RetryMax time.Duration // wait before a failed replay is tried again; doubles, with jitter
	// CheckFirst after it is connected, and every CheckEvery, a publisher of whom nothing was heard is asked whether there
	// was something: nothing else would show a loss before a silence.
	CheckFirst, CheckEvery time.Duration
	ConnectTimeout         time.Duration // of a connection and of the handshake on it
	ConnectFirst           time.Duration // wait before a broken connection is made anew; doubles, with jitter
	ConnectMax             time.Duration

	ReplayBatchesMax int // batches of one replay; more are taken for a fault
	BufferBatchesMax int // published batches that wait for a replay; more end it
	BufferBytesMax   int // their payloads' bytes; of as many more that are long, what was read may wait for its turn
	MessageBytesMax  int // of one message; a longer one breaks the connection
	ConnectionsMax   int // engines connected to a bound endpoint at the same time
}

// DefaultConfig holds everything but the endpoints.
func DefaultConfig() Config {
	return Config{
		ReplayTimeout:  5 * time.Second,
		ReplayWhole:    time.Minute,
		RetryFirst:     time.Second,
		RetryMax:       30 * time.Second,
		CheckFirst:     250 * time.Millisecond,
		CheckEvery:     30 * time.Second,
		ConnectTimeout: 5 * time.Second,
		ConnectFirst:   50 * time.Millisecond,
		ConnectMax:     2 * time.Second,

		ReplayBatchesMax: 1 << 20, // vLLM keeps 10,000 unless told otherwise
		BufferBatchesMax: 1 << 16,
		BufferBytesMax:   64 << 20,
		MessageBytesMax:  16 << 20,
		ConnectionsMax:   64,
	}
}

// Validate says what is wrong, all of it, by field.
func (c Config) Validate() error {
	errs := []error{
		wire.PositiveDuration("ReplayTimeout", c.ReplayTimeout),
		wire.PositiveDuration("ReplayWhole", c.ReplayWhole),
		wire.PositiveDuration("RetryFirst", c.RetryFirst),
		wire.PositiveDuration("RetryMax", c.RetryMax),
		wire.PositiveDuration("CheckFirst", c.CheckFirst),
		wire.PositiveDuration("CheckEvery", c.CheckEvery),
		wire.PositiveDuration("ConnectTimeout", c.ConnectTimeout),
		wire.PositiveDuration("ConnectFirst", c.ConnectFirst),
		wire.PositiveDuration("ConnectMax", c.ConnectMax),
		wire.AtLeastOne("ReplayBatchesMax", &c.ReplayBatchesMax),
		wire.AtLeastOne("BufferBatchesMax", &c.BufferBatchesMax),
		wire.AtLeastOne("BufferBytesMax", &c.BufferBytesMax),
		wire.AtLeastOne("MessageBytesMax", &c.MessageBytesMax),
		wire.AtLeastOne("ConnectionsMax", &c.ConnectionsMax),
	}
	if _, err := addressOf(c.Endpoint, c.Bind); err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", "Endpoint", err))
	}
	if c.ReplayEndpoint != "" {
		if _, err := addressOf(c.ReplayEndpoint, false); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", "ReplayEndpoint", err))
		}
	}
	if c.Rank != nil && *c.Rank < 0 {
		errs = append(errs, fmt.Errorf("%s is %d: want at least 0", "Rank", *c.Rank))
	}
	return errors.Join(errs...)
}

// Deps are what a source uses.
type Deps struct {
	Log *slog.Logger
	// Entropy returns random bits, for jitter. It is called from many goroutines.
	Entropy func() uint64
}
