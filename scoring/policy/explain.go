package policy

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"plimsoll/scoring"
	"plimsoll/scoring/cost"
)

// Row is one replica in an explain table.
type Row struct {
	ID            scoring.ReplicaID
	State         State
	Reason        Reason
	OverlapTokens scoring.Tokens
	FreeBlocks    scoring.Blocks // after the router's own bookings
	NeedBlocks    scoring.Blocks
	Requests      int            // that it works on or was asked to
	QueuedTokens  scoring.Tokens // uncached prompt tokens in front of it
	// What the learned rates predict for the request there, whatever the policy makes of it: until its prefill can start, its
	// prefill with the step that gives the first token, and a decode step once it is among those that are there.
	StartSeconds, PrefillSeconds, StepSeconds float64
	Values                                    []float64 // of the terms, of sending it there, also where it is not eligible
	Chosen                                    bool      // it goes there, or waits for it
}

// FirstTokenSeconds is the predicted time from now to the first token there.
func (r *Row) FirstTokenSeconds() float64 { return r.StartSeconds + r.PrefillSeconds }

// Table says how a decision came about.
type Table struct {
	Decision Decision
	Terms    []string // what the policy's cost is made of; the last is what is compared
	Rows     []Row    // in the order of the fleet
}

// Values appends what the terms of all candidates come to, candidate by candidate. A policy answers alike before its Decide
// and, if that says Dispatch, after it until it is told of the dispatch.
func Values(p Policy, pass *Pass, d *Demand, fits []Fit, dst []float64) []float64 {
	for i := range pass.Fleet {
		dst = p.Explain(d, fits, i, dst)
	}
	return dst
}

// Lay makes a table: for every replica whether it can take the request, and what that would cost. values are those that [Values]
// gave, of the pass as it was then; it keeps them. The decision itself is filled in by [Table.Decided].
func Lay(terms []string, pass *Pass, d *Demand, fits []Fit, values []float64) Table {
	t := Table{Terms: terms, Rows: make([]Row, 0, len(pass.Fleet))}
	demand := cost.Demand{PromptTokens: d.PromptTokens, OutputTokens: d.OutputTokens}
	for i := range pass.Fleet {
		c := &pass.Fleet[i]
		at := cost.ReplicaAt(pass.Now, &c.Load, c.Pending, c.Rates)
		row := Row{
			ID:             c.ID,
			State:          c.State,
			Reason:         pass.Eligible(d, fits, i),
			OverlapTokens:  fits[i].OverlapTokens,
			FreeBlocks:     max(0, c.Load.FreeBlocks()-c.PendingBlocks),
			NeedBlocks:     fits[i].NeedBlocks,
			Requests:       requests(c),
			QueuedTokens:   prefillTokens(c),
			StartSeconds:   at.WaitSeconds,
			PrefillSeconds: at.OwnPrefillSeconds(&demand, fits[i].OverlapTokens) + at.PassSeconds(),
			StepSeconds:    at.StepSeconds + c.Rates.JoinSeconds(d.PromptTokens),
		}
		if n := len(terms); n > 0 {
			row.Values = values[i*n : (i+1)*n : (i+1)*n]
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// Decided fills in the decision.
func (t *Table) Decided(dec Decision) {
	t.Decision = dec
	if i, ok := dec.Aim(); ok {
		t.Rows[i].Chosen = true
	}
}

// Aim is the place in the fleet of the replica that the request goes to, or is held for; false: there is none.
func (d Decision) Aim() (int, bool) {
	switch d.Verdict {
	case Dispatch:
		return d.Index, true
	case Hold:
		return d.Index, d.Cause == BetterBusy || d.Cause == BetterFull
	case Refuse, NumVerdicts:
	}
	return 0, false
}

// String lays the table out for a terminal: the verdict, then a line a replica, times in seconds.
func (t Table) String() string {
	var b strings.Builder
	b.WriteString(t.Decision.Verdict.String())
	if t.Decision.Cause != NoCause {
		b.WriteString(": " + t.Decision.Cause.String())
	}
	b.WriteString("\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintf(w, "replica\tstate\tcan take it\toverlap\tneed\tfree\t%s\t\t\n", strings.Join(t.Terms, "\t"))
	for _, r := range t.Rows {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t", r.ID, r.State, r.Reason, r.OverlapTokens, r.NeedBlocks, r.FreeBlocks)
		for _, v := range r.Values {
			_, _ = fmt.Fprintf(w, "%s\t", strconv.FormatFloat(v, 'g', 4, 64))
		}
		mark := ""
		if r.Chosen {
			mark = "<"
		}
		_, _ = fmt.Fprintf(w, "%s\t\n", mark)
	}
	_ = w.Flush()
	return b.String()
}
