package chaos

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// sample looks at the fleet at intervals, until the context ends.
func (r *run) sample(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	last := r.now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		said, err := r.fleet.report(ctx)
		if err != nil {
			continue // a node that does not answer shows in the outcomes
		}
		now := r.now()
		s := Sample{At: now, Tokens: int(r.frames.Swap(0))}
		for _, h := range r.fleet.engines {
			state, running := "none", 0
			if e := said.of(h.name()); e != nil {
				state, running = e.State, e.Load.Running+e.Load.Reserved
				if e.Suspect || e.Hung {
					state = "suspect"
				}
			}
			s.States, s.Running = append(s.States, state), append(s.Running, running)
		}
		r.mu.Lock()
		r.report = said
		s.Open = len(r.open)
		r.samples = append(r.samples, s)
		p := Progress{
			Phase: r.phase, At: now, Open: s.Open, Done: len(r.streams), Hit: len(r.times), Faults: len(r.struck), Leaves: len(r.leaves),
			TokensPerSecond: float64(s.Tokens) / (now - last).Seconds(), States: s.States,
		}
		for _, n := range r.times {
			if n > 1 {
				p.HitTwice++
			}
		}
		for _, s := range r.streams {
			if s.err != nil {
				p.Failed++
			}
		}
		if n := len(r.struck); n > 0 {
			p.LastFault = fmt.Sprintf("%s e%d", r.struck[n-1].Kind, r.struck[n-1].Engine)
		}
		r.mu.Unlock()
		last = now
		r.deps.Progress(p)
	}
}

// settle waits until nothing is booked and every engine serves, or too long has passed, and says what is left then.
func (r *run) settle(ctx context.Context) (end Ending) {
	r.enter("settling")
	began := r.now()
	for {
		l, err := r.fleet.left(ctx)
		if err == nil {
			end.Left = l
		}
		if end.Zero = r.now() - began; err == nil && l == (left{}) || end.Zero > r.plan.Settle || ctx.Err() != nil {
			break
		}
		pause(ctx, 50*time.Millisecond)
	}
	over := time.Duration(0)
	r.mu.Lock()
	for _, f := range r.struck {
		over = max(over, f.Over)
	}
	r.mu.Unlock()
	for {
		r.mu.Lock()
		at, all := served(r.samples, over)
		said := r.report
		r.mu.Unlock()
		if all || r.now()-began > r.plan.Settle || ctx.Err() != nil {
			end.Live = at - over
			break
		}
		pause(ctx, sampleEvery)
		end.NotServing = nil
		for i := range said.Replicas {
			if e := &said.Replicas[i]; e.State != "ready" {
				end.NotServing = append(end.NotServing, fmt.Sprintf("%s is %s: %s", e.Name, e.State, e.LastError))
			}
		}
	}
	if said, err := r.fleet.report(ctx); err == nil {
		for i := range said.Replicas {
			e := &said.Replicas[i]
			end.States, end.Index = append(end.States, e.State), append(end.Index, e.Index.State)
			end.Predicted += e.Index.PredictedCachedTokens
			end.Reported += e.Index.ReportedCachedTokens
		}
	}
	if m, err := r.fleet.metrics(ctx); err == nil {
		end.Panics = int(total(m, "plimsoll_actor_panics_total"))
		end.Resumed = int(total(m, "plimsoll_stream_breaks_total"))
	}
	return end
}

// served is the first time after a moment at which all engines served.
func served(samples []Sample, after time.Duration) (time.Duration, bool) {
	for _, s := range samples {
		if s.At < after {
			continue
		}
		ready := 0
		for _, state := range s.States {
			if state == "ready" {
				ready++
			}
		}
		if ready == len(s.States) {
			return s.At, true
		}
	}
	return 0, false
}

// result takes together what was recorded.
func (r *run) result() *Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &Result{Plan: r.plan.Name, Seed: r.plan.Seed, Engines: r.plan.Fleet.Size(), Began: r.began, Faults: r.struck, Leaves: r.leaves, Samples: slices.Clone(r.samples)}
	out.Attempts = r.tracker.all()
	closing(out.Leaves, out.Attempts)
	of := map[int]int{}
	for i := range out.Attempts {
		of[out.Attempts[i].Request]++
	}
	for _, s := range r.streams {
		one := Stream{
			Request: s.number, Class: s.class, Prompt: len(s.prompt), Tokens: s.tokens, Began: s.began, Ended: s.ended, Attempts: of[s.number],
		}
		if s.err != nil {
			one.Error = s.err.Error()
		}
		out.Streams = append(out.Streams, one)
	}
	for _, h := range r.hits {
		out.Hits = append(out.Hits, *h)
	}
	return out
}

// check compares every whole answer with what the oracle says.
func (r *run) check(result *Result) error {
	if len(r.plan.Fleet.Real) > 0 {
		return nil // nobody knows what they say
	}
	joints := map[int][]int{}
	for i := range result.Attempts {
		a := &result.Attempts[i]
		joints[a.Request] = append(joints[a.Request], a.PromptTokens)
	}
	var workers sync.WaitGroup
	todo := make(chan int)
	errs := make([]error, runtime.GOMAXPROCS(0))
	for w := range errs {
		workers.Go(func() {
			for i := range todo {
				s := r.streams[i]
				var at []int
				for _, prompt := range joints[s.number] {
					at = append(at, prompt-len(s.prompt))
				}
				wrong, err := r.oracle.check(&s.ask, s.legs, s.tokens, at)
				if result.Streams[i].Wrong = wrong; err != nil && errs[w] == nil {
					errs[w] = err
				}
			}
		})
	}
	for i, s := range r.streams {
		if s.err == nil {
			todo <- i
		}
	}
	close(todo)
	workers.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
