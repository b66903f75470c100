package replica

import (
	"errors"
	"time"

	"plimsoll/scoring"
)

// Config says how one replica is watched and limited.
type Config struct {
	ID    scoring.ReplicaID
	Model string // the served model's name

	// What the operator says of the engine where it does not tell, or wants lower; nil leaves it to the engine.
	CapacityTokens *scoring.Tokens // tokens the KV cache holds
	Seats          *int            // sequences at once
	SequenceTokens *scoring.Tokens // longest prompt plus answer

	FeedWait     time.Duration // a replica whose engine reports cache events is ready without them after this time
	AnnounceWait time.Duration // after a restart of the actor nothing is granted for at most this time
	ShedFirst    time.Duration // cooling after a first shed that names no time
	ShedCap      time.Duration // longest such cooling; it doubles from ShedFirst
	// A replica that refuses us (key, missing model) while its probes succeed is tried again after DegradedFirst, which
	// doubles to DegradedCap.
	DegradedFirst, DegradedCap time.Duration
	FailedProbes               int // probes in a row that must fail before a replica that served counts as down

	ProbeInterval time.Duration // between probes of a live engine
	ProbeTimeout  time.Duration // of one probe
	ProbeFirst    time.Duration // first retry of a dead engine; doubles to ProbeCap
	ProbeCap      time.Duration
}

// DefaultConfig returns the settings for a replica without anything said by the operator.
func DefaultConfig(id scoring.ReplicaID, model string) Config {
	return Config{
		ID: id, Model: model,
		FeedWait: 2 * time.Second, AnnounceWait: time.Second,
		ShedFirst: 500 * time.Millisecond, ShedCap: 8 * time.Second,
		DegradedFirst: time.Second, DegradedCap: 30 * time.Second, FailedProbes: 2,
		ProbeInterval: time.Second, ProbeTimeout: 2 * time.Second,
		ProbeFirst: 250 * time.Millisecond, ProbeCap: 5 * time.Second,
	}
}

// Validate reports what makes no sense.
func (c Config) Validate() error {
	switch {
	case c.ID == "":
		return errors.New("a replica needs a name")
	case c.CapacityTokens != nil && *c.CapacityTokens < 1:
		return errors.New("capacity-tokens must be at least 1")
	case c.Seats != nil && *c.Seats < 1:
		return errors.New("slots must be at least 1")
	case c.SequenceTokens != nil && *c.SequenceTokens < 2:
		return errors.New("the longest sequence must be at least 2 tokens")
	case c.ProbeInterval <= 0 || c.ProbeTimeout <= 0 || c.ProbeFirst <= 0 || c.ProbeCap < c.ProbeFirst:
		return errors.New("probe times must be positive and the cap no less than the first")
	case c.FeedWait < 0 || c.AnnounceWait < 0 || c.FailedProbes < 1:
		return errors.New("waits must not be negative, and at least one failed probe is needed to call a replica down")
	case c.ShedFirst <= 0 || c.ShedCap < c.ShedFirst || c.DegradedFirst <= 0 || c.DegradedCap < c.DegradedFirst:
		return errors.New("the times a replica is left alone must be positive and each cap no less than its first")
	}
	return nil
}
