package matrix

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"plimsoll/scoring/policy"
	"plimsoll/testbench/fleet"
	"plimsoll/testbench/trace"
	"plimsoll/testbench/trial"
)

// Names of the recorded traces.
const (
	Conversation = "conversation"
	Synthetic    = "synthetic"
)

// Traces lists the traces that policies are compared on.
func Traces() []string {
	return []string{Conversation, Synthetic, trace.AgentsName, trace.HeavyMixName, trace.BurstsName}
}

// Place is a fleet and what it is asked.
type Place struct {
	Trace string `json:"trace"`
	Fleet string `json:"fleet"`
}

// Ground is where policies meet: a place at a load.
type Ground struct {
	Place

	Load float64 `json:"load"`
}

// String names the ground in tables.
func (g Ground) String() string { return fmt.Sprintf("%s/%s @%g", g.Trace, g.Fleet, g.Load) }

// Cell is one run.
type Cell struct {
	Ground

	Policy   string `json:"policy"`
	Seed     uint64 `json:"seed"`
	Requests int    `json:"requests"`
}

// Matrix is the cells of every combination.
type Matrix struct {
	Traces, Fleets, Policies []string
	Loads                    []float64
	Seeds                    int // from 1 on
	// Requests is how many come to a fleet of eight, as far as the trace has them; one of four times the size gets twice as many.
	Requests int
	// Recorded is the folder of the recorded traces.
	Recorded string
}

// Contestants lists the default policy, then each other one as it was published, without a queue or an admission before the
// engines, the two best of them behind those of the router, and the default again where it must not have engines preempt: while it
// reserves all that may be produced, and where answers are twice as long as predicted.
func Contestants() []string {
	names := policy.Names()
	out := names[:1:1]
	for _, name := range names[1:] {
		out = append(out, name+trial.Unqueued)
	}
	return append(out, "lmetric", "affinity-filter", names[0]+trial.Strict, names[0]+trial.Understated)
}

// Default is the whole matrix.
func Default() Matrix {
	return Matrix{
		Traces: Traces(), Fleets: fleet.Names(), Policies: Contestants(), Loads: []float64{0.5, 0.8, 0.95, 1.1},
		Seeds: 5, Requests: 1500,
		Recorded: filepath.Join("..", "shared", "testdata", "traces"),
	}
}

// Validate reports what makes no sense.
func (m Matrix) Validate() error {
	var errs []error
	one := func(what string, words, known []string) {
		if len(words) == 0 {
			errs = append(errs, fmt.Errorf("no %s is named", what))
		}
		for _, w := range words {
			if !slices.Contains(known, w) {
				errs = append(errs, fmt.Errorf("unknown %s %q: choose from %s", what, w, strings.Join(known, ", ")))
			}
		}
	}
	one("trace", m.Traces, Traces())
	one("fleet", m.Fleets, fleet.Names())
	if len(m.Policies) == 0 {
		errs = append(errs, errors.New("no policy is named"))
	}
	for _, p := range m.Policies {
		if err := trial.CheckPolicy(p); err != nil {
			errs = append(errs, err)
		}
	}
	if len(m.Loads) == 0 || m.Seeds < 1 || m.Requests < 1 {
		errs = append(errs, errors.New("at least one load, one seed and one request are needed"))
	}
	for _, l := range m.Loads {
		if !(l > 0 && l <= 10) {
			errs = append(errs, fmt.Errorf("a load of %g makes no sense", l))
		}
	}
	return errors.Join(errs...)
}

// Places lists where policies meet, at whatever load.
func (m Matrix) Places() []Place {
	out := make([]Place, 0, len(m.Traces)*len(m.Fleets))
	for _, t := range m.Traces {
		for _, f := range m.Fleets {
			out = append(out, Place{t, f})
		}
	}
	return out
}

// Cells lists the runs: all policies of a seed after each other, the first seeds of all grounds first.
func (m Matrix) Cells() []Cell {
	places := m.Places()
	out := make([]Cell, 0, m.Seeds*len(places)*len(m.Loads)*len(m.Policies))
	for seed := range m.Seeds {
		for _, p := range places {
			for _, load := range m.Loads {
				for _, name := range m.Policies {
					out = append(out, Cell{Ground{p, load}, name, uint64(seed + 1), m.requests(p.Fleet)}) //nolint:gosec // a small number
				}
			}
		}
	}
	return out
}

// perEight is the size of a fleet that gets Matrix.Requests.
const perEight = 8

func (m Matrix) requests(name string) int {
	spec, err := fleet.Named(name)
	if err != nil {
		return m.Requests
	}
	return int(float64(m.Requests) * math.Sqrt(float64(max(perEight, spec.Replicas))/perEight))
}

// patience is how long a request may wait in the router: all are served, as they are where engines queue.
const patience = time.Hour

// trial is the configuration of a place.
func (m Matrix) trial(p Place, requests int) (trial.Config, error) {
	c := trial.DefaultConfig(m.file(p.Trace))
	c.Traffic.Requests = requests
	c.Router.QueueTimeout = patience
	c.Router.Queue.RequestsMax, c.Router.Queue.TokensMax = math.MaxInt32, math.MaxInt32 // of tokens of prompts, too
	var err error
	c.Fleet, err = fleet.Named(p.Fleet)
	return c, err
}

// file is what trace.Open takes for a trace's name.
func (m Matrix) file(name string) string {
	switch name {
	case Conversation, Synthetic:
		return filepath.Join(m.Recorded, "mooncake-"+name+".jsonl.gz")
	}
	return name
}
