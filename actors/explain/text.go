package explain

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Write lays a record out for a terminal: what became of it in words, then a table a decision, then what was predicted beside
// what came.
func (r *Record) Write(w io.Writer) error {
	var b bytes.Buffer
	name := r.Request
	if r.Kind == Asked.String() {
		name = "(hypothetical)"
	}
	fmt.Fprintf(&b, "request %s, %s", name, r.Model)
	if r.Leg > 0 {
		fmt.Fprintf(&b, ", answer %d", r.Leg)
	}
	if r.Kind != Fresh.String() && r.Kind != Asked.String() {
		fmt.Fprintf(&b, ", %s", r.Kind)
	}
	if r.Policy != "" {
		fmt.Fprintf(&b, ", policy %s", r.Policy)
	}
	fmt.Fprintf(&b, ", %s\n", r.At.UTC().Format(time.RFC3339Nano))
	fmt.Fprintf(&b, "%d prompt tokens, answer of about %d expected; %d waited\n", r.PromptTokens, r.OutputTokens, r.QueuedRequests)
	b.WriteString(r.State)
	if r.Summary != "" {
		b.WriteString(": " + r.Summary)
	}
	b.WriteString("\n")
	for i := range r.Looks {
		r.Looks[i].write(&b)
	}
	for _, d := range r.Denials {
		fmt.Fprintf(&b, "\nafter %s %s denied it: %s\n", brief(d.AfterSeconds), d.Replica, d.Why)
	}
	if r.Predicted != nil {
		b.WriteByte('\n')
		courses(&b, r.Predicted, r.Came)
	}
	if len(r.Shadows) > 0 {
		b.WriteByte('\n')
	}
	for i := range r.Shadows {
		r.Shadows[i].write(&b)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// write lays a decision out.
func (l *Look) write(b *bytes.Buffer) {
	fmt.Fprintf(b, "\n%s: %s", when(l.AfterSeconds), l.Verdict)
	if l.Cause != "" {
		fmt.Fprintf(b, ", %s", l.Cause)
	}
	b.WriteByte('\n')
	table(b, func(t io.Writer) {
		_, _ = fmt.Fprintf(t, "replica\tstate\tcan take it\toverlap\tneed\tfree\trequests\tqueued\tstart s\tprefill s\tstep s\t|\t%s\t\t\n", strings.Join(l.Terms, "\t"))
		for i := range l.Candidates {
			c := &l.Candidates[i]
			_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t|\t", c.Replica, c.State, c.Fit, c.OverlapTokens, c.NeedBlocks, c.FreeBlocks,
				c.Requests, c.QueuedTokens, figure(&c.StartSeconds), figure(&c.Prefill), figure(&c.StepSeconds))
			for _, v := range c.Values {
				_, _ = fmt.Fprintf(t, "%s\t", figure(&v))
			}
			mark := ""
			if c.Chosen {
				mark = "<"
			}
			_, _ = fmt.Fprintf(t, "%s\t\n", mark)
		}
	})
}

// courses lays out what was predicted beside what came.
func courses(b *bytes.Buffer, predicted, came *Course) {
	table(b, func(t io.Writer) {
		_, _ = fmt.Fprint(t, "\tstart s\tprefill s\tfirst token s\tstep s\toverlap\toutput\t\n")
		for _, row := range []struct {
			name string
			c    *Course
		}{{"predicted", predicted}, {"came", came}} {
			if row.c == nil {
				continue // nothing has come yet
			}
			_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", row.name, figure(row.c.StartSeconds), figure(row.c.PrefillSeconds),
				figure(row.c.FirstTokenSeconds), figure(row.c.StepSeconds), whole(row.c.OverlapTokens), whole(row.c.OutputTokens))
		}
	})
}

func (s *Shadow) write(b *bytes.Buffer) {
	fmt.Fprintf(b, "shadow %s, %s: %s", s.Policy, when(s.AfterSeconds), s.Verdict)
	switch {
	case s.Replica != "" && s.Verdict == "hold":
		fmt.Fprintf(b, " for %s", s.Replica)
	case s.Replica != "":
		fmt.Fprintf(b, " to %s", s.Replica)
	}
	if s.Cause != "" {
		fmt.Fprintf(b, " (%s)", s.Cause)
	}
	if s.Outcome == Agree.String() {
		b.WriteString(", as was done")
	} else if s.FirstTokenSeconds != nil {
		fmt.Fprintf(b, ", first token predicted there after %s", brief(*s.FirstTokenSeconds))
	}
	b.WriteByte('\n')
}

// when is how long after the record's begin something was.
func when(afterSeconds float64) string {
	if afterSeconds > 0 {
		return "after " + brief(afterSeconds)
	}
	return "at once"
}

// table aligns columns to the right and leaves no space at the ends of lines.
func table(b *bytes.Buffer, fill func(io.Writer)) {
	var aligned bytes.Buffer
	w := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', tabwriter.AlignRight)
	fill(w)
	_ = w.Flush() // a buffer takes all
	for line := range strings.Lines(aligned.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
}

// figure is a number with the digits that matter; "-": it is not known.
func figure(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'g', 3, 64)
}

func whole(n *int) string {
	if n == nil {
		return "-"
	}
	return strconv.Itoa(*n)
}
