package explain

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unsafe"

	"plimsoll/scoring/policy"
)

// States of what a record speaks of.
const (
	Waiting   = "waiting"
	Reserving = "reserving"
	Prefill   = "prefill"
	Decode    = "decode"
	Done      = "done"
	Broken    = "failed"
	Refused   = "refused"
	Left      = "withdrawn"
	Lost      = "router restarted"
	Nothing   = "nothing was done"
)

// Record is how one leg of a request was routed. Seconds are since At where nothing else is said.
type Record struct {
	Request string    `json:"request"`
	Model   string    `json:"model"`
	Policy  string    `json:"policy"`
	Kind    string    `json:"kind"` // request, again, resume, hedge or hypothetical
	Leg     int       `json:"leg"`
	At      time.Time `json:"at"` // of the first decision, or since when it has waited for that
	State   string    `json:"state"`
	Error   string    `json:"error,omitempty"`

	PromptTokens   int `json:"prompt_tokens"`
	OutputTokens   int `json:"expected_output_tokens"`
	QueuedRequests int `json:"queued_requests"` // that waited then

	// Looks are the first decision and, if that was to wait, the last one.
	Looks []Look `json:"looks"`
	// Holds are its waits, by cause; the last HoldsMax of them.
	Holds   []Hold   `json:"holds,omitempty"`
	Denials []Denial `json:"denials,omitempty"` // the last ones
	// Replica is where it was placed, WaitedSeconds after the first decision.
	Replica       string   `json:"replica,omitempty"`
	WaitedSeconds *float64 `json:"waited_seconds,omitempty"`
	Predicted     *Course  `json:"predicted,omitempty"`
	Came          *Course  `json:"came,omitempty"`
	// SavedSeconds is how much sooner its first token came than was predicted for the best replica that it did not take at its first
	// decision; below 0: later. Instead is that one.
	SavedSeconds *float64 `json:"saved_seconds,omitempty"`
	Instead      string   `json:"instead_of,omitempty"`
	Shadows      []Shadow `json:"shadows,omitempty"`
	Summary      string   `json:"summary"`

	entry    uint64
	bytes    int // as it is counted
	instead  *float64
	forecast Course // of the last look that dispatched it
}

// Look is one decision with all that it was made of.
type Look struct {
	AfterSeconds float64     `json:"after_seconds"`
	Verdict      string      `json:"verdict"`
	Cause        string      `json:"cause,omitempty"`
	Terms        []string    `json:"terms"` // of the policy; the last is what it compares
	Candidates   []Candidate `json:"candidates"`
}

// Candidate is one replica in a look.
type Candidate struct {
	Replica       string    `json:"replica"`
	State         string    `json:"state"`
	Fit           string    `json:"fit"` // eligible, or why not
	OverlapTokens int       `json:"overlap_tokens"`
	NeedBlocks    int       `json:"need_blocks"`
	FreeBlocks    int       `json:"free_blocks"`
	Requests      int       `json:"requests"`
	QueuedTokens  int       `json:"queued_prefill_tokens"`
	StartSeconds  float64   `json:"start_seconds"`
	Prefill       float64   `json:"prefill_seconds"`
	StepSeconds   float64   `json:"step_seconds"`
	Values        []float64 `json:"values"` // of the terms
	Chosen        bool      `json:"chosen,omitempty"`
}

// Hold is a stretch of waiting.
type Hold struct {
	AfterSeconds float64 `json:"after_seconds"` // its begin
	Seconds      float64 `json:"seconds"`       // its length; 0 while it goes on
	Cause        string  `json:"cause"`
	For          string  `json:"for,omitempty"` // the replica that it waits for

	open bool // it goes on
}

// Denial is a reservation of which nothing came.
type Denial struct {
	AfterSeconds float64 `json:"after_seconds"`
	Replica      string  `json:"replica"`
	Why          string  `json:"why"`
}

// Course is how an attempt goes: predicted, or as it came. What is not known is absent.
type Course struct {
	StartSeconds      *float64 `json:"start_seconds,omitempty"`       // from the dispatch to the begin of its prefill
	PrefillSeconds    *float64 `json:"prefill_seconds,omitempty"`     // to its first token
	FirstTokenSeconds *float64 `json:"first_token_seconds,omitempty"` // both
	StepSeconds       *float64 `json:"step_seconds,omitempty"`        // between two tokens, on the average
	OverlapTokens     *int     `json:"overlap_tokens,omitempty"`
	OutputTokens      *int     `json:"output_tokens,omitempty"`
}

// Shadow is what another policy would have done.
type Shadow struct {
	Policy       string  `json:"policy"`
	AfterSeconds float64 `json:"after_seconds"`
	Outcome      string  `json:"outcome"`
	Verdict      string  `json:"verdict"`
	Cause        string  `json:"cause,omitempty"`
	Replica      string  `json:"replica,omitempty"`
	// FirstTokenSeconds is what was predicted there, the wait for room not included.
	FirstTokenSeconds *float64 `json:"first_token_seconds,omitempty"`
}

// Bounds of what a record holds.
const (
	HoldsMax   = 8
	denialsMax = 8
	textMax    = 300 // bytes of a request's ID or of an error
)

// Sizes of what batches and records are made of.
const (
	noteBytes      = int(unsafe.Sizeof(note{}))
	candidateBytes = int(unsafe.Sizeof(policy.Candidate{}))
	fitBytes       = int(unsafe.Sizeof(policy.Fit{}))
	recordBytes    = int(unsafe.Sizeof(Record{}))
	rowBytes       = int(unsafe.Sizeof(Candidate{}))
)

// size is about what the record keeps in memory: all that grows with the fleet, the policy or the client's words.
func (r *Record) size() int {
	n := recordBytes + len(r.Request) + len(r.Error) + len(r.Summary) +
		(len(r.Holds)+len(r.Denials))*int(unsafe.Sizeof(Hold{})) + len(r.Shadows)*int(unsafe.Sizeof(Shadow{}))
	for i := range r.Looks {
		n += int(unsafe.Sizeof(Look{})) + len(r.Looks[i].Candidates)*(rowBytes+8*len(r.Looks[i].Terms))
	}
	return n
}

// copied is a record that the writer does not touch any more. Looks, once made, are not changed.
func (r *Record) copied() Record {
	c := *r
	c.Looks, c.Holds, c.Denials, c.Shadows = slices.Clone(r.Looks), slices.Clone(r.Holds), slices.Clone(r.Denials), slices.Clone(r.Shadows)
	return c
}

// after is a time since the record's first decision.
func (r *Record) after(at time.Time) float64 { return max(0, at.Sub(r.At).Seconds()) }

// look adds a decision. The first stays, of the others the last.
func (r *Record) look(at time.Time, t *policy.Table) {
	l := Look{AfterSeconds: r.after(at), Verdict: t.Decision.Verdict.String(), Terms: t.Terms, Candidates: make([]Candidate, len(t.Rows))}
	if t.Decision.Cause != policy.NoCause {
		l.Cause = t.Decision.Cause.String()
	}
	all := make([]float64, 0, len(t.Rows)*len(t.Terms)) // of all rows
	for i := range t.Rows {
		row := &t.Rows[i]
		from := len(all)
		for _, v := range row.Values {
			all = append(all, finite(v))
		}
		values := all[from:len(all):len(all)]
		l.Candidates[i] = Candidate{
			Replica: string(row.ID), State: row.State.String(), Fit: row.Reason.String(), OverlapTokens: int(row.OverlapTokens),
			NeedBlocks: int(row.NeedBlocks), FreeBlocks: int(row.FreeBlocks), Requests: row.Requests, QueuedTokens: int(row.QueuedTokens),
			StartSeconds: finite(row.StartSeconds), Prefill: finite(row.PrefillSeconds), StepSeconds: finite(row.StepSeconds),
			Values: values, Chosen: row.Chosen,
		}
	}
	if len(r.Looks) == 0 {
		r.compare(t)
	}
	if len(r.Looks) < 2 {
		r.Looks = append(r.Looks, l)
	} else {
		r.Looks[1] = l
	}
	switch t.Decision.Verdict {
	case policy.Hold:
		aim := ""
		if i, ok := t.Decision.Aim(); ok {
			aim = string(t.Rows[i].ID)
		}
		r.hold(at, t.Decision.Cause.String(), aim)
	case policy.Dispatch:
		r.release(at)
		row := &t.Rows[t.Decision.Index]
		start, prefill, first, step := finite(row.StartSeconds), finite(row.PrefillSeconds), finite(row.FirstTokenSeconds()), finite(row.StepSeconds)
		overlap, output := int(row.OverlapTokens), r.OutputTokens
		r.forecast = Course{
			StartSeconds: &start, PrefillSeconds: &prefill, FirstTokenSeconds: &first, StepSeconds: &step,
			OverlapTokens: &overlap, OutputTokens: &output,
		}
	case policy.Refuse, policy.NumVerdicts:
		r.release(at)
	}
}

// compare notes what the best replica would have given at the first decision that the request did not go to.
func (r *Record) compare(t *policy.Table) {
	if t.Decision.Verdict != policy.Hold {
		return
	}
	for i := range t.Rows {
		row := &t.Rows[i]
		if first := finite(row.FirstTokenSeconds()); row.Reason == policy.OK && !row.Chosen && (r.instead == nil || first < *r.instead) {
			r.instead, r.Instead = &first, string(row.ID)
		}
	}
}

// hold begins a stretch of waiting, unless it goes on.
func (r *Record) hold(at time.Time, cause, aim string) {
	next := Hold{AfterSeconds: r.after(at), Cause: cause, For: aim, open: true}
	if n := len(r.Holds); n > 0 && r.Holds[n-1].open {
		switch last := &r.Holds[n-1]; {
		case last.Cause == next.Cause && last.For == next.For:
			return
		case last.AfterSeconds == next.AfterSeconds: // it did not last
			*last = next
			return
		}
	}
	r.release(at)
	if len(r.Holds) == HoldsMax {
		r.Holds = slices.Delete(r.Holds, 0, 1)
	}
	r.Holds = append(r.Holds, next)
}

// release ends the wait that goes on.
func (r *Record) release(at time.Time) {
	if n := len(r.Holds); n > 0 && r.Holds[n-1].open {
		last := &r.Holds[n-1]
		last.Seconds, last.open = max(0, r.after(at)-last.AfterSeconds), false
	}
}

// deny notes a reservation that was refused.
func (r *Record) deny(at time.Time, replica, why string) {
	if len(r.Denials) == denialsMax {
		r.Denials = slices.Delete(r.Denials, 0, 1)
	}
	r.Denials = append(r.Denials, Denial{r.after(at), replica, why})
}

// summarize says in a line what became of it, beside its state; nothing if there is no more to say.
func (r *Record) summarize() {
	var b strings.Builder
	if n := len(r.Holds); n > 0 {
		last := &r.Holds[n-1]
		b.WriteString("held ")
		if !last.open {
			b.WriteString(brief(last.AfterSeconds+last.Seconds-r.Holds[0].AfterSeconds) + " ")
		}
		if n > 1 {
			b.WriteString("in all, last ")
		}
		if last.For != "" {
			b.WriteString("for " + last.For + " ")
		}
		b.WriteString("(" + last.Cause + ")")
	}
	add := func(format string, args ...any) {
		if b.Len() > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, format, args...)
	}
	switch {
	case r.Error != "":
		add("%s", r.Error)
	case r.Replica != "":
		add("went to %s", r.Replica)
	}
	if c, p := r.Came, r.Predicted; c != nil && p != nil && c.FirstTokenSeconds != nil {
		add("first token %s after that, predicted %s", brief(*c.FirstTokenSeconds), brief(*p.FirstTokenSeconds))
	}
	if s := r.SavedSeconds; s != nil {
		word := "saved"
		if *s < 0 {
			word = "lost"
		}
		add("%s %s against %s at once", word, brief(math.Abs(*s)), r.Instead)
	}
	r.Summary = b.String()
}

// brief is a time as people say it.
func brief(seconds float64) string {
	switch {
	case seconds < 0.0995:
		return fmt.Sprintf("%.3g ms", seconds*1000)
	case seconds < 0.9995:
		return fmt.Sprintf("%.0f ms", seconds*1000)
	default:
		return fmt.Sprintf("%.3g s", seconds)
	}
}

// finite is a number that JSON can say.
func finite(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return max(-math.MaxFloat64, min(math.MaxFloat64, v))
}

// cut is a text of at most textMax bytes, in memory of its own.
func cut(text string) string {
	if len(text) > textMax {
		text = strings.ToValidUTF8(text[:textMax], "") + "..."
	}
	return strings.Clone(text)
}
