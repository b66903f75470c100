package policy

import (
	"slices"
	"time"

	"plimsoll/scoring/cost"
)

// Queue is what waits in front of the fleet.
type Queue struct {
	Requests int
	// PrefillSeconds is the sum of the prefills of those that wait, each where it is shortest.
	PrefillSeconds float64
}

// Pass is one look at the fleet, for all decisions of one moment. The router owns it and fills it in; what depends on the
// fleet alone is worked out once.
type Pass struct {
	Now   time.Time
	Fleet []Candidate // ordered by ID
	Queue Queue

	stands  []stand
	reasons []Reason // scratch, one a candidate
	busy    float64  // the sum over those that serve
	serving int
	rates   cost.Rates // of those that serve, summed
	keeps   keeps
}

// Begin looks at the fleet. The pass keeps it until the next Begin.
func (p *Pass) Begin(now time.Time, fleet []Candidate, q Queue) {
	p.Now, p.Fleet, p.Queue = now, fleet, q
	p.stands = slices.Grow(p.stands[:0], len(fleet))[:len(fleet)]
	p.reasons = slices.Grow(p.reasons[:0], len(fleet))[:len(fleet)]
	p.busy, p.serving, p.rates = 0, 0, cost.Rates{}
	p.keeps.begin()
	for i := range fleet {
		p.Booked(i)
		if p.stands[i].lasting == OK {
			p.busy += fleet[i].Busy
			p.serving++
			p.rates.PrefillSecondsPerToken += fleet[i].Rates.PrefillSecondsPerToken
			p.rates.PrefillSecondsPerToken2 += fleet[i].Rates.PrefillSecondsPerToken2
		}
	}
}

// Booked says that the bookings of a candidate have changed.
func (p *Pass) Booked(i int) { p.stands[i].look(p.Now, &p.Fleet[i]) }

// Eligible says whether a candidate can take a request now; see [Eligible].
func (p *Pass) Eligible(d *Demand, fits []Fit, i int) Reason {
	return p.stands[i].eligible(d, &p.Fleet[i], &fits[i])
}

// eligible fills in the reasons of all. False if none can take the request.
func (p *Pass) eligible(d *Demand, fits []Fit) ([]Reason, bool) {
	found := false
	for i := range p.Fleet {
		p.reasons[i] = p.Eligible(d, fits, i)
		found = found || p.reasons[i] == OK
	}
	return p.reasons, found
}

// AnyRoom says whether any candidate could take the smallest request.
func (p *Pass) AnyRoom() bool {
	for i := range p.stands {
		if s := &p.stands[i]; s.lasting == OK && s.passing == OK && s.warmSeat > 0 && !s.full && s.freeSeat > 0 && s.free > 0 {
			return true
		}
	}
	return false
}

// BusyShare is the mean share of their time that those that serve spend on prefill.
func (p *Pass) BusyShare() float64 { return p.busy / float64(max(1, p.serving)) }

// meanRates are the mean prefill rates of those that serve.
func (p *Pass) meanRates() cost.Rates {
	n := float64(max(1, p.serving))
	return cost.Rates{PrefillSecondsPerToken: p.rates.PrefillSecondsPerToken / n, PrefillSecondsPerToken2: p.rates.PrefillSecondsPerToken2 / n}
}

// LeastPrefillSeconds is the prefill of a request where it is shortest; 0 if nobody serves.
func (p *Pass) LeastPrefillSeconds(d *Demand, fits []Fit) float64 {
	least, found := 0.0, false
	for i := range p.Fleet {
		if p.stands[i].lasting != OK {
			continue
		}
		hit := max(0, min(fits[i].OverlapTokens, d.PromptTokens-1))
		seconds := p.Fleet[i].Rates.PrefillSeconds(d.PromptTokens-hit, hit)
		if !found || seconds < least {
			least, found = seconds, true
		}
	}
	return least
}

// FCFSSeconds is about how long a fleet that serves whoever comes first would make a request wait that comes now: the prefill
// of those that wait, at the share of its time that the fleet spends on prefill, a quarter at least.
func (p *Pass) FCFSSeconds() float64 {
	return p.Queue.PrefillSeconds / max(p.busy, float64(max(1, p.serving))/4)
}

// Hopeless is the decision where it is no use to wait; false if it may be.
func (p *Pass) Hopeless(d *Demand, fits []Fit) (Decision, bool) {
	reasons, found := p.eligible(d, fits)
	if found {
		return Decision{}, false
	}
	dec := p.notNow(reasons)
	return dec, dec.Verdict == Refuse
}

// Hope says whether a request that nobody can take now could be taken if those served that do not serve now.
func (p *Pass) Hope(d *Demand, fits []Fit) bool {
	reasons, _ := p.eligible(d, fits)
	return slices.ContainsFunc(reasons, Reason.Returns)
}

// notNow is the decision where no candidate can take the request.
func (p *Pass) notNow(reasons []Reason) Decision {
	if len(p.Fleet) > 0 && !slices.ContainsFunc(reasons, func(r Reason) bool { return r != TooSmall }) {
		return Decision{Verdict: Refuse, Cause: TooLarge}
	}
	if !slices.ContainsFunc(reasons, Reason.Passes) {
		return Decision{Verdict: Refuse, Cause: NoReplica, RetryAfter: retryAfterNoReplica}
	}
	hold := Decision{Verdict: Hold, Cause: AllCool, Until: p.Now.Add(holdMax)}
	for i, r := range reasons {
		switch {
		case r == Cooling:
			if until := *p.Fleet[i].CoolingUntil; until.Before(hold.Until) {
				hold.Until = until
			}
		case r.Passes():
			hold.Cause = NoRoom
		}
	}
	return hold
}
