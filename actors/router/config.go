package router

import (
	"errors"
	"fmt"
	"math"
	"time"

	"plimsoll/scoring"
	"plimsoll/scoring/policy"
	"plimsoll/scoring/queue"
)

// Admission says what is reserved for an answer.
type Admission uint8

const (
	Expected Admission = iota // the predicted output and a margin; what outgrows it is booked as overdraft
	Strict                    // max_tokens: no replica ever runs out of blocks

	NumAdmissions
)

// String returns the word used for the flag.
func (a Admission) String() string {
	switch a {
	case Expected:
		return "expected"
	case Strict:
		return "strict"
	case NumAdmissions:
	}
	return "unknown"
}

// ParseAdmission is the reverse of String.
func ParseAdmission(word string) (Admission, error) {
	for a := range NumAdmissions {
		if a.String() == word {
			return a, nil
		}
	}
	return 0, fmt.Errorf("unknown admission %q: choose expected or strict", word)
}

// Config holds the limits of a router.
type Config struct {
	Model     string
	Policy    policy.Config
	Admission Admission
	Queue     queue.Config
	// TenantWeights are the shares of those who have others than 1, by name, while requests of several tenants wait.
	TenantWeights map[string]float64
	// PromptTokensMax is the longest prompt that is let in, whatever the replicas could hold; nil: as long as fits.
	PromptTokensMax *scoring.Tokens
	// QueueTimeout is how long a request waits for room before it is refused.
	QueueTimeout time.Duration
	// ResumeWait is how long an answer that broke off waits for a replica to go on.
	ResumeWait time.Duration
	// ResumePrefillTokens is the most that one replica prefills at a time for answers that go on there, but for a single one.
	// More than what engines prefill in one pass makes the last of them wait for a second pass, which others could have begun.
	ResumePrefillTokens scoring.Tokens
	// DefaultMaxTokens is reserved in strict mode for requests that name no max_tokens.
	DefaultMaxTokens scoring.Tokens
	// RanksMax is how often a request is ranked anew after a refused reservation before it goes back to the queue.
	RanksMax int
	// MatchAge is for how long what the indexes hold of a waiting request's prompt is not looked up again.
	MatchAge time.Duration
	// ScanMax bounds how many waiting requests one sign of room makes the router try.
	ScanMax int
	// ReserveWait is how long a replica's actor may take to answer: one that has failed or was removed never does.
	ReserveWait time.Duration
	// SpeculationTTL is how long a granted prompt counts as cached where it was routed, unless the engine says so.
	SpeculationTTL time.Duration
	Credit         TierCredit
}

// TierCredit is what part of a block's prefill is saved where the block is loaded from a slower tier, 0 to 1. What is on the
// device saves it whole.
type TierCredit struct{ Host, Disk float64 }

// DefaultConfig returns the defaults for a model.
func DefaultConfig(model string) Config {
	return Config{
		Model: model, Policy: policy.DefaultConfig(), Admission: Expected, Queue: queue.DefaultConfig(),
		QueueTimeout: 30 * time.Second, ResumeWait: 30 * time.Second, ResumePrefillTokens: 8192, DefaultMaxTokens: 4096,
		RanksMax: 3, MatchAge: 50 * time.Millisecond, ScanMax: 160,
		ReserveWait: 2 * time.Second, SpeculationTTL: 10 * time.Second,
		Credit: TierCredit{Host: 0.8, Disk: 0.5},
	}
}

// Validate reports what makes no sense.
func (c Config) Validate() error {
	switch {
	case c.Model == "":
		return errors.New("a router needs a model name")
	case c.QueueTimeout < 0:
		return errors.New("queue-timeout must not be negative")
	case c.ResumeWait < 0:
		return errors.New("resume-wait must not be negative")
	case c.ReserveWait <= 0:
		return errors.New("the wait for a replica's answer must be positive")
	case c.SpeculationTTL <= 0:
		return errors.New("speculation-time must be positive")
	case !(c.Credit.Host >= 0 && c.Credit.Host <= 1 && c.Credit.Disk >= 0 && c.Credit.Disk <= 1):
		return errors.New("the credit of a cache tier must be between 0 and 1")
	case c.DefaultMaxTokens < 1 || c.ResumePrefillTokens < 1 || c.RanksMax < 1 || c.ScanMax < 1:
		return errors.New("every bound of a router must be at least 1")
	}
	for name, weight := range c.TenantWeights {
		if !(weight > 0) || math.IsInf(weight, 1) {
			return fmt.Errorf("the weight of tenant %q must be a positive number", name)
		}
	}
	return errors.Join(c.Queue.Validate(), c.Policy.Validate())
}
