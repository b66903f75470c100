package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"plimsoll/testbench/report"
)

// Verdict is whether an invariant of the semantics held, as far as it can be seen from outside.
type Verdict struct {
	Name   string `json:"name"`
	Held   bool   `json:"held"`
	Detail string `json:"detail"`
}

// Held says whether all verdicts are good.
func (r *Result) Held() bool {
	return !slices.ContainsFunc(r.Verdicts, func(v Verdict) bool { return !v.Held })
}

// Judge judges a run by its record alone.
func Judge(p Plan, r *Result) []Verdict {
	var out []Verdict
	say := func(name string, held bool, format string, args ...any) {
		out = append(out, Verdict{name, held, fmt.Sprintf(format, args...)})
	}
	judgeStreams(p, r, say)
	if p.Duration > 0 {
		judgeGaps(p, r, say)
		judgeFloors(p, r, say)
	}
	judgeAttempts(r, say)
	if p.Cancel != nil {
		judgeLeaves(*p.Cancel, r, say)
	}
	e := r.End
	say("zero", e.Left == (left{}) && e.Zero <= lingerMax, "%s after the last answer %s", e.Zero.Round(time.Millisecond), e.Left)
	serving := len(e.NotServing) == 0 && len(e.States) == r.Engines
	say("live", serving && e.Live <= liveMax(), "%s after the last fault was over all %d engines served, at most %s may pass %s",
		e.Live.Round(time.Millisecond), r.Engines, liveMax(), strings.Join(e.NotServing, ", "))
	judgeIndex(p, e, say)
	say("panics", e.Panics == 0, "%d", e.Panics)
	return out
}

// String lays out what is left.
func (l left) String() string {
	if l == (left{}) {
		return "nothing is booked, lingers, waits or is open"
	}
	return fmt.Sprintf("%d blocks, %d seats, %d tickets and %d lingering ones are booked, %d requests wait, %d are open",
		l.Blocks, l.Seats, l.Reserved, l.Lingering, l.Queued, l.Open)
}

// liveMax is how long an engine may take to serve after what was wrong with it: its detection, 1.2 times the longest back-off,
// and its ramp.
func liveMax() time.Duration {
	const probeCap, ramp = 5 * time.Second, 2 * time.Second
	return 4*time.Second + 12*probeCap/10 + ramp + sampleEvery
}

type say func(name string, held bool, format string, args ...any)

// few lists the first of some complaints.
func few(all []string) string {
	const most = 5
	if len(all) > most {
		all = append(slices.Clone(all[:most]), fmt.Sprintf("and %d more", len(all)-most))
	}
	return strings.Join(all, "; ")
}

func judgeStreams(p Plan, r *Result, say say) {
	var failed, wrong []string
	checked := map[Class]int{}
	tokens, legs := 0, 0
	for _, s := range r.Streams {
		switch {
		case s.Error != "":
			failed = append(failed, fmt.Sprintf("request %d (%s) at %s: %s", s.Request, s.Class, s.Ended.Round(time.Millisecond), s.Error))
		case s.Wrong != "":
			wrong = append(wrong, fmt.Sprintf("request %d (%s): %s", s.Request, s.Class, s.Wrong))
		default:
			checked[s.Class]++
			tokens += s.Tokens
			legs++
		}
	}
	say("outcome", len(failed) == 0 && len(r.Streams) > 0, "%d of %d answers finished %s", len(r.Streams)-len(failed), len(r.Streams), few(failed))
	if len(p.Fleet.Real) > 0 {
		return
	}
	var by []string
	for _, c := range slices.Sorted(maps.Keys(checked)) {
		by = append(by, fmt.Sprintf("%d %s", checked[c], c))
	}
	say("output", len(wrong) == 0 && tokens > 0, "%d tokens checked, 0 lost and 0 doubled but in %d answers (right: %s) %s",
		tokens, len(wrong), strings.Join(by, ", "), few(wrong))
}

// judgeGaps judges the gaps that span a fault.
func judgeGaps(p Plan, r *Result, say say) {
	gaps := map[Kind][]time.Duration{}
	within, judged := 0, 0
	var over []string
	for _, h := range r.Hits {
		if h.Gap == 0 {
			continue
		}
		gaps[r.Faults[h.Fault].Kind] = append(gaps[r.Faults[h.Fault].Kind], h.Gap)
		if h.Bound > 0 {
			if judged++; h.Gap <= h.Bound {
				within++
			} else {
				over = append(over, fmt.Sprintf("request %d, %s of e%d at %s: %s, at most %s", h.Stream, r.Faults[h.Fault].Kind,
					r.Faults[h.Fault].Engine, r.Faults[h.Fault].At.Round(time.Millisecond), h.Gap.Round(time.Millisecond), h.Bound.Round(time.Millisecond)))
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(gaps)) {
		p99, _ := report.Quantile(gaps[k], 0.99)
		held := k != Kill || p.Bounds.KillGap == nil || p99 < *p.Bounds.KillGap
		say("gap "+k.String(), held, "%d gaps: p50 %s ms, p99 %s ms, longest %s ms", len(gaps[k]),
			report.Milliseconds(gaps[k], 0.5), report.Milliseconds(gaps[k], 0.99), report.Milliseconds(gaps[k], 1))
	}
	if judged > 0 {
		say("detection", within*100 >= judged*99, "%d of %d gaps under what hangs are within the detection bound + 1.5 x the predicted prefill %s",
			within, judged, few(over))
	}
}

// judgeFloors fails runs that hit too little to mean anything.
func judgeFloors(p Plan, r *Result, say say) {
	times := map[int]int{}
	events, silent := 0, 0
	for _, h := range r.Hits {
		if h.Giving {
			times[h.Stream]++
			events++
		} else {
			silent++
		}
	}
	twice := 0
	for _, n := range times {
		if n > 1 {
			twice++
		}
	}
	kinds := map[Kind]int{}
	for _, f := range r.Faults {
		kinds[f.Kind]++
	}
	by := make([]string, 0, len(kinds))
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		by = append(by, fmt.Sprintf("%d %s", kinds[k], k))
	}
	held := (p.Bounds.Hit == nil || len(times) >= *p.Bounds.Hit) && (p.Bounds.HitTwice == nil || twice >= *p.Bounds.HitTwice)
	say("floor", held && (len(r.Faults) > 0 || !p.faulty()), "%d live streams hit, %d of them twice or more (%d times in sum, and %d before their first token) by %d faults: %s",
		len(times), twice, events, silent, len(r.Faults), strings.Join(by, ", "))
}

// judgeAttempts judges what reached engines.
func judgeAttempts(r *Result, say say) {
	type life struct{ request, engine, life int }
	broke := map[life]time.Duration{}
	attempts, failed, most := 0, 0, 0
	of := map[int]int{}
	several := map[int]bool{}
	for _, s := range r.Streams {
		several[s.Request] = s.Class == Several
	}
	var again []string
	for _, a := range r.Attempts {
		if a.Request < 0 {
			continue
		}
		attempts++
		of[a.Request]++
		if most = max(most, of[a.Request]); several[a.Request] {
			most = max(most, (of[a.Request]+1)/2)
		}
		at := life{a.Request, a.Engine, a.Life}
		if when, ok := broke[at]; ok && a.Began > when && !several[a.Request] {
			again = append(again, fmt.Sprintf("request %d on e%d, life %d, at %s", a.Request, a.Engine, a.Life, a.Began.Round(time.Millisecond)))
		}
		if a.End == EndBroken || a.Status >= 500 {
			broke[at] = a.Ended
		}
		if a.End != EndWhole || a.Status != 200 {
			failed++
		}
	}
	legs := len(of)
	for request := range of {
		if several[request] {
			legs++
		}
	}
	budget := max(3, legs/5)
	say("amplification", attempts <= legs+failed+budget, "%d attempts for %d answers, %d of them broken, left or refused; the retry budget is %d; at most %d for one request",
		attempts, legs, failed, budget, most)
	say("exclusion", len(again) == 0, "%d attempts on a life of an engine that had failed the same request %s", len(again), few(again))
}

// judgeIndex: what was predicted of caches was there.
func judgeIndex(p Plan, e Ending, say say) {
	if len(p.Fleet.Real) > 0 {
		return
	}
	known := 0
	for _, s := range e.Index {
		if s == "live" || s == "partial" {
			known++
		}
	}
	// A prediction is made when a request is placed; until the engine looks, others may have evicted some of it.
	held := known == len(e.Index) && float64(e.Predicted) <= 1.1*float64(e.Reported)+1000
	say("index", held, "%d of %d indexes follow their engine's events; %d cached tokens were predicted, %d found", known, len(e.Index), e.Predicted, e.Reported)
}
