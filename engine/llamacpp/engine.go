package llamacpp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"

	"plimsoll/engine"
)

// Kind is the word for this adapter in --replica.
const Kind = "llamacpp"

// Deps is what an Engine needs from outside; all of it is required.
type Deps struct {
	// Dial opens a connection to the server, as (*net.Dialer).DialContext does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Engine is one llama-server.
type Engine struct {
	cfg    Config
	base   string // the server's address, ends in /
	client *http.Client

	closed  atomic.Bool
	closing func()                       // cancels every running call
	onClose func(f func()) (stop func()) // runs f once closing is called
}

var _ engine.Engine = (*Engine)(nil)

// errClosed is why calls of a closed Engine fail.
var errClosed = errors.New("the engine is closed")

// New checks the configuration. It does not connect.
func New(cfg Config, deps Deps) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("llamacpp: %w", err)
	}
	if deps.Dial == nil {
		return nil, errors.New("llamacpp: Deps.Dial is missing")
	}
	base, err := parseURL(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("llamacpp: %w", err)
	}
	life, cancel := context.WithCancel(context.Background())
	return &Engine{
		cfg:     cfg,
		base:    base,
		client:  newClient(cfg, deps),
		closing: cancel,
		onClose: func(f func()) func() {
			stop := context.AfterFunc(life, f)
			return func() { stop() }
		},
	}, nil
}

// Capabilities implements [engine.Engine].
func (e *Engine) Capabilities() engine.Capabilities {
	return engine.Capabilities{
		Kind:          Kind,
		Sharing:       engine.SharingNever,
		ConfirmsAbort: false,
		LingerBound:   e.cfg.LingerBound,
		Logprobs:      true,
		MinTokens:     false,
		LogitBias:     true,
		KVEvents:      false,
	}
}

// Close implements [engine.Engine].
func (e *Engine) Close() error {
	e.closed.Store(true)
	e.closing()
	e.client.CloseIdleConnections()
	return nil
}

// begin returns the context of one call, which ends with ctx, with done or with the engine.
func (e *Engine) begin(ctx context.Context) (call context.Context, done func()) {
	call, cancel := context.WithCancel(ctx)
	if e.closed.Load() {
		cancel()
	}
	stop := e.onClose(cancel)
	return call, func() {
		stop()
		cancel()
	}
}

// verdict turns what ended a call into what the call returns.
func (e *Engine) verdict(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case e.closed.Load():
		return &engine.Failure{Kind: engine.Broken, Err: errClosed}
	}
	return transportFailure(err)
}
