package trial

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"plimsoll/actors/router"
	"plimsoll/testbench/fleet"
)

// references lists the policies whose best throughput is what a fleet can do at most: one that keeps caches in use and one
// that keeps all replicas busy, among others.
func references() []string {
	return []string{"token-load", "least-requests", "lmetric", "affinity-filter"}
}

// backlogEach is how many requests wait for each replica while saturation is measured: enough for it never to be idle, and
// for the trace's own order to stay.
const backlogEach = 4

// saturate returns the requests a second that a fleet gets through while there is always more to do: the best of the
// references, as they are by default, so that load 1 is the same however the router is set that is tried. The first and the
// last tenth of the requests do not count: the fleet fills, and runs empty.
func saturate(c Config, seed uint64, tell func(policy string, p fleet.Progress)) (float64, error) {
	c.Router = router.DefaultConfig(fleet.Model)
	c.Router.QueueTimeout = 24 * time.Hour
	best := 0.0
	for _, name := range references() {
		run, err := c.simulated(name, seed)
		if err != nil {
			return 0, err
		}
		run.Backlog = new(backlogEach * len(run.Engines))
		source, done, err := c.Traffic.open(seed)
		if err != nil {
			return 0, err
		}
		r, err := fleet.Run(run, source, func(p fleet.Progress) { tell(name, p) })
		_ = done() // it was only read from
		if err != nil {
			return 0, fmt.Errorf("measuring saturation under %s: %w", name, err)
		}
		best = max(best, throughput(r.Samples))
	}
	if best <= 0 {
		return 0, errors.New("measuring saturation: too few requests to tell how many the fleet can do")
	}
	return best, nil
}

// throughput is the rate at which the middle four fifths of the requests were finished.
func throughput(samples []fleet.Sample) float64 {
	var ends []time.Duration
	for i := range samples {
		if samples[i].Outcome == fleet.Finished {
			ends = append(ends, samples[i].Last)
		}
	}
	slices.Sort(ends)
	from, to := len(ends)/10, len(ends)-1-len(ends)/10
	if to <= from || ends[to] <= ends[from] {
		return 0
	}
	return float64(to-from) / (ends[to] - ends[from]).Seconds()
}

// measured is a line of the cache of saturations.
type measured struct {
	Traffic    Traffic    `json:"traffic"`
	Fleet      fleet.Spec `json:"fleet"`
	Seed       uint64     `json:"seed"`
	References []string   `json:"references"`
	Build      string     `json:"build"` // what measured it: other code may come to another figure
	PerSecond  float64    `json:"per_second"`
}

func (m measured) same(o measured) bool {
	m.PerSecond, o.PerSecond = 0, 0
	a, errA := json.Marshal(m)
	b, errB := json.Marshal(o)
	return errA == nil && errB == nil && string(a) == string(b)
}

// Cache keeps measured saturations in a file of JSON lines, so that they are measured once.
type Cache struct {
	Path  string // "": nothing is kept
	Build string // names the code that measures
}

func (c Cache) find(want measured) (float64, bool, error) {
	if c.Path == "" {
		return 0, false, nil
	}
	file, err := os.Open(c.Path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer file.Close() //nolint:errcheck // it is only read from
	dec := json.NewDecoder(bufio.NewReader(file))
	found, ok := 0.0, false
	for {
		var m measured
		switch err := dec.Decode(&m); {
		case errors.Is(err, io.EOF):
			return found, ok, nil
		case err != nil:
			return 0, false, fmt.Errorf("%s: %w", c.Path, err)
		}
		if m.same(want) {
			found, ok = m.PerSecond, true
		}
	}
}

func (c Cache) keep(m measured) error {
	if c.Path == "" {
		return nil
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return appendLine(c.Path, text)
}

// appendLine adds a line to a file, which is made if it is not there.
func appendLine(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	return errors.Join(err, file.Close())
}

// Saturation returns what load 1 is for a fleet and its traffic with the first seed, in requests a second.
func Saturation(c Config, deps Deps) (float64, error) {
	if err := c.Validate(); err != nil {
		return 0, err
	}
	m := measured{Traffic: c.Traffic, Fleet: c.Fleet, Seed: c.Seeds[0], References: references(), Build: deps.Cache.Build}
	if perSecond, ok, err := deps.Cache.find(m); err != nil || ok {
		return perSecond, err
	}
	var err error
	m.PerSecond, err = saturate(c, m.Seed, func(name string, p fleet.Progress) {
		deps.Tell(Progress{What: "measuring saturation under " + name, Arrived: p.Arrived, Total: c.Traffic.Requests, Virtual: p.Virtual})
	})
	if err != nil {
		return 0, err
	}
	return m.PerSecond, deps.Cache.keep(m)
}
