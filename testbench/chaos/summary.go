package chaos

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Summary writes the verdicts and what the run took.
func Summary(r *Result) string {
	var b strings.Builder
	broken := 0
	for _, v := range r.Verdicts {
		word := "held  "
		if !v.Held {
			word = "BROKEN"
			broken++
		}
		_, _ = fmt.Fprintf(&b, "%s  %-13s %s\n", word, v.Name, strings.TrimSpace(v.Detail))
	}
	e := r.End
	_, _ = fmt.Fprintf(&b, "%s: %d engines, %s, %d faults, %d answers, %d went on elsewhere; CPU seconds: %.0f engines, %.0f serve, %.0f clients and links\n",
		r.Plan, r.Engines, r.Took.Round(time.Second), len(r.Faults), len(r.Streams), e.Resumed, e.EngineSeconds, e.ServeSeconds, e.OwnSeconds)
	if broken == 0 {
		b.WriteString("PASS\n")
	} else {
		_, _ = fmt.Fprintf(&b, "FAIL: %d of %d invariants did not hold\n", broken, len(r.Verdicts))
	}
	return b.String()
}

// plainEvery is how often progress is told where nobody looks at a terminal.
const plainEvery = 5 * time.Second

// Ticker tells how a run goes: in one line that is written over on a terminal, else in lines at intervals.
type Ticker struct {
	w        io.Writer
	terminal bool
	last     time.Duration
	begun    bool
}

// NewTicker writes to w.
func NewTicker(w io.Writer, terminal bool) *Ticker { return &Ticker{w: w, terminal: terminal} }

// Show takes a progress. It is called by one goroutine.
func (t *Ticker) Show(p Progress) {
	if !t.terminal && t.begun && p.At-t.last < plainEvery {
		return
	}
	t.last, t.begun = p.At, true
	states := make([]byte, 0, len(p.States))
	for _, s := range p.States {
		states = append(states, letterOf(s))
	}
	line := fmt.Sprintf("%6.1fs %s: %d open, %d done, %d failed; %d hit, %d twice; %d faults (%s); %.0f tok/s [%s]",
		p.At.Seconds(), p.Phase, p.Open, p.Done, p.Failed, p.Hit, p.HitTwice, p.Faults, p.LastFault, p.TokensPerSecond, states)
	if p.Leaves > 0 {
		line += fmt.Sprintf(" %d left", p.Leaves)
	}
	if t.terminal {
		_, _ = fmt.Fprintf(t.w, "\r\x1b[K%s", line) // progress is worth no error
		return
	}
	_, _ = fmt.Fprintln(t.w, line)
}

// End ends the line.
func (t *Ticker) End() {
	if t.terminal && t.begun {
		_, _ = fmt.Fprintln(t.w)
	}
}

// letterOf marks a replica's state: R serves, S is suspected or hangs, - is not there, others by their first letter.
func letterOf(state string) byte {
	switch state {
	case "ready":
		return 'R'
	case "suspect":
		return 'S'
	case "down", "none", "":
		return '-'
	}
	return state[0]
}
