package replica

import (
	"errors"
	"fmt"
	"time"

	"plimsoll/actors/supervise"
	"plimsoll/engine"
	"plimsoll/scoring"
)

// Config says how one replica is watched and limited.
type Config struct {
	ID    scoring.ReplicaID
	Model string // the served model's name
	// Identity is what and where the engine is, for operators' eyes.
	Identity string
	// EngineModel is the engine's own name of the model as its operator says it; "": what the model's engines agree on.
	EngineModel string
	// Process names what the engine runs in. Replicas of one process (data-parallel ranks) fail together.
	Process string

	// What the operator says of the engine where it does not tell, or wants lower; nil leaves it to the engine.
	CapacityTokens *scoring.Tokens // tokens the KV cache holds
	Seats          *int            // sequences at once
	SequenceTokens *scoring.Tokens // longest prompt plus answer

	FeedWait    time.Duration // a replica whose engine reports cache events is ready without them after this time
	FeedSilence time.Duration // a feed that says nothing for this time after work that changed the cache is not relied on
	// ReachWait is how long after its grant a request may still be on its way to the engine, so that it runs on whatever
	// process is there then.
	ReachWait    time.Duration
	AnnounceWait time.Duration // after a restart of the actor nothing is granted for at most this time
	ShedFirst    time.Duration // cooling after a first shed that names no time
	ShedCap      time.Duration // longest such cooling; it doubles from ShedFirst
	ShedMost     time.Duration // longest cooling that an engine may ask for
	// A replica that refuses us (key, missing model) while its probes succeed is tried again after DegradedFirst, which
	// doubles to DegradedCap.
	DegradedFirst, DegradedCap time.Duration
	FailedProbes               int // probes in a row that must fail before a replica that served counts as down
	// ProbePatience is for how long a replica that has nothing to do may answer no probe in time before it counts as down: late is not dead.
	ProbePatience time.Duration

	ProbeInterval time.Duration // between probes of a live engine
	ProbeTimeout  time.Duration // of one probe
	ProbeFirst    time.Duration // first retry of a dead engine; doubles to ProbeCap
	ProbeCap      time.Duration
	RefusedCap    time.Duration // likewise, where nobody listens: that costs nobody anything, and a new process is found soon

	// Of the rule that finds hung engines (doc.go).
	HangLeast time.Duration // no shorter silence is suspicious
	HangBlind time.Duration // silence that is suspicious of a replica of which too little was seen
	HangDoubt time.Duration // how long its step counter is waited for
	// FirstTokenTimeout is how long a first token is waited for: so long is the patience with work that nobody was ever seen at.
	FirstTokenTimeout time.Duration
	CanaryRetry       time.Duration    // between two canaries to a replica that hung
	HangRestart       time.Duration    // after it has given nothing for so long, its canary included, a process of ours is started anew
	HangGiveUp        time.Duration    // likewise, of one that answers no probe or breaks whatever it is sent
	CanaryToken       uint32           // the prompt of a canary: any ID that the model's vocabulary has
	BreaksMax         int              // attempts in a row that broke before a replica is taken out
	Strikes           supervise.Config // how long a replica stays out after each strike at least

	// A replica that becomes ready has RampSeats at first, and two more with each first token; all of them RampTime after the
	// first one.
	RampSeats int
	RampTime  time.Duration
}

// DefaultConfig returns the settings for a replica without anything said by the operator.
func DefaultConfig(id scoring.ReplicaID, model string) Config {
	return Config{
		ID: id, Model: model, Process: string(id),
		FeedWait: 2 * time.Second, FeedSilence: 10 * time.Second, ReachWait: time.Second, AnnounceWait: time.Second,
		ShedFirst: 500 * time.Millisecond, ShedCap: 8 * time.Second, ShedMost: 30 * time.Second,
		DegradedFirst: time.Second, DegradedCap: 30 * time.Second, FailedProbes: 2,
		ProbeInterval: time.Second, ProbeTimeout: 2 * time.Second,
		ProbeFirst: 250 * time.Millisecond, ProbeCap: 5 * time.Second, RefusedCap: time.Second,
		HangLeast: 250 * time.Millisecond, HangBlind: 10 * time.Second, HangDoubt: 100 * time.Millisecond,
		CanaryRetry: time.Second, HangRestart: 10 * time.Minute, HangGiveUp: 10 * time.Second, FirstTokenTimeout: 10 * time.Minute, ProbePatience: 10 * time.Second, CanaryToken: 1, BreaksMax: 5,
		Strikes:   supervise.Config{First: 250 * time.Millisecond, Cap: 4 * time.Second, Window: time.Minute, Jitter: 0.2},
		RampSeats: 8, RampTime: 2 * time.Second,
	}
}

// ProbePause is how long to wait after a probe that failed so, without jitter, and what to ask with after the next one. retry is
// ProbeFirst after an answer.
func (c Config) ProbePause(retry time.Duration, f *engine.Failure) (pause, next time.Duration) {
	longest := c.ProbeCap
	if f.Kind == engine.Refused {
		longest = min(longest, c.RefusedCap)
	}
	return min(retry, longest), min(2*retry, longest)
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
	case c.ProbeInterval <= 0 || c.ProbeTimeout <= 0 || c.ProbeFirst <= 0 || c.ProbeCap < c.ProbeFirst || c.RefusedCap < c.ProbeFirst:
		return errors.New("probe times must be positive and the caps no less than the first")
	case c.FeedSilence <= 0:
		return errors.New("kv-events-silence must be positive")
	case c.FeedWait < 0 || c.ReachWait < 0 || c.AnnounceWait < 0 || c.FailedProbes < 1:
		return errors.New("waits must not be negative, and at least one failed probe is needed to call a replica down")
	case c.HangLeast <= 0 || c.HangBlind < c.HangLeast || c.HangDoubt <= 0 || c.CanaryRetry <= 0 || c.HangGiveUp <= 0 || c.HangRestart <= 0 || c.FirstTokenTimeout <= 0 || c.ProbePatience <= 0 || c.BreaksMax < 1:
		return errors.New("silences and retries must be positive, the one of an unknown replica no shorter than the least, and at least one attempt must break")
	case c.BreaksMax > unlikesMax:
		return fmt.Errorf("of the requests that broke %d are remembered", unlikesMax)
	case c.RampSeats < 1 || c.RampTime < 0:
		return errors.New("a replica needs at least one seat to ramp up, and no negative time")
	case c.ShedMost <= 0:
		return errors.New("the time for which a replica is left alone that sheds must be positive")
	case c.ShedFirst <= 0 || c.ShedCap < c.ShedFirst || c.DegradedFirst <= 0 || c.DegradedCap < c.DegradedFirst:
		return errors.New("the times a replica is left alone must be positive and each cap no less than its first")
	}
	return nil
}
