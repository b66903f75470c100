package explain

import (
	"time"

	"plimsoll/scoring/policy"
)

// running is what an attempt was predicted to do and when its first token came.
type running struct {
	forecast Course
	came     Course
	first    time.Time // zero before it
}

// Terms whose predictions are compared with what came, as metrics name them.
const (
	termStart      = "start"
	termPrefill    = "prefill"
	termFirstToken = "first_token"
	termStep       = "decode_step"
	termOverlap    = "overlap"
	termOutput     = "output"
)

// moved takes in what became of a submission before it ran.
func (w *Watch) moved(n *note) {
	if w.cfg.Records == 0 {
		return
	}
	var r *Record
	switch n.kind { //nolint:exhaustive // the others are dealt with elsewhere
	case held:
		if r = w.find(n.subject.Entry, n.subject.Leg); r != nil {
			aim := ""
			if i, ok := n.decision.Aim(); ok {
				aim = string(w.pass.Fleet[i].ID)
			}
			r.hold(n.at, n.decision.Cause.String(), aim)
		}
	case queued:
		r = w.queued(n)
	case reserving:
		r = w.reserving(n)
	case denied:
		if o := w.open[n.ticket]; o != nil {
			delete(w.open, n.ticket)
			r = o.record
			r.deny(n.at, string(n.replica), n.why)
			if r.State == Reserving { // not of one that was taken back or turned away meanwhile
				r.State = Waiting
			}
		}
	case placed:
		if o := w.open[n.ticket]; o != nil {
			r = o.record
			waited, forecast := r.after(n.at), o.forecast
			r.State, r.Replica, r.WaitedSeconds, r.Predicted = Prefill, string(o.replica), &waited, &forecast
			w.closed(r)
		}
	case rejected, withdrawn:
		w.leave(n)
	}
	if r != nil {
		w.settle(r)
	}
}

// queued is the beginning of a wait, as long as nobody has decided for it.
func (w *Watch) queued(n *note) *Record {
	r := w.find(n.subject.Entry, n.subject.Leg)
	if r == nil {
		r = begin(w.model, "", n, n.queue.Requests)
		r.PromptTokens = int(n.prompt)
		w.keep(r)
	}
	if k := len(r.Holds); k == 0 || !r.Holds[k-1].open {
		r.hold(n.at, inQueue, "")
	}
	r.State = Waiting
	return r
}

// inQueue is the cause of a wait before the first decision, or after a reservation was refused.
const inQueue = "in the queue"

// reserving begins to wait for the outcome of a decision.
func (w *Watch) reserving(n *note) *Record {
	r := w.find(n.subject.Entry, n.subject.Leg)
	if r == nil {
		return nil
	}
	r.State = Reserving
	if len(w.open) >= w.cfg.OpenMax {
		w.tidy()
	}
	if len(w.open) >= w.cfg.OpenMax {
		w.deps.Meter.Dropped(1)
		return r
	}
	w.open[n.ticket] = &open{record: r, replica: n.replica, claim: n.prompt, running: running{forecast: r.forecast}}
	return r
}

// leave ends a submission that was turned away or taken back.
func (w *Watch) leave(n *note) {
	records := w.entries[n.subject.Entry]
	delete(w.entries, n.subject.Entry)
	if len(records) == 0 && n.kind == rejected && n.subject.Kind != Hedge { // it was turned away before anybody decided for it
		r := begin(w.model, "", n, 0)
		r.PromptTokens = int(n.prompt)
		w.records, records = append(w.records, r), append(records, r)
	}
	for _, r := range records {
		r.release(n.at)
		r.State, r.Error = Left, ""
		if n.kind == rejected {
			r.State, r.Error = Refused, cut(n.why)
		}
		w.settle(r)
	}
}

// firstToken compares how an attempt began with what was predicted.
func (w *Watch) firstToken(n *note) {
	o := w.open[n.ticket]
	if o == nil {
		return
	}
	o.first = n.at
	start, prefill, first := (n.took - n.own).Seconds(), n.own.Seconds(), n.took.Seconds()
	o.came.StartSeconds, o.came.PrefillSeconds, o.came.FirstTokenSeconds = &start, &prefill, &first
	for term, pair := range map[string][2]*float64{
		termStart:      {o.forecast.StartSeconds, &start},
		termPrefill:    {o.forecast.PrefillSeconds, &prefill},
		termFirstToken: {o.forecast.FirstTokenSeconds, &first},
	} {
		if pair[0] != nil {
			w.deps.Meter.SecondsError(string(o.replica), term, *pair[1]-*pair[0])
		}
	}
	r := o.record
	if r.instead != nil && r.Kind != Hedge.String() {
		saved := *r.instead - r.after(n.at)
		r.SavedSeconds = &saved
	} else {
		r.Instead = ""
	}
	w.show(o, Decode)
}

// over compares the rest of an attempt with what was predicted.
func (w *Watch) over(n *note) {
	o := w.open[n.ticket]
	if o == nil {
		return
	}
	delete(w.open, n.ticket)
	if n.kind == failed {
		w.show(o, Broken)
		return
	}
	tokens := int(n.tokens - (o.claim - n.prompt)) // of the leg, less those that it had before
	o.came.OutputTokens = &tokens
	if o.forecast.OutputTokens != nil && !n.broken {
		w.deps.Meter.TokensError(string(o.replica), termOutput, tokens-*o.forecast.OutputTokens)
	}
	if n.cached != nil {
		o.came.OverlapTokens = n.cached
		if o.forecast.OverlapTokens != nil {
			w.deps.Meter.TokensError(string(o.replica), termOverlap, *n.cached-*o.forecast.OverlapTokens)
		}
	}
	if !o.first.IsZero() && tokens > 1 {
		step := n.at.Sub(o.first).Seconds() / float64(tokens-1)
		o.came.StepSeconds = &step
		if o.forecast.StepSeconds != nil {
			w.deps.Meter.SecondsError(string(o.replica), termStep, step-*o.forecast.StepSeconds)
		}
	}
	state := Done
	if n.broken {
		state = Broken
	}
	w.show(o, state)
}

// show puts what came into the record.
func (w *Watch) show(o *open, state string) {
	came := o.came
	o.record.Came, o.record.State = &came, state
	w.settle(o.record)
}

// suppose finishes the record of what was only asked.
func (r *Record) suppose(t *policy.Table) {
	r.State = Nothing
	aim := ""
	if i, ok := t.Decision.Aim(); ok {
		aim = string(t.Rows[i].ID)
	}
	switch t.Decision.Verdict {
	case policy.Dispatch:
		f := r.forecast
		r.Predicted = &f
		r.Summary = "would go to " + aim + " now; first token predicted after " + brief(*f.FirstTokenSeconds)
	case policy.Hold:
		r.Summary = "would be held (" + t.Decision.Cause.String() + ")"
		if aim != "" {
			r.Summary = "would be held for " + aim + " (" + t.Decision.Cause.String() + ")"
		}
	case policy.Refuse, policy.NumVerdicts:
		r.Summary = "would be refused (" + t.Decision.Cause.String() + ")"
	}
	if r.QueuedRequests > 0 {
		r.Summary += ", but others wait and may come before it"
	}
}
