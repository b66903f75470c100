package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/testbench/dst"
)

// dstEvery is how many seeds pass between two words of progress.
const dstEvery = 1000

// dstFloor is how often each pair of fault and phase must occur in a run of dstLong seeds and more.
const (
	dstFloor = 100
	dstLong  = 100_000
)

// dstPercent is the part of a sweep's seeds that must be worth their time.
const dstPercent = 95

func dstCommand(t terminal) *cli.Command {
	return &cli.Command{
		Name:  "dst",
		Usage: "run router, replicas, streams and cache feeds in a deterministic simulation with faults",
		Description: "With --seed one run is replayed, and everything that happens in it is printed: equal seeds have equal logs.\n" +
			"With --seeds many are run, and a table says how often each fault met a request in each phase. A violated\n" +
			"invariant is printed with its seed and ends the command with an error. --plant plants a bug, to see it found;\n" +
			"--plants plants each in turn, and says within how many seeds its checker finds it.",
		Flags: []cli.Flag{
			&cli.Uint64Flag{Name: "seed", Usage: "replay the run of seed `N`"},
			&cli.Uint64Flag{Name: "seeds", Usage: "run `N` seeds"},
			&cli.Uint64Flag{Name: "first", Usage: "the first of them is seed `N`", Value: 1},
			&cli.IntFlag{Name: "workers", Usage: "run `N` at a time", Value: runtime.GOMAXPROCS(0)},
			&cli.StringFlag{Name: "plant", Usage: "plant the bug `NAME`: " + strings.Join(plantNames(), ", ")},
			&cli.BoolFlag{Name: "plants", Usage: "search for each planted bug in the seeds that --first and --seeds say"},
			&cli.BoolFlag{Name: "quiet", Usage: "of one run print the result only"},
		},
		Action: func(c *cli.Context) error {
			if c.IsSet("seed") == c.IsSet("seeds") {
				return usageError{errors.New("dst needs either --seed or --seeds")}
			}
			plant, err := plantOf(c.String("plant"))
			if err != nil {
				return usageError{err}
			}
			if c.IsSet("seed") {
				return replaySeed(t, dst.Config{Seed: c.Uint64("seed"), Plant: plant}, c.Bool("quiet"))
			}
			if c.Int("workers") < 1 || c.Uint64("seeds") < 1 {
				return usageError{errors.New("--seeds and --workers must be at least 1")}
			}
			if c.Bool("plants") {
				if plant != nil {
					return usageError{errors.New("--plants takes all of them: leave out --plant")}
				}
				return findPlants(t, c.Uint64("first"), c.Uint64("seeds"), c.Int("workers"))
			}
			return sweepSeeds(t, dst.Sweep{First: c.Uint64("first"), Seeds: c.Uint64("seeds"), Workers: c.Int("workers"), Plant: plant})
		},
	}
}

func plantNames() []string {
	plants := dst.Plants()
	names := make([]string, len(plants))
	for i := range plants {
		names[i] = plants[i].Name
	}
	return names
}

// plantOf returns the plant of a name; nil if it is empty.
func plantOf(name string) (*dst.Plant, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // no name is no plant
	}
	plants := dst.Plants()
	at := slices.IndexFunc(plants, func(p dst.Plant) bool { return p.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("--plant %q: choose one of %s", name, strings.Join(plantNames(), ", "))
	}
	return &plants[at], nil
}

func replaySeed(t terminal, config dst.Config, quiet bool) error {
	if !quiet {
		config.Log = t.out
	}
	r := dst.Run(config)
	_, err := fmt.Fprintf(t.out, "seed %d: %d events, %d legs, %d attempts, %s of virtual time, log %016x\n",
		r.Seed, r.Events, r.Legs, r.Attempts, r.Virtual, r.Digest)
	if r.Violation != nil {
		return fmt.Errorf("seed %d: %v", r.Seed, r.Violation)
	}
	return err
}

// findPlants searches for every planted bug and fails if one is not found by the checker that is meant for it.
func findPlants(t terminal, first, seeds uint64, workers int) error {
	_, _ = fmt.Fprintf(t.out, "of build %s\n", ownVersion())
	var missed []string
	for _, f := range dst.Hunt(first, seeds, workers) {
		p := f.Plant
		if f.Run.Violation == nil {
			missed = append(missed, p.Name)
			_, _ = fmt.Fprintf(t.out, "%-42s not found by %s in %d seeds (%d violate something else)\n", p.Name, p.Catches, seeds, f.Other)
			continue
		}
		_, _ = fmt.Fprintf(t.out, "%-42s found by %-13s in seed %d, %d seeds after the first (%d violate something else)\n",
			p.Name, p.Catches, f.Run.Seed, f.Run.Seed-first, f.Other)
	}
	if len(missed) > 0 {
		return fmt.Errorf("%d planted bugs are not found: %s", len(missed), strings.Join(missed, ", "))
	}
	return nil
}

func sweepSeeds(t terminal, sweep dst.Sweep) error {
	sweep.ProgressEvery = dstEvery
	sweep.Progress = func(done uint64) { _, _ = fmt.Fprintf(t.err, "%d of %d seeds\n", done, sweep.Seeds) }
	total := sweep.Run()
	_, _ = fmt.Fprintf(t.out, "of build %s: ", ownVersion())
	total.Print(t.out)
	thin := total.Coverage.Thin(dstFloor)
	switch {
	case len(total.Violations) > 0:
		return fmt.Errorf("%d of %d seeds violate an invariant; replay one by plimsoll dst --seed %d",
			total.Violating(), total.Seeds, total.Violations[0].Seed)
	case total.Worth*100 < total.Seeds*dstPercent:
		return fmt.Errorf("only %d of %d seeds were worth running", total.Worth, total.Seeds)
	case len(total.Sped()) > 0:
		return fmt.Errorf("too few passes took half a minute: %s", strings.Join(total.Sped(), "; "))
	case total.Risky():
		return fmt.Errorf("%d of %d legs waited on a second replica that fell silent with them", total.Twice, total.Legs)
	case total.Seeds >= dstLong && len(thin) > 0:
		return fmt.Errorf("some faults hit too few requests: %s", strings.Join(thin, "; "))
	}
	return nil
}
