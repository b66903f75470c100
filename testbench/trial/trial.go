package trial

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"plimsoll/actors/router"
	"plimsoll/scoring/policy"
	"plimsoll/testbench/fleet"
	"plimsoll/testbench/trace"
)

// Config says what is compared on a simulated fleet.
type Config struct {
	Traffic  Traffic
	Fleet    fleet.Spec
	Policies []string
	Seeds    []uint64
	SLO      SLO
	Router   router.Config // but for the policy
	// Load is how fast requests come, as a share of what the fleet can do at most. Speed is it as a multiple of the trace's own
	// pace. One of them is set.
	Load, Speed *float64
	// Saturation is what load 1 is, in requests a second; nil: it is measured.
	Saturation *float64
	// Keep has the results keep all samples and series of the first seed, for plots.
	Keep bool
}

// DefaultConfig compares the default policy with round robin at a load of 0.8.
func DefaultConfig(name string) Config {
	return Config{
		Traffic: DefaultTraffic(name), Fleet: fleet.DefaultSpec(), Policies: []string{policy.Names()[0], "round-robin"}, Seeds: []uint64{1},
		SLO: DefaultSLO(), Router: router.DefaultConfig(fleet.Model), Load: new(0.8),
	}
}

// Validate reports what makes no sense.
func (c Config) Validate() error {
	errs := []error{c.Traffic.Validate(), c.SLO.Validate(), c.Router.Validate()}
	if _, err := c.Fleet.Engines(); err != nil {
		errs = append(errs, err)
	}
	if len(c.Policies) == 0 || len(c.Seeds) == 0 {
		errs = append(errs, errors.New("at least one policy and one seed are needed"))
	}
	for i, p := range c.Policies {
		if err := CheckPolicy(p); err != nil {
			errs = append(errs, err)
		}
		if slices.Contains(c.Policies[:i], p) {
			errs = append(errs, fmt.Errorf("policy %q is named twice", p))
		}
	}
	if (c.Load == nil) == (c.Speed == nil) {
		errs = append(errs, errors.New("either a load or a speed is needed"))
	}
	for name, v := range map[string]*float64{"load": c.Load, "speed": c.Speed, "saturation": c.Saturation} {
		if v != nil && !(*v > 0 && *v <= 1e6) {
			errs = append(errs, fmt.Errorf("a %s of %g makes no sense", name, *v))
		}
	}
	return errors.Join(errs...)
}

// simulated is one run.
func (c Config) simulated(name string, seed uint64) (fleet.Config, error) {
	engines, err := c.Fleet.Engines()
	if err != nil {
		return fleet.Config{}, err
	}
	run := fleet.DefaultConfig(engines)
	run.Router, run.Seed = c.Router, seed
	plain, change := variantOf(name)
	change(&run)
	run.Router.Policy.Name = plain
	return run, nil
}

// Deps are what a trial is given. All are required.
type Deps struct {
	Cache Cache
	// Tell hears of the progress.
	Tell func(Progress)
}

// Progress is how far a trial is.
type Progress struct {
	What           string // is being done
	Run, Runs      int    // the run under way, from 1 on, of all; measuring saturation counts as none
	Arrived, Total int    // requests of the run
	Virtual        time.Duration
}

// Simulate compares the policies.
func Simulate(c Config, deps Deps) (*Report, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	r := &Report{
		Traffic: c.Traffic, Fleet: &c.Fleet, Weights: new(Weights(c.Router.Policy.Weights)), SLO: c.SLO, Policies: c.Policies, Seeds: c.Seeds, Load: c.Load,
	}
	for i, seed := range c.Seeds {
		m, err := c.Traffic.measure(seed)
		if err != nil {
			return nil, err
		}
		speed, err := c.speed(r, m, deps)
		if err != nil {
			return nil, err
		}
		for j, name := range c.Policies {
			at := Progress{What: fmt.Sprintf("%s, seed %d", name, seed), Run: i*len(c.Policies) + j + 1, Runs: len(c.Seeds) * len(c.Policies), Total: m.Requests}
			run, err := c.run(name, seed, speed, m, func(p fleet.Progress) {
				at.Arrived, at.Virtual = p.Arrived, p.Virtual
				deps.Tell(at)
			})
			if err != nil {
				return nil, fmt.Errorf("policy %s, seed %d: %w", name, seed, err)
			}
			if i > 0 || !c.Keep {
				run.Result = nil
			}
			r.Runs = append(r.Runs, run)
		}
	}
	return r, nil
}

// speed is how many times as fast as recorded the traffic of a seed comes. What the fleet can do at most is measured with the
// first seed.
func (c Config) speed(r *Report, m measure, deps Deps) (float64, error) {
	if c.Speed != nil {
		return *c.Speed, nil
	}
	if r.Saturation == 0 && c.Saturation != nil {
		r.Saturation = *c.Saturation
	}
	if r.Saturation == 0 {
		var err error
		if r.Saturation, err = Saturation(c, deps); err != nil {
			return 0, err
		}
	}
	return *c.Load * r.Saturation / m.rate(), nil
}

// pointsOfSeries is about how many points a run's series has.
const pointsOfSeries = 400

func (c Config) run(name string, seed uint64, speed float64, m measure, tell func(fleet.Progress)) (Run, error) {
	cfg, err := c.simulated(name, seed)
	if err != nil {
		return Run{}, err
	}
	cfg.SampleEvery = max(100*time.Millisecond, time.Duration(float64(m.Span)/speed/pointsOfSeries))
	source, done, err := c.Traffic.open(seed)
	if err != nil {
		return Run{}, err
	}
	defer done() //nolint:errcheck // it is only read from
	if source, err = trace.Scaled(source, speed); err != nil {
		return Run{}, err
	}
	result, err := fleet.Run(cfg, source, tell)
	if err != nil {
		return Run{}, err
	}
	return Run{
		Policy: name, Seed: seed, Speed: speed, PerSecond: m.rate() * speed, Digest: fmt.Sprintf("%016x", result.Digest),
		Summary: Summarize(result.Samples, c.SLO, len(cfg.Engines)), Replicas: result.Replicas, Result: result,
	}, nil
}
