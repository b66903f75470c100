package policy

import (
	"fmt"
	"math/rand/v2"
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
	NoCause    Cause = iota // dispatched
	NoRoom                  // held: replicas that serve have no room; refused, by the router: and too much waits for it
	AllCool                 // held: all that have room shed a request a moment ago
	BetterBusy              // held: the replica at Index costs less, prefill queue included, but takes no prompt yet
	BetterFull              // held: the replica at Index costs less, wait for room included
	NoReplica               // refused: none serves that could hold it (503)
	TooLarge                // refused: it exceeds every replica of the model (400)
	TooLate                 // refused, by the router: its first token would come later than its SLO says (429)
	TooSlow                 // refused, by the router: so would those after it (429)

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
	case BetterBusy:
		return "better one busy"
	case BetterFull:
		return "better one full"
	case NoReplica:
		return "no replica"
	case TooLarge:
		return "too large"
	case TooLate:
		return "too late"
	case TooSlow:
		return "too slow"
	case NumCauses:
	}
	return "unknown"
}

// Decision is a policy's answer for one request.
type Decision struct {
	Verdict Verdict
	// Index is a place in the fleet: where it goes or, held for a better one, which it waits for.
	Index int
	Until time.Time // Hold: decide again by then even if nothing is heard
	Cause Cause
	// RetryAfter is when a refused client may try again; 0 where trying again is no use.
	RetryAfter time.Duration
}

// ByPolicy says whether the decision is a policy's, and not its router's alone.
func (d Decision) ByPolicy() bool {
	switch d.Cause {
	case TooLate, TooSlow:
		return false
	case NoRoom:
		return d.Verdict != Refuse
	case NoCause, AllCool, BetterBusy, BetterFull, NoReplica, TooLarge, NumCauses:
	}
	return true
}

// Policy ranks replicas. It is not safe for concurrent use: the router owns it.
//
// A pass decides for one request after the other. What is held for a replica in a pass counts as load there for those that
// follow in it; what is dispatched counts once [Pass.Booked] and OnDispatch have told of it.
type Policy interface {
	// Name is what New takes.
	Name() string
	// Begin starts a pass over the queue and forgets what was held in the one before. p is kept until the next Begin.
	Begin(p *Pass)
	// Look works out anew what a candidate is, where that has changed in the pass: [Pass.Serve] has, or a booking was given up.
	Look(i int)
	// Decide answers for one request; fits has one entry a candidate and is not kept. It changes nothing but what is held in the
	// pass and the numbers that break ties.
	Decide(d *Demand, fits []Fit) Decision
	// Bound is until when a request may be held while others could take it: from then on it takes the best that can.
	Bound(d *Demand) time.Time
	// Idle reports whether no request within its bound would be dispatched now, whatever it is, and when to look again.
	Idle() (wake time.Time, idle bool)
	// Terms names the parts of a candidate's cost and Explain appends their values; the last is the one that is compared. Explain
	// changes nothing; see [Values] for when.
	Terms() []string
	Explain(d *Demand, fits []Fit, i int, dst []float64) []float64
	// OnDispatch, OnFirstToken and OnEnd tell what became of a request that Decide sent to a replica; policies without
	// memory ignore them.
	OnDispatch(d *Demand, fits []Fit, i int)
	OnFirstToken(id scoring.ReplicaID)
	OnEnd(id scoring.ReplicaID)
}

// Config chooses a policy and sets it.
type Config struct {
	Name    string
	Weights cost.Weights

	TokenLoad      TokenLoadConfig
	PrefixAffinity PrefixAffinityConfig
	BlockCost      BlockCostConfig
	AffinityFilter AffinityFilterConfig
}

// DefaultConfig has what is published of each policy, or what its README says.
func DefaultConfig() Config {
	return Config{
		Name: tokenLoadName, Weights: cost.DefaultWeights(),
		TokenLoad: DefaultTokenLoad(), PrefixAffinity: DefaultPrefixAffinity(),
		BlockCost: DefaultBlockCost(), AffinityFilter: DefaultAffinityFilter(),
	}
}

// Names lists the policies; the first is the default.
func Names() []string {
	return []string{
		tokenLoadName, roundRobinName, randomName, p2cName, leastRequestsName, leastTokensName, sessionAffinityName,
		prefixAffinityName, blockCostName, lmetricName, affinityFilterName,
	}
}

// Validate reports what makes no sense.
func (c Config) Validate() error {
	if !(c.Weights.Reuse >= 0 && c.Weights.TTFT > 0) {
		return fmt.Errorf("weights of a policy must be positive, %+v is not", c.Weights)
	}
	for _, name := range Names() {
		if name == c.Name {
			return nil
		}
	}
	return fmt.Errorf("unknown policy %q: choose one of %s", c.Name, strings.Join(Names(), ", "))
}

// New returns a policy. rng breaks ties and belongs to the policy from then on.
func New(cfg Config, rng *rand.Rand) (Policy, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	switch cfg.Name {
	case roundRobinName:
		return &roundRobin{rng: rng}, nil
	case randomName:
		return newLeast(randomName, rng, &anyOne{}), nil
	case p2cName:
		return &p2c{rng: rng}, nil
	case leastRequestsName:
		return newLeast(leastRequestsName, rng, &leastRequests{}), nil
	case leastTokensName:
		return newLeast(leastTokensName, rng, &leastTokens{}), nil
	case sessionAffinityName:
		return newLeast(sessionAffinityName, rng, &sessionAffinity{}), nil
	case prefixAffinityName:
		return newPrefixAffinity(cfg.PrefixAffinity, rng), nil
	case blockCostName:
		return newBlockCost(cfg.BlockCost, cfg.Weights, rng), nil
	case lmetricName:
		return newLeast(lmetricName, rng, &lmetric{}), nil
	case affinityFilterName:
		return newAffinityFilter(cfg.AffinityFilter, rng), nil
	}
	return newTokenLoad(cfg.TokenLoad, cfg.Weights, rng), nil
}

const (
	// holdMax is how long a decision to wait stands if nothing is heard of any replica.
	holdMax = time.Second
	// retryAfterNoReplica is about how long a replica takes to come back after a restart of its process.
	retryAfterNoReplica = 5 * time.Second
)

// atOnce is embedded by policies that send a request at once if anybody can take it.
type atOnce struct{ pass *Pass }

func (b *atOnce) Begin(p *Pass) { b.pass = p }

func (*atOnce) Look(int) {}

// Bound implements [Policy]: nothing is held for a better replica.
func (*atOnce) Bound(d *Demand) time.Time { return d.Arrival }

// Idle implements [Policy].
func (b *atOnce) Idle() (time.Time, bool) { return b.pass.Now.Add(holdMax), !b.pass.AnyRoom() }

func (*atOnce) OnDispatch(*Demand, []Fit, int) {}
func (*atOnce) OnFirstToken(scoring.ReplicaID) {}
func (*atOnce) OnEnd(scoring.ReplicaID)        {}
