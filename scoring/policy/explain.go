package policy

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

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
	Cost          cost.Breakdown // of sending it there, also where it is not eligible
	Chosen        bool
}

// Table says how a decision came about.
type Table struct {
	Decision Decision
	Rows     []Row // in the order of the fleet
}

// Explain lays out a decision: for every replica whether it can take the request, and what that would cost.
func Explain(now time.Time, d *Demand, fleet []Candidate, dec Decision, w cost.Weights) Table {
	t := Table{Decision: dec, Rows: make([]Row, 0, len(fleet))}
	for i := range fleet {
		c := &fleet[i]
		t.Rows = append(t.Rows, Row{
			ID:            c.ID,
			State:         c.State,
			Reason:        Eligible(now, d, c),
			OverlapTokens: c.OverlapTokens,
			FreeBlocks:    max(0, c.Load.FreeBlocks()-c.PendingBlocks),
			NeedBlocks:    c.NeedBlocks,
			Cost:          Predict(now, d, c, w),
			Chosen:        dec.Verdict == Dispatch && dec.Index == i,
		})
	}
	return t
}

// String lays the table out for a terminal: the verdict, then a line a replica, times in milliseconds.
func (t Table) String() string {
	var b strings.Builder
	b.WriteString(t.Decision.Verdict.String())
	if t.Decision.Cause != NoCause {
		b.WriteString(": " + t.Decision.Cause.String())
	}
	b.WriteString("\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "replica\tstate\tcan take it\toverlap\tneed\tfree\twait ms\tprefill ms\tdecode ms\tresidents ms\ttotal ms\t\t")
	for _, r := range t.Rows {
		mark := ""
		if r.Chosen {
			mark = "<"
		}
		ms := func(seconds float64) string { return fmt.Sprintf("%.1f", seconds*1000) }
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", r.ID, r.State, r.Reason, r.OverlapTokens,
			r.NeedBlocks, r.FreeBlocks, ms(r.Cost.WaitSeconds), ms(r.Cost.PrefillSeconds), ms(r.Cost.DecodeSeconds),
			ms(r.Cost.ResidentSeconds), ms(r.Cost.TotalSeconds()), mark)
	}
	_ = w.Flush()
	return b.String()
}
