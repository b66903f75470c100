package matrix

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"plimsoll/testbench/trial"
)

// Line is what is known of a cell, or of a place's saturation.
type Line struct {
	Build string `json:"build"`
	Cell  *Cell  `json:"cell,omitempty"`
	Place *Place `json:"place,omitempty"` // of which Saturation is told
	// Requests is how many were asked for to measure it.
	Requests   int            `json:"requests,omitempty"`
	Saturation float64        `json:"saturation_per_second,omitempty"`
	PerSecond  float64        `json:"per_second,omitempty"` // requests that came
	Digest     string         `json:"digest,omitempty"`
	Summary    *trial.Summary `json:"summary,omitempty"`
}

// Bench runs a matrix.
type Bench struct {
	Matrix  Matrix
	File    string // of lines
	Build   string // names the code that runs
	Reuse   bool   // lines of other builds count too
	Workers int    // runs at a time
	// Tell hears of every cell that was run, from one goroutine at a time.
	Tell func(done, all int, line Line)
}

// known is what a file says.
type known struct {
	saturation map[Place]map[int]float64
	cells      map[Cell]Line
}

// Read reads a file of lines; one that is not there is empty. A last line that was cut off counts as none.
func Read(file string) ([]Line, error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var out []Line
	for n := 1; len(text) > 0; n++ {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		text = rest
		var l Line
		if err := json.Unmarshal(line, &l); err != nil {
			if !whole {
				break
			}
			return nil, fmt.Errorf("%s: line %d: %w", file, n, err)
		}
		out = append(out, l)
	}
	return out, nil
}

func (b *Bench) known() (known, error) {
	k := known{saturation: map[Place]map[int]float64{}, cells: map[Cell]Line{}}
	lines, err := Read(b.File)
	if err != nil {
		return k, err
	}
	for _, l := range lines {
		switch {
		case l.Build != b.Build && !b.Reuse:
		case l.Cell != nil:
			k.cells[*l.Cell] = l
		case l.Place != nil:
			if k.saturation[*l.Place] == nil {
				k.saturation[*l.Place] = map[int]float64{}
			}
			k.saturation[*l.Place][l.Requests] = l.Saturation
		}
	}
	return k, nil
}

// Known returns the lines of the cells that the file has.
func (b *Bench) Known() ([]Line, error) {
	if err := b.Matrix.Validate(); err != nil {
		return nil, err
	}
	k, err := b.known()
	if err != nil {
		return nil, err
	}
	var lines []Line
	for _, c := range b.Matrix.Cells() {
		if l, ok := k.cells[c]; ok {
			lines = append(lines, l)
		}
	}
	return lines, nil
}

// Run runs the cells that the file lacks, and returns the lines of all. If ctx ends, what runs is ended first.
func (b *Bench) Run(ctx context.Context) ([]Line, error) {
	if err := b.Matrix.Validate(); err != nil {
		return nil, err
	}
	k, err := b.known()
	if err != nil {
		return nil, err
	}
	out, err := openLines(b.File)
	if err != nil {
		return nil, err
	}
	err = b.saturate(ctx, k, out)
	if err == nil {
		err = b.cells(ctx, k, out)
	}
	if err = errors.Join(err, out.close()); err != nil {
		return nil, err
	}
	var lines []Line
	for _, c := range b.Matrix.Cells() {
		lines = append(lines, k.cells[c])
	}
	return lines, nil
}

// saturate measures what is not known of the places.
func (b *Bench) saturate(ctx context.Context, k known, out *lines) error {
	var missing []Place
	for _, p := range b.Matrix.Places() {
		if _, ok := k.saturation[p][b.Matrix.requests(p.Fleet)]; !ok {
			missing = append(missing, p)
		}
	}
	done := 0
	return each(ctx, b.Workers, missing, func(p Place) error {
		requests := b.Matrix.requests(p.Fleet)
		c, err := b.Matrix.trial(p, requests)
		if err != nil {
			return err
		}
		rate, err := trial.Saturation(c, trial.Deps{Tell: func(trial.Progress) {}})
		if err != nil {
			return fmt.Errorf("%s on %s: %w", p.Trace, p.Fleet, err)
		}
		return out.add(Line{Build: b.Build, Place: &p, Requests: requests, Saturation: rate}, func(l Line) {
			if k.saturation[p] == nil {
				k.saturation[p] = map[int]float64{}
			}
			k.saturation[p][requests] = rate
			done++
			b.Tell(done, len(missing), l)
		})
	})
}

// cells runs what is not known.
func (b *Bench) cells(ctx context.Context, k known, out *lines) error {
	var missing []Cell
	for _, c := range b.Matrix.Cells() {
		if _, ok := k.cells[c]; !ok {
			missing = append(missing, c)
		}
	}
	rates := map[Cell]float64{} // read by many goroutines, so it is made before
	for _, c := range missing {
		rates[c] = k.saturation[c.Place][c.Requests]
	}
	done := 0
	return each(ctx, b.Workers, missing, func(c Cell) error {
		l, err := b.Matrix.Run(c, rates[c])
		if err != nil {
			return err
		}
		l.Build = b.Build
		return out.add(l, func(l Line) {
			k.cells[c] = l
			done++
			b.Tell(done, len(missing), l)
		})
	})
}

// Run runs one cell, where load 1 is that many requests a second.
func (m Matrix) Run(c Cell, saturation float64) (Line, error) {
	t, err := m.trial(c.Place, c.Requests)
	if err != nil {
		return Line{}, err
	}
	t.Policies, t.Seeds, t.Load, t.Saturation = []string{c.Policy}, []uint64{c.Seed}, &c.Load, &saturation
	r, err := trial.Simulate(t, trial.Deps{Tell: func(trial.Progress) {}})
	if err != nil {
		return Line{}, fmt.Errorf("%s: %w", c.Ground, err)
	}
	run := &r.Runs[0]
	return Line{Cell: &c, PerSecond: run.PerSecond, Saturation: saturation, Digest: run.Digest, Summary: &run.Summary}, nil
}

// lines is a file that many add to.
type lines struct {
	mu   sync.Mutex
	file *os.File
}

// add writes a line and calls then, both under one lock.
func (l *lines) add(line Line, then func(Line)) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err = l.file.Write(append(text, '\n')); err != nil {
		return err
	}
	then(line)
	return nil
}

func (l *lines) close() error { return l.file.Close() }

// each calls f for every item, some at a time, in order. After the first error or the end of ctx no more are begun.
func each[T any](ctx context.Context, workers int, items []T, f func(T) error) error {
	var wait sync.WaitGroup
	var mu sync.Mutex
	next, errs := 0, []error(nil)
	take := func() (T, bool) {
		mu.Lock()
		defer mu.Unlock()
		var none T
		if next == len(items) || len(errs) > 0 {
			return none, false
		}
		if err := ctx.Err(); err != nil {
			errs = append(errs, err)
			return none, false
		}
		next++
		return items[next-1], true
	}
	for range max(1, workers) {
		wait.Go(func() {
			for item, ok := take(); ok; item, ok = take() {
				if err := f(item); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}
