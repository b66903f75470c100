package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"plimsoll/scoring"
	"plimsoll/scoring/cost"
)

// Verdict is what a decision says.
type Verdict uint8

// Verdicts.
const (
	Dispatch Verdict = iota // send it to the candidate now
	Hold                    // it waits; decide again when something changed, at Until at the latest
	Refuse                  // waiting does not help

	NumVerdicts
)

// String is the word used in explain tables.
func (v Verdict) String() string {
	switch v {
	case Dispatch:
		return "dispatch"
	case Hold:
		return "hold"
	case Refuse:
		return "refuse"
	case NumVerdicts:
	}
	return "unknown"
}

// Cause says why a request is held or refused.
type Cause uint8

// Causes of a verdict.
const (
	NoCause   Cause = iota // dispatched
	NoRoom                 // held: replicas that serve have no room
	AllCool                // held: all that have room shed a request a moment ago
	NoReplica              // refused: none serves that could hold it (503)
	TooLarge               // refused: it exceeds every replica of the model (400)

	NumCauses
)

// String is the word used in logs and metrics.
func (c Cause) String() string {
	switch c {
	case NoCause:
		return "none"
	case NoRoom:
		return "no room"
	case AllCool:
		return "all cooling"
	case NoReplica:
		return "no replica"
	case TooLarge:
		return "too large"
	case NumCauses:
	}
	return "unknown"
}

// Decision is a policy's answer for one request.
type Decision struct {
	Verdict Verdict
	Index   int       // Dispatch: place in the fleet
	Until   time.Time // Hold: decide again by then even if nothing is heard
	Cause   Cause
	// RetryAfter is when a refused client may try again; 0 where trying again is no use.
	RetryAfter time.Duration
}

// Policy ranks replicas. It is not safe for concurrent use: the router owns it.
type Policy interface {
	// Name is what New takes.
	Name() string
	// Decide answers for one request. fleet is ordered by ID and not kept.
	Decide(now time.Time, d *Demand, fleet []Candidate) Decision
	// OnDispatch, OnFirstToken and OnEnd tell what became of a request that Decide sent to a replica; policies without
	// memory ignore them.
	OnDispatch(d *Demand, id scoring.ReplicaID)
	OnFirstToken(d *Demand, id scoring.ReplicaID)
	OnEnd(d *Demand, id scoring.ReplicaID)
}

// Names lists the policies; the first is the default.
func Names() []string { return []string{tokenLoadName, leastRequestsName, p2cName, roundRobinName} }

// New returns a policy by name. rng breaks ties and belongs to the policy from then on.
func New(name string, rng *rand.Rand) (Policy, error) {
	switch name {
	case tokenLoadName:
		return &tokenLoad{rng: rng, weights: cost.DefaultWeights()}, nil
	case leastRequestsName:
		return &leastRequests{rng: rng}, nil
	case p2cName:
		return &p2c{rng: rng}, nil
	case roundRobinName:
		return &roundRobin{}, nil
	}
	return nil, fmt.Errorf("unknown policy %q: choose one of %s", name, strings.Join(Names(), ", "))
}

const (
	// holdMax is how long a decision to wait stands if nothing is heard of any replica.
	holdMax = time.Second
	// retryAfterNoReplica is about how long a replica takes to come back after a restart of its process.
	retryAfterNoReplica = 5 * time.Second
)

// notNow is the decision where no candidate is eligible.
func notNow(now time.Time, reasons []Reason, fleet []Candidate) Decision {
	if len(fleet) > 0 && !slices.ContainsFunc(reasons, func(r Reason) bool { return r != TooSmall }) {
		return Decision{Verdict: Refuse, Cause: TooLarge}
	}
	if !slices.ContainsFunc(reasons, Reason.Passes) {
		return Decision{Verdict: Refuse, Cause: NoReplica, RetryAfter: retryAfterNoReplica}
	}
	hold := Decision{Verdict: Hold, Cause: AllCool, Until: now.Add(holdMax)}
	for i, r := range reasons {
		switch {
		case r == Cooling:
			if until := *fleet[i].CoolingUntil; until.Before(hold.Until) {
				hold.Until = until
			}
		case r.Passes():
			hold.Cause = NoRoom
		}
	}
	return hold
}

// stateless is embedded by policies that remember nothing of requests.
type stateless struct{}

func (stateless) OnDispatch(*Demand, scoring.ReplicaID)   {}
func (stateless) OnFirstToken(*Demand, scoring.ReplicaID) {}
func (stateless) OnEnd(*Demand, scoring.ReplicaID)        {}
