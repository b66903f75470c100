package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/actors/router"
	"plimsoll/engine/sim"
	"plimsoll/scoring/policy"
	"plimsoll/testbench/trace"
	"plimsoll/testbench/trial"
)

func replayCommand(t terminal) *cli.Command {
	base := trial.DefaultConfig(trace.AgentsName)
	defaults, slo, spec := base.Router, base.SLO, base.Fleet
	return &cli.Command{
		Name:  "replay",
		Usage: "run recorded or generated traffic under several routing policies, side by side",
		Description: "Replays a trace on a simulated fleet in virtual time, once for each policy and seed, and prints a table. Routing, queue and\n" +
			"admission are those of plimsoll serve. Equal seeds give equal results. Load 1 is what the fleet can do at most with this\n" +
			"traffic, which is measured first. A request that is refused counts as infinite in every percentile. With --target a live\n" +
			"server gets the traffic, at the trace's pace or --speed times it, and what its clients see is measured; interrupted, it prints\n" +
			"the figures of the requests that had ended, and writes no file.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "trace", Usage: "replay `FILE` (Mooncake, Azure's CSV, our JSON lines; .gz too), or generate " + strings.Join(trace.Generators(), ", "), Value: base.Traffic.Trace},
			&cli.IntFlag{Name: "requests", Usage: "replay `N` requests of it", Value: base.Traffic.Requests},
			&cli.IntFlag{Name: "skip", Usage: "leave the first `N` out"},
			&cli.IntFlag{Name: "squeeze", Usage: "divide all lengths by `N`", Value: 1},
			&cli.DurationFlag{Name: "spread", Usage: "move each request to a random moment within `TIME` after its own (default: as coarse as the trace's times are)"},
			&cli.StringSliceFlag{Name: "policy", Usage: "compare `NAME`, or several parted by commas: " + strings.Join(policy.Names(), ", ") +
				"; behind a name, " + trial.Unqueued + " sends all to engines at once, " + trial.Strict + " reserves all that may be produced, " + trial.Understated + " has answers twice as long as predicted", Value: cli.NewStringSlice(base.Policies...)},
			&cli.Float64Flag{Name: "load", Usage: "requests come at `F` of what the fleet can do at most", Value: *base.Load},
			&cli.Float64Flag{Name: "speed", Usage: "requests come `F` times as fast as in the trace, in place of --load"},
			&cli.Float64Flag{Name: "saturation", Usage: "take `F` requests a second for load 1 (default: it is measured)"},
			&cli.IntFlag{Name: "seeds", Usage: "run `N` seeds, each under every policy", Value: 1},
			&cli.Uint64Flag{Name: "seed", Usage: "the first of them is `N`", Value: 1},
			&cli.IntFlag{Name: "replicas", Usage: "simulate `N` replicas", Value: spec.Replicas},
			&cli.StringFlag{Name: "profile", Usage: "`PROFILE` of model and GPU: " + strings.Join(sim.Profiles(), ", "), Value: spec.Profile},
			&cli.IntFlag{Name: "capacity-tokens", Usage: "`N` tokens of KV cache a replica (default: the profile's)"},
			&cli.IntFlag{Name: "slots", Usage: "`N` requests run at once on a replica (default: the profile's)"},
			&cli.IntFlag{Name: "block-tokens", Usage: "KV blocks of `N` tokens; smaller ones take longer to simulate", Value: spec.BlockTokens},
			&cli.BoolFlag{Name: "unequal", Usage: "every second replica works at a third of the speed, with half the cache"},
			&cli.StringFlag{Name: "admission", Usage: "reserve the `MODE` output: expected or strict", Value: defaults.Admission.String()},
			&cli.Float64Flag{Name: "weight-reuse", Usage: "lean to cache reuse with `WEIGHT` above 1, to even load below it, where a policy weighs them", Value: defaults.Policy.Weights.Reuse},
			&cli.Float64Flag{Name: "weight-ttft", Usage: "lean to a short time to the first token with `WEIGHT` above 1, to the pace of all answers below it, likewise", Value: defaults.Policy.Weights.TTFT},
			&cli.DurationFlag{Name: "queue-timeout", Usage: "a request waits `TIME` for room at most", Value: defaults.QueueTimeout},
			&cli.DurationFlag{Name: "slo-ttft", Usage: "a good answer begins within `TIME`", Value: slo.TTFT},
			&cli.DurationFlag{Name: "slo-ttft-per-token", Usage: "and so much `TIME` for each token of its prompt", Value: slo.TTFTPerToken},
			&cli.DurationFlag{Name: "slo-tpot", Usage: "and has its later tokens within `TIME` each on average", Value: slo.TPOT},
			&cli.StringFlag{Name: "target", Usage: "send the traffic to the live server at `URL` by the wall clock, in place of a simulated fleet"},
			&cli.StringFlag{Name: "model", Usage: "ask the live server for `NAME`"},
			&cli.StringFlag{Name: "api-key-env", Usage: "and with the key in the environment variable `NAME`"},
			&cli.UintFlag{Name: "vocabulary", Usage: "token IDs below `N` make up the prompts that it gets", Value: uint(trial.DefaultTarget("", "").VocabSize)},
			&cli.StringFlag{Name: "json", Usage: "write the figures of all runs to `FILE`"},
			&cli.StringFlag{Name: "samples", Usage: "write what became of each request of the first seed to `FILE`, as JSON lines"},
			&cli.StringFlag{Name: "html", Usage: "write a report with plots of the first seed to `FILE`, a page that needs nothing else"},
		},
		Action: func(c *cli.Context) error {
			if err := checkOutputs(c.String, replayOutputs()...); err != nil {
				return usageError{err}
			}
			bar := trial.NewBar(t.err, isTerminal(t.err))
			report, err := replay(c, bar.Show)
			bar.End()
			switch {
			case errors.As(err, new(*trial.InterruptedError)):
				return errors.Join(err, printCut(t, report, c))
			case err != nil:
				return err
			}
			return writeReport(t, report, c)
		},
	}
}

// replayOutputs are the flags that name files.
func replayOutputs() []string { return []string{"json", "html", "samples"} }

// replay sends the traffic where the flags say.
func replay(c *cli.Context, tell func(trial.Progress)) (*trial.Report, error) {
	if !c.IsSet("target") {
		config, err := replayConfig(c)
		if err != nil {
			return nil, usageError{err}
		}
		return trial.Simulate(config, trial.Deps{Cache: saturationCache(), Tell: tell})
	}
	target, err := replayTarget(c)
	if err != nil {
		return nil, usageError{err}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	transport := &http.Transport{MaxIdleConnsPerHost: target.InFlightMax}
	defer transport.CloseIdleConnections()
	return trial.Live(ctx, target, &http.Client{Transport: transport}, tell)
}

// simulatedOnly lists the flags that say nothing to a live endpoint.
func simulatedOnly() []string {
	return []string{
		"policy", "load", "saturation", "seeds", "replicas", "profile", "capacity-tokens", "slots", "block-tokens", "unequal", "admission", "weight-reuse",
		"weight-ttft", "queue-timeout",
	}
}

// replayTarget reads the flags for a live endpoint.
func replayTarget(c *cli.Context) (trial.Target, error) {
	for _, name := range simulatedOnly() {
		if c.IsSet(name) {
			return trial.Target{}, fmt.Errorf("--%s is for simulated fleets: leave it out, or --target", name)
		}
	}
	t := trial.DefaultTarget(strings.TrimSuffix(c.String("target"), "/"), c.String("trace"))
	t.Traffic, t.SLO, t.Seed, t.Keep = trafficOf(c), sloOf(c), c.Uint64("seed"), keeps(c)
	t.Model, t.VocabSize = c.String("model"), uint32(min(c.Uint("vocabulary"), math.MaxUint32)) //nolint:gosec // bounded
	if c.IsSet("speed") {
		t.Speed = c.Float64("speed")
	}
	if name := c.String("api-key-env"); name != "" {
		if t.Key = os.Getenv(name); t.Key == "" {
			return t, fmt.Errorf("--api-key-env: the environment has no %s", name)
		}
	}
	return t, t.Validate()
}

func trafficOf(c *cli.Context) trial.Traffic {
	t := trial.Traffic{Trace: c.String("trace"), Requests: c.Int("requests"), Skip: c.Int("skip"), Squeeze: c.Int("squeeze")}
	if c.IsSet("spread") {
		t.Spread = new(c.Duration("spread"))
	}
	return t
}

func sloOf(c *cli.Context) trial.SLO {
	return trial.SLO{TTFT: c.Duration("slo-ttft"), TTFTPerToken: c.Duration("slo-ttft-per-token"), TPOT: c.Duration("slo-tpot")}
}

// replayConfig reads the flags for a simulated fleet.
func replayConfig(c *cli.Context) (trial.Config, error) {
	config := trial.DefaultConfig(c.String("trace"))
	config.Traffic, config.SLO = trafficOf(c), sloOf(c)
	config.Policies = nil
	for _, list := range c.StringSlice("policy") {
		config.Policies = append(config.Policies, strings.Split(list, ",")...)
	}
	config.Seeds = nil
	for i := range c.Int("seeds") {
		config.Seeds = append(config.Seeds, c.Uint64("seed")+uint64(i)) //nolint:gosec // counts up
	}
	config.Load = new(c.Float64("load"))
	if c.IsSet("speed") {
		config.Speed = new(c.Float64("speed"))
		if !c.IsSet("load") {
			config.Load = nil
		}
	}
	if c.IsSet("saturation") {
		config.Saturation = new(c.Float64("saturation"))
	}
	for _, name := range []string{"capacity-tokens", "slots"} {
		if c.IsSet(name) && c.Int(name) < 1 {
			return config, fmt.Errorf("--%s must be at least 1, not %d", name, c.Int(name))
		}
	}
	f := &config.Fleet
	f.Replicas, f.Profile, f.BlockTokens, f.Unequal = c.Int("replicas"), c.String("profile"), c.Int("block-tokens"), c.Bool("unequal")
	if c.IsSet("capacity-tokens") {
		f.KVTokens = new(c.Int("capacity-tokens"))
	}
	if c.IsSet("slots") {
		f.Seats = new(c.Int("slots"))
	}
	var err error
	if config.Router.Admission, err = router.ParseAdmission(c.String("admission")); err != nil {
		return config, err
	}
	config.Router.QueueTimeout = c.Duration("queue-timeout")
	weights := &config.Router.Policy.Weights
	for name, to := range map[string]*float64{"weight-reuse": &weights.Reuse, "weight-ttft": &weights.TTFT} {
		if *to = c.Float64(name); !(*to > 0 && *to <= weightMax) {
			return config, fmt.Errorf("--%s must be above 0 and at most %d, not %g", name, weightMax, *to)
		}
	}
	config.Keep = keeps(c)
	return config, config.Validate()
}

// saturationCache keeps what was measured for this very build; one of sources that were changed since their commit keeps
// nothing.
func saturationCache() trial.Cache {
	dir, err := os.UserCacheDir()
	build := ownVersion()
	if err != nil || build == "devel" || strings.HasSuffix(build, "+modified") {
		return trial.Cache{}
	}
	return trial.Cache{Path: filepath.Join(dir, "plimsoll", "saturation.jsonl"), Build: build}
}

// keeps says whether single requests are asked for.
func keeps(c *cli.Context) bool { return c.String("html") != "" || c.String("samples") != "" }

// printCut prints what an interrupted replay has come to, if anything. Files are of whole ones alone: nobody who finds one later
// is to take it for more than it is.
func printCut(t terminal, r *trial.Report, c *cli.Context) error {
	var errs []error
	if r != nil {
		_, err := fmt.Fprintf(t.out, "interrupted; of the requests that had ended by then:\n%s\n\n%s", r.Head(), r.Table())
		errs = append(errs, err)
	}
	for _, flag := range replayOutputs() {
		if name := c.String(flag); name != "" {
			errs = append(errs, fmt.Errorf("--%s: %s is not written, because the replay did not come to its end", flag, name))
		}
	}
	return errors.Join(errs...)
}

// writeReport prints the table, and writes what else is asked for.
func writeReport(t terminal, r *trial.Report, c *cli.Context) error {
	_, err := fmt.Fprintf(t.out, "%s\n\n%s", r.Head(), r.Table())
	write := func(flag string, content func() ([]byte, error)) {
		if c.String(flag) == "" {
			return
		}
		text, mistake := content()
		if mistake == nil {
			mistake = os.WriteFile(c.String(flag), text, 0o600)
		}
		err = errors.Join(err, mistake)
	}
	write("json", func() ([]byte, error) { return json.MarshalIndent(r, "", " ") })
	write("html", func() ([]byte, error) { return trial.Page(r, time.Now()) })
	write("samples", func() ([]byte, error) {
		var lines bytes.Buffer
		err := r.WriteSamples(&lines)
		return lines.Bytes(), err
	})
	return err
}
