package fleet

import (
	"encoding/binary"
	"time"

	"github.com/zeebo/xxh3"
)

// Outcome is how a request ended.
type Outcome uint8

// Outcomes.
const (
	Refused  Outcome = iota // nothing of it was worked on
	Failed                  // it was begun and not finished
	Finished                // its client has the whole answer

	NumOutcomes
)

// String is the word used in tables.
func (o Outcome) String() string {
	switch o {
	case Refused:
		return "refused"
	case Failed:
		return "failed"
	case Finished:
		return "finished"
	case NumOutcomes:
	}
	return "unknown"
}

// Sample is what became of a request. Times count from the start of the run.
type Sample struct {
	Number  uint64 // its place in the trace
	Outcome Outcome
	Why     string // it was refused or failed
	At      time.Duration
	// Of what was begun:
	Dispatched   time.Duration // when its first attempt began
	First, Last  time.Duration // when its first and last token came
	Replica      int           // of its last attempt, from 0 on; -1: it had none
	Attempts     int
	Preemptions  int // by its engine, each of which has it computed again
	PromptTokens int
	CachedTokens int // of the prompt, found in the engine's cache
	OutputTokens int // as recorded
	Produced     int // tokens that came
	Session      string
}

// TTFT is the time to the first token of what finished, the wait in the router included.
func (s *Sample) TTFT() time.Duration { return s.First - s.At }

// TPOT is the mean time per output token after the first of what finished; false if there was one token only.
func (s *Sample) TPOT() (time.Duration, bool) {
	if s.Produced < 2 {
		return 0, false
	}
	return (s.Last - s.First) / time.Duration(s.Produced-1), true
}

// Figures are a replica's sums over a run.
type Figures struct {
	Busy        time.Duration // in forward passes
	Preemptions int
	Refusals    int // reservations that its ledger refused
	Canaries    int // sent because it was suspected to hang
	Downs       int // it counted as down
	Ejections   int // the router left it alone for a while because it had become slow
}

// Load is a replica at a moment.
type Load struct {
	Running, Waiting int     // sequences in the engine
	Used             float64 // share of its cache that they hold
	Booked           float64 // share of it that is promised
}

// Point is the fleet at a moment.
type Point struct {
	At       time.Duration
	Queued   int // requests in the router
	Replicas []Load
}

// Result is what a run has come to.
type Result struct {
	Samples  []Sample // in the order in which they came
	Replicas []Figures
	Series   []Point
	Virtual  time.Duration
	Events   uint64
	Digest   uint64 // of all samples: equal runs have equal ones
}

// sample takes a point of the series.
func (w *world) sample() {
	p := Point{At: w.now(), Queued: w.front.m.Residue().Queued, Replicas: make([]Load, len(w.hosts))}
	for i, h := range w.hosts {
		s, load := h.engine.Status(), h.ref.Snapshot().Load
		p.Replicas[i] = Load{
			Running: s.Running, Waiting: s.Waiting, Used: float64(s.UsedBlocks) / float64(h.cfg.UsableBlocks()),
			Booked: float64(load.BookedBlocks) / float64(h.cfg.UsableBlocks()),
		}
	}
	w.series = append(w.series, p)
	w.at(w.now()+w.cfg.SampleEvery, evSample)
}

func (w *world) result() *Result {
	r := &Result{Samples: w.samples, Series: w.series, Virtual: w.now(), Events: w.events, Digest: digest(w.samples)}
	for _, h := range w.hosts {
		r.Replicas = append(r.Replicas, h.figures)
	}
	return r
}

func digest(samples []Sample) uint64 {
	h := xxh3.New()
	var line [11 * 8]byte
	for i := range samples {
		s := &samples[i]
		for j, v := range [...]int64{
			int64(s.Number), int64(s.Outcome), int64(s.At), int64(s.Dispatched), int64(s.First), int64(s.Last), int64(s.Replica), //nolint:gosec // the bits count
			int64(s.Attempts), int64(s.Preemptions), int64(s.CachedTokens), int64(s.Produced),
		} {
			binary.LittleEndian.PutUint64(line[8*j:], uint64(v)) //nolint:gosec // the bits count
		}
		_, _ = h.Write(line[:]) // a hash takes everything
	}
	return h.Sum64()
}
