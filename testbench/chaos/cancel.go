package chaos

import (
	"fmt"
	"time"

	"plimsoll/testbench/report"
)

// Cancel is how clients leave.
type Cancel struct {
	Each    int           `yaml:"each"`    // in each phase, at least
	Total   int           `yaml:"total"`   // in all
	Clients int           `yaml:"clients"` // at once
	Company int           `yaml:"company"` // clients beside them that stay
	Closed  time.Duration `yaml:"closed"`  // p99 of the time from a client's leaving until the engine's socket is closed
}

func (c Cancel) validate() error {
	if c.Each < 1 || c.Total < 1 || c.Clients < 1 || c.Company < 0 || c.Closed <= 0 {
		return fmt.Errorf("plan: cancel needs clients, some leaves in each of %d phases and in all, and a bound", NumPhases)
	}
	return nil
}

// quota is how many leave in each phase.
func (c Cancel) quota() int { return max(c.Each, (c.Total+int(NumPhases)-1)/int(NumPhases)) }

// Phase is where a request is when its client leaves.
type Phase uint8

// The phases.
const (
	Tokenizing Phase = iota // its prompt is a long text, replicas have room, and no engine has heard of it
	Queued                  // all seats are taken, and no engine has heard of it
	Prefill                 // an engine has it, and no byte came back
	Decode                  // tokens come
	Resume                  // its engine failed, and no token came since
	SlowClient              // tokens come, and the client takes none

	NumPhases
)

var phaseNames = [NumPhases]string{"tokenizing", "queue", "prefill", "decode", "resume", "slow client"}

// String returns the phase's name.
func (p Phase) String() string {
	if p < NumPhases {
		return phaseNames[p]
	}
	return "unknown"
}

// MarshalText implements encoding.TextMarshaler.
func (p Phase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Phase) UnmarshalText(text []byte) error {
	for i, name := range phaseNames {
		if name == string(text) {
			*p = Phase(i) //nolint:gosec // an index of the array
			return nil
		}
	}
	return fmt.Errorf("%q is no phase", text)
}

// Leave is a client that left.
type Leave struct {
	Request int           `json:"request"`
	Phase   Phase         `json:"phase"`
	At      time.Duration `json:"at"`
	Closed  time.Duration `json:"closed"` // until the engine's socket was closed; 0: there was none
	Open    bool          `json:"open"`   // it never was
	After   int           `json:"after"`  // attempts that began after it had left
}

// phaseOf says where a request is; false: it is over, or between two phases. meant decides between what looks alike from
// outside. frames came, the last one at last.
func phaseOf(meant Phase, attempts []Attempt, frames int, last time.Duration) (Phase, bool) {
	var open *Attempt
	broke, whole := time.Duration(-1), false
	for i := range attempts {
		switch a := &attempts[i]; a.End {
		case EndNone:
			open = a
		case EndBroken:
			broke = max(broke, a.Ended)
		case EndWhole:
			whole = true
		case EndLeft, EndStale:
		}
	}
	switch {
	case whole && open == nil:
		return 0, false
	case meant == SlowClient:
		return SlowClient, open != nil && open.First > 0
	case broke >= 0:
		return Resume, last <= broke
	case len(attempts) == 0:
		return meant, meant == Tokenizing || meant == Queued
	case open == nil:
		return 0, false
	case frames > 0:
		return Decode, true
	}
	return Prefill, open.First == 0
}

// closing completes what is known of those who left with what became of their attempts.
func closing(leaves []Leave, attempts []Attempt) {
	of := map[int]*Leave{}
	for i := range leaves {
		of[leaves[i].Request] = &leaves[i]
	}
	for i := range attempts {
		a := &attempts[i]
		l := of[a.Request]
		if l == nil {
			continue
		}
		if a.Began > l.At {
			l.After++
		}
		switch {
		case a.End == EndNone:
			l.Open = true
		case a.Ended > l.At:
			l.Closed = max(l.Closed, a.Ended-l.At)
		}
	}
}

// judgeLeaves judges how soon engines are rid of those who left.
func judgeLeaves(c Cancel, r *Result, say say) {
	var closed [NumPhases][]time.Duration
	var count, after [NumPhases]int
	open := 0
	var all []time.Duration
	for _, l := range r.Leaves {
		count[l.Phase]++
		after[l.Phase] += l.After
		if l.Open {
			open++
		}
		if l.Closed > 0 {
			closed[l.Phase] = append(closed[l.Phase], l.Closed)
			all = append(all, l.Closed)
		}
	}
	for p := range NumPhases {
		p99, _ := report.Quantile(closed[p], 0.99)
		say("cancel "+p.String(), count[p] >= c.Each && p99 <= c.Closed,
			"%d left, at least %d must; %d engines' sockets were closed after p50 %s ms, p99 %s ms, longest %s ms; %d attempts began after it",
			count[p], c.Each, len(closed[p]), report.Milliseconds(closed[p], 0.5), report.Milliseconds(closed[p], 0.99), report.Milliseconds(closed[p], 1), after[p])
	}
	p99, _ := report.Quantile(all, 0.99)
	say("cancel", len(r.Leaves) >= c.Total && p99 <= c.Closed && open == 0, "%d left, at least %d must; p99 %s ms over %d sockets, at most %s; %d sockets stay open",
		len(r.Leaves), c.Total, report.Milliseconds(all, 0.99), len(all), c.Closed, open)
}
