package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"plimsoll/testbench/matrix"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	m := matrix.Default()
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	words := func(name, usage string, list *[]string) {
		flags.Func(name, usage+" (default "+strings.Join(*list, ",")+")", func(text string) error {
			*list = strings.Split(text, ",")
			return nil
		})
	}
	words("traces", "`NAMES`", &m.Traces)
	words("fleets", "`NAMES`", &m.Fleets)
	words("policies", "`NAMES`; the first is compared with the others", &m.Policies)
	flags.Func("loads", "`SHARES` of saturation (default 0.5,0.8,0.95,1.1)", func(text string) (err error) {
		m.Loads, err = numbers(text)
		return err
	})
	flags.IntVar(&m.Seeds, "seeds", m.Seeds, "`N` seeds")
	flags.IntVar(&m.Requests, "requests", m.Requests, "`N` requests for eight replicas, twice as many for 32")
	flags.StringVar(&m.Recorded, "recorded", m.Recorded, "`FOLDER` of the recorded traces")
	file := flags.String("cells", ".tmp/bench-policy/cells.jsonl", "`FILE` of what was run")
	build := flags.String("build", "unnamed", "`NAME` of the code that runs")
	reuse := flags.Bool("reuse", false, "take what other builds have run, too")
	known := flags.Bool("known", false, "run nothing: write what the cells that are there say")
	workers := flags.Int("workers", runtime.GOMAXPROCS(0), "`N` runs at a time")
	results := flags.String("results", "", "write `FILE`, as Markdown (default: print it)")
	command := flags.String("command", "make bench-policy", "`WORDS` that the results name as what made them")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return errors.New("there are flags only")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := matrix.Bench{Matrix: m, File: *file, Build: *build, Reuse: *reuse, Workers: *workers, Tell: tell}
	bench := func() ([]matrix.Line, error) { return b.Run(ctx) }
	if *known {
		bench = b.Known
	}
	lines, err := bench()
	if err != nil {
		return err
	}
	text := matrix.Markdown(lines, m.Policies, *command)
	if *results == "" {
		_, err = fmt.Print(text)
		return err
	}
	return os.WriteFile(*results, []byte(text), 0o644) //nolint:gosec // it is committed
}

func numbers(text string) ([]float64, error) {
	var out []float64
	for word := range strings.SplitSeq(text, ",") {
		v, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func tell(done, all int, l matrix.Line) {
	if l.Cell == nil {
		_, _ = fmt.Fprintf(os.Stderr, "%d/%d %s on %s: load 1 is %.2f requests a second\n", done, all, l.Place.Trace, l.Place.Fleet, l.Saturation)
		return
	}
	_, _ = fmt.Fprintf(os.Stderr, "%d/%d %s %s seed %d: good %.1f %%, TTFT p99 %.2f s\n", done, all, l.Cell.Ground, l.Cell.Policy, l.Cell.Seed,
		100*l.Summary.Good, float64(l.Summary.TTFTP99))
}
