package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"

	"plimsoll/testbench/dst"
)

// found is what the search for a plant has come to, as one process tells the other.
type found struct {
	Found  bool
	Seed   uint64
	What   string // the violation
	Others int    // seeds before it that violate something else
	Other  string // the first of these
}

// seek runs seeds of this process until the checker finds something.
func seek(first, most uint64, catches dst.Checker) found {
	var f found
	for seed := first; seed < first+most; seed++ {
		r := dst.Run(dst.Config{Seed: seed})
		switch {
		case r.Violation == nil:
		case r.Violation.Checker == catches:
			f.Found, f.Seed, f.What = true, seed, r.Violation.String()
			return f
		default:
			if f.Others++; f.Others == 1 {
				f.Other = fmt.Sprintf("seed %d: %v", seed, r.Violation)
			}
		}
	}
	return f
}

// sow starts the program with a plant and has it search.
func sow(ctx context.Context, program string, p *Patch, first, most uint64) (found, error) {
	var f found
	cmd := exec.CommandContext(ctx, program, "-seek", p.Catches.String(), "-first", strconv.FormatUint(first, 10), "-seeds", strconv.FormatUint(most, 10)) //nolint:gosec // our own
	cmd.Env = append(os.Environ(), sownEnv+"="+p.Name, "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	said, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(said, &f)
	}
	if err != nil {
		return f, fmt.Errorf("%q: %w", p.Name, err)
	}
	return f, nil
}

// sowAll searches for every patch, workers of them at a time, and tells of each when it is done.
func sowAll(ctx context.Context, program string, patches []Patch, from func(*Patch) uint64, most uint64, workers int, tell func(*Patch, found, error)) {
	var all sync.WaitGroup
	var mu sync.Mutex // one word at a time
	next := make(chan *Patch)
	for range workers {
		all.Go(func() {
			for p := range next {
				f, err := sow(ctx, program, p, from(p), most)
				mu.Lock()
				tell(p, f, err)
				mu.Unlock()
			}
		})
	}
	for i := range patches {
		next <- &patches[i]
	}
	close(next)
	all.Wait()
}
