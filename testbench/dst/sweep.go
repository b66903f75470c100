package dst

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"plimsoll/actors/fleet"
)

// Sweep runs many seeds, each in one of several workers.
type Sweep struct {
	First, Seeds uint64
	Workers      int
	Plant        *Plant
	// Progress hears how many seeds are done, after every ProgressEvery of them and one call at a time; nil: nobody does.
	Progress      func(done uint64)
	ProgressEvery uint64
	// Violations is after how many of them the sweep ends early; 0: it does not.
	Violations int
}

// Total is what a sweep has come to.
type Total struct {
	Seeds, Worth uint64
	Events       uint64
	Legs         uint64
	Attempts     uint64
	Hedges       uint64
	HedgesWon    uint64
	PutOff       uint64
	Twice        uint64
	KVBatches    uint64
	Virtual      time.Duration
	Took         time.Duration
	Ends         [NumEnds]uint64
	Coverage     Coverage
	Index        IndexSeen
	Queue        QueueSeen
	Violations   []Result // the first ones that were found
	Violated     [NumCheckers]uint64
}

// kept bounds the results that a Total keeps.
const kept = 20

// Run runs the sweep and returns when all its seeds are done, or enough violations were found.
func (s Sweep) Run() Total {
	var (
		total Total
		mu    sync.Mutex // guards total
		next  atomic.Uint64
		stop  atomic.Bool
		all   sync.WaitGroup
	)
	began := time.Now()
	for range max(1, s.Workers) {
		all.Go(func() {
			for !stop.Load() {
				n := next.Add(1) - 1
				if n >= s.Seeds {
					return
				}
				r := Run(Config{Seed: s.First + n, Plant: s.Plant})
				mu.Lock()
				total.add(&r)
				enough := s.Violations > 0 && len(total.Violations) >= s.Violations
				if s.Progress != nil && total.Seeds%s.ProgressEvery == 0 {
					s.Progress(total.Seeds)
				}
				mu.Unlock()
				if enough {
					stop.Store(true)
				}
			}
		})
	}
	all.Wait()
	total.Took = time.Since(began)
	return total
}

func (t *Total) add(r *Result) {
	t.Seeds++
	if r.Worth() {
		t.Worth++
	}
	t.Events += r.Events
	t.Legs += uint64(r.Legs)           //nolint:gosec // a count
	t.Attempts += uint64(r.Attempts)   //nolint:gosec // a count
	t.Hedges += uint64(r.Hedges)       //nolint:gosec // a count
	t.HedgesWon += uint64(r.HedgesWon) //nolint:gosec // a count
	t.PutOff += uint64(r.PutOff)       //nolint:gosec // a count
	t.Twice += uint64(r.Twice)         //nolint:gosec // a count
	t.KVBatches += r.KVBatches
	t.Virtual += r.Virtual
	for i, n := range r.Ends {
		t.Ends[i] += uint64(n) //nolint:gosec // a count
	}
	t.Coverage.Add(&r.Coverage)
	t.Index.Add(&r.Index)
	t.Queue.Add(&r.Queue)
	if r.Violation != nil {
		t.Violated[r.Violation.Checker]++
		if len(t.Violations) < kept {
			t.Violations = append(t.Violations, *r)
		}
	}
}

// Violating is how many seeds violated an invariant.
func (t *Total) Violating() (n uint64) {
	for _, v := range t.Violated {
		n += v
	}
	return n
}

// Print writes the total as a table.
func (t *Total) Print(w io.Writer) {
	seconds := max(t.Took.Seconds(), 1e-9)
	_, _ = fmt.Fprintf(w, "%d seeds in %s: %.1f a second, %d worth it (%d replicas, %d legs and %d events at least)\n",
		t.Seeds, t.Took.Round(time.Second/10), float64(t.Seeds)/seconds, t.Worth, ReplicasFloor, LegsFloor, EventsFloor)
	_, _ = fmt.Fprintf(w, "%d events, %d legs, %d attempts, %d batches of cache events, %s of virtual time\n",
		t.Events, t.Legs, t.Attempts, t.KVBatches, t.Virtual.Round(time.Second))
	_, _ = fmt.Fprintf(w, "%d hedges, %d of which gave the answer; %d drains that waited for another replica\n", t.Hedges, t.HedgesWon, t.PutOff)
	_, _ = fmt.Fprintf(w, "%d legs waited on a second replica that fell silent with them\n", t.Twice)
	_, _ = fmt.Fprint(w, "requests:")
	for i, n := range t.Ends {
		_, _ = fmt.Fprintf(w, " %d %s", n, End(i)) //nolint:gosec // an enum
	}
	_, _ = fmt.Fprint(w, "\nindexes:")
	for state, n := range t.Index.Entered {
		_, _ = fmt.Fprintf(w, " %d %s", n, fleet.IndexState(state)) //nolint:gosec // an enum
	}
	_, _ = fmt.Fprintf(w, ", %d back from approximate, %d distrusted; %d comparisons live, %d others; %d exact at the end",
		t.Index.Returned, t.Index.Distrusted, t.Index.Live, t.Index.Less, t.Index.Exact)
	_, _ = fmt.Fprintf(w, "\nqueue: %d of %d places that somebody of a lower class could have taken, %d turns compared with other tenants', %d refused for their SLO",
		t.Queue.Before, t.Queue.Places, t.Queue.Turns, t.Queue.Missed)
	_, _ = fmt.Fprintf(w, "\n\n%-16s", "fault")
	for p := range NumPhases {
		_, _ = fmt.Fprintf(w, "%10s", p)
	}
	_, _ = fmt.Fprintln(w)
	for f := range NumFaults {
		_, _ = fmt.Fprintf(w, "%-16s", f)
		for p := range NumPhases {
			_, _ = fmt.Fprintf(w, "%10d", t.Coverage[f][p])
		}
		_, _ = fmt.Fprintln(w)
	}
	for i := range t.Violations {
		r := &t.Violations[i]
		_, _ = fmt.Fprintf(w, "\nseed %d: %v\n", r.Seed, r.Violation)
	}
}

// slowPer is of how many seeds one long step at least meets a request in each phase.
const slowPer = 20

// Sped says in which phases too few passes took half a minute; nil where the run is too short to tell.
func (t *Total) Sped() (phases []string) {
	if t.Seeds < 50*slowPer {
		return nil
	}
	for p := range NumPhases {
		if n := t.Coverage[LongStep][p]; n < t.Seeds/slowPer {
			phases = append(phases, fmt.Sprintf("%s while %s: %d", LongStep, p, n))
		}
	}
	return phases
}

// twicePer is how many legs one may be of that waits on a second replica which fell silent with it.
const twicePer = 1000

// Risky says whether too many legs put two replicas at risk.
func (t *Total) Risky() bool { return t.Twice*twicePer > max(twicePer, t.Legs) }

// Thin names the pairs of fault and phase that occurred less often than least.
func (c *Coverage) Thin(least uint64) []string {
	var out []string
	for f := range c {
		for p := range c[f] {
			if c[f][p] < least {
				out = append(out, fmt.Sprintf("%s while %s: %d", Fault(f), Phase(p), c[f][p])) //nolint:gosec // enums
			}
		}
	}
	return out
}
