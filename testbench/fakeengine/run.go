package fakeengine

import (
	"context"
	"errors"
	"sync"

	"plimsoll/engine"
)

var (
	// errAborted is the cause of a context that POST .../abort_requests ends.
	errAborted = errors.New("the request was aborted")
	// errStopped ends a leg whose stop string has come.
	errStopped = errors.New("a stop string has come")
)

// sink takes what is added to a choice. It is called by one goroutine at a time.
type sink func(c *choice, d delta) error

// run asks the engine for every choice and hands what comes to out. It returns when all legs have ended, with the first
// error: the engine's [*engine.Failure], the sink's, or the context's when the client has gone.
func (s *Server) run(ctx context.Context, a *ask, choices []*choice, out sink) error {
	if len(choices) == 1 {
		return s.leg(ctx, a, choices[0], out)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var first error
	locked := func(c *choice, d delta) error {
		mu.Lock()
		defer mu.Unlock()
		return out(c, d)
	}
	var legs sync.WaitGroup
	for _, c := range choices {
		legs.Go(func() {
			err := s.leg(ctx, a, c, locked)
			if err == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if first == nil {
				first = err
			}
			cancel(err)
		})
	}
	legs.Wait()
	return first
}

// leg runs one choice to its end.
func (s *Server) leg(ctx context.Context, a *ask, c *choice, out sink) error {
	count := s.counters.begin(len(c.prompt))
	req := a.request(c.prompt, c.index%a.n, s.legs.Add(1))
	err := s.engine.Generate(ctx, req, func(e engine.Event) error {
		count.event(e)
		d, done, err := c.take(e)
		if err != nil {
			return err
		}
		if err := s.faults.hold(ctx, len(c.ids)); err != nil {
			return err
		}
		if d.finish != "" {
			count.finished(d.finish)
		}
		if err := out(c, d); err != nil {
			return err
		}
		if done && e.Finish == nil {
			return errStopped
		}
		return nil
	})
	switch {
	case errors.Is(err, errStopped):
		return nil
	case err != nil && errors.Is(context.Cause(ctx), errBroke):
		return broke()
	case err != nil && errors.Is(context.Cause(ctx), errAborted):
		return out(c, delta{finish: finishAbort})
	}
	return err
}

// choices makes a request's choices: the n of the first prompt, then those of the next.
func (s *Server) choices(a *ask) []*choice {
	list := make([]*choice, 0, len(a.prompts)*a.n)
	for _, prompt := range a.prompts {
		for range a.n {
			list = append(list, newChoice(a, len(list), prompt, s.deps.Model, s.deps.Source.EOS()))
		}
	}
	return list
}
