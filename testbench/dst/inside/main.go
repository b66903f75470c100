package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "inside:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("inside", flag.ContinueOnError)
	first := flags.Uint64("first", 0, "begin at seed `N`")
	seeds := flags.Uint64("seeds", 1000, "search `N` seeds for each plant")
	workers := flags.Int("workers", runtime.GOMAXPROCS(0), "search for `N` at a time")
	only := flags.String("plant", "", "search for those only in whose names `TEXT` stands")
	asked := flags.String("seek", "", "run seeds of this very program until the checker `NAME` finds something, and print that as JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *asked != "" {
		catches, err := checkerOf(*asked)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(seek(*first, *seeds, catches))
	}
	patches, err := Patches()
	if err != nil {
		return err
	}
	patches = slices.DeleteFunc(patches, func(p Patch) bool { return !strings.Contains(p.Name, *only) })
	root, err := repository()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "inside")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program, err := build(ctx, root, dir, patches)
	if err != nil {
		return err
	}
	var missed []string
	var failed error
	sowAll(ctx, program, patches, func(*Patch) uint64 { return *first }, *seeds, *workers, func(p *Patch, f found, err error) {
		switch {
		case err != nil:
			failed = errors.Join(failed, err)
		case f.Found:
			fmt.Printf("%-52s found by %-13s in seed %d, %d seeds after the first (%d violate something else)\n", p.Name, p.Catches, f.Seed, f.Seed-*first, f.Others)
		default:
			missed = append(missed, p.Name)
			fmt.Printf("%-52s not found by %s in %d seeds (%d violate something else %s)\n", p.Name, p.Catches, *seeds, f.Others, f.Other)
		}
	})
	if len(missed) > 0 {
		failed = errors.Join(failed, fmt.Errorf("%d plants are not found: %s", len(missed), strings.Join(missed, ", ")))
	}
	return failed
}
