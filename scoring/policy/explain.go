package policy

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"plimsoll/scoring"
)

// Row is one replica in an explain table.
type Row struct {
	ID            scoring.ReplicaID
	State         State
	Reason        Reason
	OverlapTokens scoring.Tokens
	FreeBlocks    scoring.Blocks // after the router's own bookings
	NeedBlocks    scoring.Blocks
	Values        []float64 // of the terms, of sending it there, also where it is not eligible
	Chosen        bool      // it goes there, or waits for it
}

// Table says how a decision came about.
type Table struct {
	Decision Decision
	Terms    []string // what the policy's cost is made of; the last is what is compared
	Rows     []Row    // in the order of the fleet
}

// Explain lays a decision out before it is made: for every replica whether it can take the request, and what that would cost.
// The decision itself is filled in by the caller.
func Explain(p Policy, pass *Pass, d *Demand, fits []Fit) Table {
	t := Table{Terms: p.Terms(), Rows: make([]Row, 0, len(pass.Fleet))}
	for i := range pass.Fleet {
		c := &pass.Fleet[i]
		t.Rows = append(t.Rows, Row{
			ID:            c.ID,
			State:         c.State,
			Reason:        pass.Eligible(d, fits, i),
			OverlapTokens: fits[i].OverlapTokens,
			FreeBlocks:    max(0, c.Load.FreeBlocks()-c.PendingBlocks),
			NeedBlocks:    fits[i].NeedBlocks,
			Values:        p.Explain(d, fits, i, nil),
		})
	}
	return t
}

// Decided fills in the decision.
func (t *Table) Decided(dec Decision) {
	t.Decision = dec
	if dec.Verdict == Dispatch || dec.Verdict == Hold && (dec.Cause == BetterBusy || dec.Cause == BetterFull) {
		t.Rows[dec.Index].Chosen = true
	}
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
