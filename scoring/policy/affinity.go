package policy

import (
	"math/rand/v2"

	"plimsoll/scoring"
)

const (
	sessionAffinityName = "session-affinity"
	prefixAffinityName  = "prefix-affinity"
	affinityFilterName  = "affinity-filter"
)

// sessionAffinity sends a session where its name's hash with the replica's ID is largest (rendezvous hashing, Thaler and
// Ravishankar 1998), of those that can take it now: when replicas come and go only their sessions move. Requests without a
// session go where the fewest requests are.
type sessionAffinity struct{}

func (*sessionAffinity) terms() []string { return []string{"distance"} }

func (s *sessionAffinity) append(p *Pass, d *Demand, f *Fit, i int, dst []float64) []float64 {
	return append(dst, s.of(p, d, f, i))
}

func (*sessionAffinity) of(p *Pass, d *Demand, _ *Fit, i int) float64 {
	c := &p.Fleet[i]
	if d.Session == "" {
		return float64(requests(c))
	}
	return -float64(rendezvous(d.Session, string(c.ID))>>11) / (1 << 53)
}

// rendezvous hashes a pair of words: FNV-1a with a border between them, then a finalizer that spreads what differs at the end.
func rendezvous(session, id string) uint64 {
	h := uint64(14695981039346656037)
	for _, word := range [...]string{session, id} {
		for i := range len(word) {
			h = (h ^ uint64(word[i])) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// PrefixAffinityConfig sets prefix-affinity.
type PrefixAffinityConfig struct {
	// MatchShare of a prompt must be cached on a replica for it to draw the request.
	MatchShare float64
	// The fleet is out of balance when its busiest and its least busy replica differ by more than BalanceRequests, and by more than
	// the factor BalanceRatio.
	BalanceRequests int
	BalanceRatio    float64
	// TreeTokensMax is what the tree holds of one replica.
	TreeTokensMax scoring.Tokens
}

// DefaultPrefixAffinity has the documented defaults of SMG.
func DefaultPrefixAffinity() PrefixAffinityConfig {
	return PrefixAffinityConfig{MatchShare: 0.3, BalanceRequests: 64, BalanceRatio: 1.5, TreeTokensMax: 1 << 26}
}

// prefixAffinity follows the cache-aware policy of SMG: where the load is balanced to the replica with the longest match or, if
// that is too short, to the one whose tree is smallest; else to the one with the fewest requests.
type prefixAffinity struct {
	atOnce
	cfg  PrefixAffinityConfig
	rng  *rand.Rand
	tree map[scoring.ReplicaID]scoring.Tokens // what was sent there and was new
}

func newPrefixAffinity(cfg PrefixAffinityConfig, rng *rand.Rand) *prefixAffinity {
	return &prefixAffinity{cfg: cfg, rng: rng, tree: map[scoring.ReplicaID]scoring.Tokens{}}
}

// Name implements [Policy].
func (*prefixAffinity) Name() string { return prefixAffinityName }

// Decide implements [Policy].
func (p *prefixAffinity) Decide(d *Demand, fits []Fit) Decision {
	reasons, found := p.pass.eligible(d, fits)
	if !found {
		return p.pass.notNow(reasons)
	}
	least, most, longest := noLimit, 0, scoring.Tokens(0)
	for i, why := range reasons {
		if why == OK {
			n := requests(&p.pass.Fleet[i])
			least, most, longest = min(least, n), max(most, n), max(longest, fits[i].OverlapTokens)
		}
	}
	balanced := most-least <= p.cfg.BalanceRequests || float64(most) <= p.cfg.BalanceRatio*float64(least)
	matched := float64(longest) > p.cfg.MatchShare*float64(d.PromptTokens)
	pick := picker{rng: p.rng}
	for i, why := range reasons {
		if why != OK {
			continue
		}
		switch c := &p.pass.Fleet[i]; {
		case !balanced:
			pick.offer(i, float64(requests(c)))
		case matched:
			pick.offer(i, -float64(fits[i].OverlapTokens))
		default:
			pick.offer(i, float64(p.tree[c.ID]))
		}
	}
	return Decision{Verdict: Dispatch, Index: pick.best}
}

// OnDispatch implements [Policy].
func (p *prefixAffinity) OnDispatch(d *Demand, fits []Fit, i int) {
	if len(p.tree) > 2*len(p.pass.Fleet) {
		p.prune()
	}
	id := p.pass.Fleet[i].ID
	p.tree[id] = min(p.cfg.TreeTokensMax, p.tree[id]+newTokens(d, &fits[i]))
}

// prune forgets replicas that have left.
func (p *prefixAffinity) prune() {
	kept := make(map[scoring.ReplicaID]scoring.Tokens, len(p.pass.Fleet))
	for i := range p.pass.Fleet {
		id := p.pass.Fleet[i].ID
		kept[id] = p.tree[id]
	}
	p.tree = kept
}

// Terms implements [Policy].
func (*prefixAffinity) Terms() []string { return []string{"match", "requests", "tree tokens"} }

// Explain implements [Policy].
func (p *prefixAffinity) Explain(d *Demand, fits []Fit, i int, dst []float64) []float64 {
	c := &p.pass.Fleet[i]
	return append(dst, float64(fits[i].OverlapTokens)/float64(max(1, d.PromptTokens)), float64(requests(c)), float64(p.tree[c.ID]))
}

// AffinityFilterConfig sets affinity-filter.
type AffinityFilterConfig struct {
	// AffinityShare of a prompt's whole blocks must be cached on a replica for it to be preferred.
	AffinityShare float64
	// PenaltySeconds is how much longer the first token may take on the best of those than elsewhere; 0: as long as it will.
	PenaltySeconds float64
	// PrefillTokensPerSecond is by what that is reckoned.
	PrefillTokensPerSecond float64
	// LoadTokensMax is the load from which on all are alike.
	LoadTokensMax float64
}

// DefaultAffinityFilter has the documented defaults of llm-d.
func DefaultAffinityFilter() AffinityFilterConfig {
	return AffinityFilterConfig{AffinityShare: 0.8, PenaltySeconds: 18, PrefillTokensPerSecond: 15928, LoadTokensMax: 4 << 20}
}

// affinityFilter follows llm-d's optimized baseline: only replicas that hold most of the prompt, unless their prefill queues are
// too long; of these the one with the fewest prompt tokens in flight, its own uncached ones included.
type affinityFilter struct {
	atOnce
	cfg AffinityFilterConfig
	rng *rand.Rand
}

func newAffinityFilter(cfg AffinityFilterConfig, rng *rand.Rand) *affinityFilter {
	return &affinityFilter{cfg: cfg, rng: rng}
}

// Name implements [Policy].
func (*affinityFilter) Name() string { return affinityFilterName }

// Decide implements [Policy].
func (p *affinityFilter) Decide(d *Demand, fits []Fit) Decision {
	reasons, found := p.pass.eligible(d, fits)
	if !found {
		return p.pass.notNow(reasons)
	}
	sticks := p.sticks(d, fits, reasons)
	pick := picker{rng: p.rng}
	for i, why := range reasons {
		if why == OK && (!sticks || p.sticky(d, fits, i)) {
			pick.offer(i, p.load(d, fits, i))
		}
	}
	return Decision{Verdict: Dispatch, Index: pick.best}
}

// sticky says whether a candidate holds enough of the prompt: of its whole blocks, which are all that a cache can hold.
func (p *affinityFilter) sticky(d *Demand, fits []Fit, i int) bool {
	block := max(1, p.pass.Fleet[i].Load.Limits.BlockTokens)
	whole := d.PromptTokens / block * block
	return whole > 0 && float64(fits[i].OverlapTokens) >= p.cfg.AffinityShare*float64(whole)
}

// sticks says whether only those that hold enough of the prompt are considered.
func (p *affinityFilter) sticks(d *Demand, fits []Fit, reasons []Reason) bool {
	var best [2]float64 // seconds to the first token: elsewhere, on those that hold enough
	var seen [2]bool
	for i, why := range reasons {
		if why != OK {
			continue
		}
		side := 0
		if p.sticky(d, fits, i) {
			side = 1
		}
		seconds := float64(prefillTokens(&p.pass.Fleet[i])) / p.cfg.PrefillTokensPerSecond
		if !seen[side] || seconds < best[side] {
			best[side], seen[side] = seconds, true
		}
	}
	return seen[1] && (!seen[0] || p.cfg.PenaltySeconds == 0 || best[1]-best[0] <= p.cfg.PenaltySeconds)
}

// load is the share of the largest load that counts, least first.
func (p *affinityFilter) load(d *Demand, fits []Fit, i int) float64 {
	return min(1, float64(prefillTokens(&p.pass.Fleet[i])+newTokens(d, &fits[i]))/p.cfg.LoadTokensMax)
}

// Terms implements [Policy].
func (*affinityFilter) Terms() []string { return []string{"sticky", "first token s", "load"} }

// Explain implements [Policy].
func (p *affinityFilter) Explain(d *Demand, fits []Fit, i int, dst []float64) []float64 {
	sticky := 0.0
	if p.sticky(d, fits, i) {
		sticky = 1
	}
	return append(dst, sticky, float64(prefillTokens(&p.pass.Fleet[i]))/p.cfg.PrefillTokensPerSecond, p.load(d, fits, i))
}
