package llamacpp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"unicode/utf8"

	"plimsoll/engine"
	"plimsoll/engine/wire"
)

// Kind is the word for this adapter in --replica.
const Kind = "llamacpp"

// Deps is what an Engine needs from outside; all of it is required.
type Deps struct {
	Dial wire.Dial // opens a connection to the server
	Log  *slog.Logger
}

// Engine is one llama-server.
type Engine struct {
	cfg    Config
	log    *slog.Logger
	client *wire.Client
	blind  atomic.Bool // the last answer about metrics could not be read

	described described
}

var _ engine.Engine = (*Engine)(nil)

// New checks the configuration. It does not connect.
func New(cfg Config, deps Deps) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("llamacpp: %w", err)
	}
	if deps.Log == nil {
		return nil, errors.New("llamacpp: Log is missing")
	}
	cfg.Kind = Kind
	client, err := wire.New(cfg.Config, deps.Dial)
	if err != nil {
		return nil, fmt.Errorf("llamacpp: %w", err)
	}
	return &Engine{cfg: cfg, log: deps.Log, client: client}, nil
}

// lostMost: a character has at most four bytes, and each token of it at least one. The last one is told.
const lostMost = utf8.UTFMax - 1

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
		LostMost:      lostMost,
	}
}

// Generate implements [engine.Engine].
func (e *Engine) Generate(ctx context.Context, req engine.Request, emit func(engine.Event) error) error {
	body, err := encode(req)
	if err != nil {
		return err
	}
	d := &decoder{maxTokens: req.MaxTokens, topLogprobs: req.TopLogprobs}
	return e.client.Stream(ctx, wire.Request{Path: "completion", Body: body}, d, emit)
}

// Close implements [engine.Engine].
func (e *Engine) Close() error {
	e.client.Close()
	return nil
}
