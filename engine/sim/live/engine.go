package live

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"plimsoll/engine"
	"plimsoll/engine/sim"
)

// Engine is a simulated engine in real time. It is safe for concurrent use.
type Engine struct {
	cfg  Config
	deps Deps

	work    chan work    // what a hung engine does not take
	control chan control // what works on a hung or dead engine too
	closing chan struct{}
	done    chan struct{} // the loop has ended

	published atomic.Pointer[published] // written by the loop after every step
}

// published is what probes see.
type published struct {
	status      sim.Status
	incarnation string
}

var (
	_ engine.Engine   = (*Engine)(nil)
	_ engine.KVSource = (*Engine)(nil)
)

// New starts an engine that is up and idle. Close ends it.
func New(cfg Config, deps Deps) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Entropy == nil {
		return nil, errors.New("sim: Deps.Entropy is needed")
	}
	e := &Engine{
		cfg: cfg, deps: deps,
		work: make(chan work), control: make(chan control),
		closing: make(chan struct{}), done: make(chan struct{}),
	}
	l, err := newLoop(e)
	if err != nil {
		return nil, err
	}
	go l.run()
	return e, nil
}

// Capabilities implements [engine.Engine].
func (e *Engine) Capabilities() engine.Capabilities {
	return engine.Capabilities{
		Kind: "sim", Sharing: engine.SharingFromDispatch, ConfirmsAbort: true,
		Logprobs: true, MinTokens: true, LogitBias: true, KVEvents: true,
	}
}

// Probe implements [engine.Engine]. It answers during Pause too, with what was so before: so do the HTTP servers of
// real engines that hang.
func (e *Engine) Probe(ctx context.Context) (engine.Status, error) {
	if err := ctx.Err(); err != nil {
		return engine.Status{}, err
	}
	p := e.published.Load()
	if !p.status.Alive {
		return engine.Status{}, down()
	}
	cfg, load := e.cfg.Sim, p.status // copies: what a probe is given is its own
	blocks, limit, adapters := cfg.UsableBlocks(), cfg.SequenceTokens(), slices.Sorted(slices.Values(cfg.Adapters))
	return engine.Status{
		Model: cfg.Model, Names: []string{cfg.Model}, Version: Version, Incarnation: p.incarnation,
		BlockTokens: &cfg.BlockTokens, KVBlocks: &blocks, Seats: &cfg.Seats, SequenceTokens: &limit, Adapters: adapters,
		Load: engine.Load{
			RunningSequences: &load.Running, WaitingSequences: &load.Waiting,
			UsedBlocks: &load.UsedBlocks, Steps: &load.Steps,
		},
	}, nil
}

// Status is what a real engine's metrics say: also what Probe has no place for.
func (e *Engine) Status() sim.Status { return e.published.Load().status }

// Generate implements [engine.Engine].
func (e *Engine) Generate(ctx context.Context, req engine.Request, emit func(engine.Event) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if f := e.refusal(req); f != nil {
		return f
	}
	c := newCall()
	select {
	case e.work <- work{kind: submit, call: c, request: e.submission(req)}:
	case <-ctx.Done():
		return ctx.Err()
	case <-e.done:
		return down()
	}
	var events []engine.Event
	for {
		select {
		case <-c.wake:
		case <-ctx.Done():
			return e.abort(c, req.ID, ctx.Err())
		}
		var failed error
		events, failed = c.take(events)
		for _, event := range events {
			if err := emit(event); err != nil {
				return e.abort(c, req.ID, err)
			}
			if event.Finish != nil {
				return nil
			}
		}
		if failed != nil {
			return failed
		}
	}
}

// abort ends a request whose caller wants no more of it, and returns the cause when the engine has let go.
func (e *Engine) abort(c *call, id string, cause error) error {
	select {
	case e.work <- work{kind: abort, call: c, request: sim.Submit{ID: id}}:
		<-c.ended
	case <-c.ended:
	}
	return cause
}

// refusal says what the machine would not know how to refuse.
func (e *Engine) refusal(req engine.Request) *engine.Failure {
	if req.ChatBody != nil {
		return &engine.Failure{
			Kind: engine.Client, FromEngine: true, Status: http.StatusBadRequest,
			Message: "the simulated engine takes token IDs only", Param: "messages",
		}
	}
	if req.Model != "" && req.Model != e.cfg.Sim.Model {
		return &engine.Failure{
			Kind: engine.Operator, FromEngine: true, Status: http.StatusNotFound, Missing: true,
			Message: fmt.Sprintf("the model %q does not exist", req.Model), Param: "model",
		}
	}
	return nil
}

func (e *Engine) submission(req engine.Request) sim.Submit {
	entropy := e.deps.Entropy()
	if e.cfg.Entropy != nil {
		entropy = *e.cfg.Entropy
	}
	return sim.Submit{
		ID: req.ID, PromptTokens: req.PromptTokens, MaxTokens: req.MaxTokens, MinTokens: req.MinTokens,
		Sampling: req.Sampling, EndTokens: req.EndTokens, IgnoreEOS: req.IgnoreEOS, TopLogprobs: req.TopLogprobs,
		Salt: req.CacheSalt, LoRA: req.LoRA, Entropy: entropy,
	}
}

// Subscribe implements [engine.KVSource]. A subscriber that falls more than FeedBatchesMax batches behind gets a new
// snapshot, with Reset, in place of what it missed. It returns the context's error, or a [*engine.Failure]: Refused
// if the engine is down, Broken if it dies.
func (e *Engine) Subscribe(ctx context.Context, sink func(engine.KVBatch)) error {
	return e.read(ctx, newFeed(e.cfg.FeedBatchesMax, false), sink, func() {})
}

// Follow hears what the engine's own publisher of events would: the batches of every life. sink is called with an empty
// batch with Reset and Seq 0 when Follow begins and when a life does, and then with each batch as it is made; what a
// follower misses that is more than FeedBatchesMax batches behind, and what there was before it began, is a hole in Seq.
// died is called when a life ends. Follow returns the context's error, or a [*engine.Failure] when the engine is closed.
func (e *Engine) Follow(ctx context.Context, sink func(engine.KVBatch), died func()) error {
	return e.read(ctx, newFeed(e.cfg.FeedBatchesMax, true), sink, died)
}

// read hands out what comes to a feed until it breaks.
func (e *Engine) read(ctx context.Context, f *feed, sink func(engine.KVBatch), died func()) error {
	defer f.leave()
	if err := e.enter(ctx, f); err != nil {
		return err
	}
	for {
		select {
		case <-f.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		t := f.take()
		if t.died {
			died()
		}
		for _, b := range t.batches {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			sink(b)
		}
		if t.err != nil {
			return t.err
		}
		if t.lost {
			if err := e.enter(ctx, f); err != nil {
				return err
			}
		}
	}
}

// ResetPrefixCache drops all cached blocks and reports whether it did: not while a block is held, unless force preempts
// the running requests first, which go on afterwards. The event leaves with the next pass. It waits for the running pass;
// an error is the context's, or a [*engine.Failure] of an engine that is down.
func (e *Engine) ResetPrefixCache(ctx context.Context, force bool) (bool, error) {
	done := make(chan bool, 1)
	select {
	case e.work <- work{kind: reset, force: force, reset: done}:
	case <-ctx.Done():
		return false, ctx.Err()
	case <-e.done:
		return false, down()
	}
	select {
	case ok, alive := <-done:
		if !alive {
			return false, down()
		}
		return ok, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// enter asks the loop to feed a feed: a subscriber's with a snapshot first.
func (e *Engine) enter(ctx context.Context, f *feed) error {
	select {
	case e.work <- work{kind: subscribe, feed: f}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.done:
		return down()
	}
}

// Kill ends the simulated process: calls and feeds break, the cache is gone.
func (e *Engine) Kill() { e.order(kill) }

// Start begins a new incarnation after Kill or a crash; on a living engine it does nothing.
func (e *Engine) Start() { e.order(start) }

// Pause makes the engine hang.
func (e *Engine) Pause() { e.order(pause) }

// Resume lets a hanging engine go on where it stopped.
func (e *Engine) Resume() { e.order(resume) }

// Slow has each pass that begins from now on take factor (above 0) times as long as the configuration says.
func (e *Engine) Slow(factor float64) {
	e.give(control{kind: slow, factor: factor, done: make(chan struct{})})
}

// order returns when the loop has done it.
func (e *Engine) order(kind controlKind) {
	e.give(control{kind: kind, done: make(chan struct{})})
}

func (e *Engine) give(c control) {
	select {
	case e.control <- c:
		<-c.done
	case <-e.done:
	}
}

// Close implements [engine.Engine]. When it returns the loop has ended.
func (e *Engine) Close() error {
	close(e.closing)
	<-e.done
	return nil
}

func down() *engine.Failure {
	return &engine.Failure{Kind: engine.Refused, Err: errors.New("the simulated engine is down")}
}
