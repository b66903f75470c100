package managed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"plimsoll/engine"
	"plimsoll/engine/process"
)

// nowhere is an address for an adapter that is asked for its capabilities alone.
const nowhere = "http://127.0.0.1:1"

// eventsMax is how many events may wait for the keeper; more make their senders wait.
const eventsMax = 16

// Engine is an engine that runs as a process of ours. It is safe for concurrent use.
type Engine struct {
	cfg          Config
	deps         Deps
	capabilities engine.Capabilities
	output       *output

	events chan any
	over   chan struct{} // closed when the keeper has ended

	present atomic.Pointer[life] // nil while no process can be called
	status  atomic.Pointer[Status]
	err     error // of closing the log; read after over
}

var (
	_ engine.Engine   = (*Engine)(nil)
	_ engine.KVSource = (*Engine)(nil)
)

// New starts the engine's process, and keeps it running until Close. It does not wait for it.
func New(cfg Config, deps Deps) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	adapter, err := deps.Connect(nowhere)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		cfg: cfg, deps: deps, capabilities: adapter.Capabilities(),
		events: make(chan any, eventsMax), over: make(chan struct{}),
	}
	if err := adapter.Close(); err != nil {
		return nil, err
	}
	if e.output, err = newOutput(cfg, deps.Log); err != nil {
		return nil, err
	}
	m := newMachine(cfg, rand.New(rand.NewPCG(deps.Seed, 3)))
	e.status.Store(m.status(0))
	go e.keep(m)
	return e, nil
}

// Capabilities implements [engine.Engine].
func (e *Engine) Capabilities() engine.Capabilities { return e.capabilities }

// Status is how the process is now.
func (e *Engine) Status() Status { return *e.status.Load() }

// absent is the failure of a call for which no process is there.
func (e *Engine) absent() *engine.Failure {
	s := e.Status()
	why := "its process is " + s.Phase.String()
	if s.LastExit != "" {
		why += "; the last one: " + s.LastExit
	}
	return &engine.Failure{Kind: engine.Refused, Err: errors.New(why)}
}

// enter begins a call of the present life; leave ends it.
func (e *Engine) enter() (l *life, failure *engine.Failure) {
	if l := e.present.Load(); l != nil && l.enter() {
		return l, nil
	}
	return nil, e.absent()
}

// Probe implements [engine.Engine]. The first that succeeds in a life is what makes it count as started.
func (e *Engine) Probe(ctx context.Context) (engine.Status, error) {
	l, absent := e.enter()
	if absent != nil {
		return engine.Status{}, absent
	}
	defer l.leave()
	call, done := l.watching(ctx)
	defer done()
	status, err := l.engine.Probe(call)
	switch {
	case err != nil && ctx.Err() == nil && call.Err() != nil:
		return engine.Status{}, e.absent()
	case err != nil:
		return engine.Status{}, err
	}
	if e.Status().Phase == Starting {
		e.send(ready{l.start})
	}
	status.Incarnation = l.evidence(status.Incarnation)
	return status, nil
}

// Generate implements [engine.Engine].
func (e *Engine) Generate(ctx context.Context, req engine.Request, emit func(engine.Event) error) error {
	l, absent := e.enter()
	if absent != nil {
		return absent
	}
	defer l.leave()
	return l.engine.Generate(ctx, req, emit)
}

// Subscribe implements [engine.KVSource] where the adapter does. A subscription ends with the life.
func (e *Engine) Subscribe(ctx context.Context, sink func(engine.KVBatch)) error {
	l, absent := e.enter()
	if absent != nil {
		return absent
	}
	defer l.leave()
	source, ok := l.engine.(engine.KVSource)
	if !ok {
		return fmt.Errorf("%s reports no cache events", e.capabilities.Kind)
	}
	call, done := l.watching(ctx)
	defer done()
	return source.Subscribe(call, sink)
}

// Restart ends the process and starts another, if the one whose incarnation showed that evidence still serves. Who has found
// that it hangs calls it; it does not wait.
func (e *Engine) Restart(evidence, why string) {
	if l := e.present.Load(); l != nil && l.owns(evidence) {
		e.send(giveUp{l.start, why})
	}
}

// send tells the keeper.
func (e *Engine) send(event any) {
	select {
	case e.events <- event:
	case <-e.over:
	}
}

// Close ends the process and all that it started, and waits for that: at most the grace and what the system takes to kill.
func (e *Engine) Close() error {
	var cut error
	if l := e.present.Load(); l != nil {
		cut = l.cut()
	}
	e.send(closing{})
	<-e.over
	return errors.Join(cut, e.err)
}

// values are what stands in the command for its placeholders.
func (c Config) values(port int) process.Values {
	return process.Values{Port: port, Index: c.Index, Name: c.Name, Device: c.Device}
}
