package vllm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"plimsoll/engine"
	"plimsoll/engine/wire"
	"plimsoll/scoring/prefix"
)

// Kind is the word for this adapter in --replica.
const Kind = "vllm"

// Deps is what an Engine needs from outside; all of it is required.
type Deps struct {
	Dial wire.Dial // opens a connection to the server
	Log  *slog.Logger
	// Entropy returns random bits, for jitter. It is called from many goroutines.
	Entropy func() uint64
}

// Engine is one data-parallel rank of a vLLM server.
type Engine struct {
	cfg    Config
	deps   Deps
	client *wire.Client

	calls    atomic.Int64 // of Generate, running now
	generate atomic.Bool  // in APIAuto: the generate route is on
	pinned   atomic.Int64 // rank that calls go to; -1: the server's choice, because it has only one

	mu   sync.Mutex // guards life: probes may overlap
	life life
}

var (
	_ engine.Engine   = (*Engine)(nil)
	_ engine.KVSource = (*Engine)(nil)
)

// New checks the configuration. It does not connect.
func New(cfg Config, deps Deps) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("vllm: %w", err)
	}
	cfg.Kind = Kind
	client, err := wire.New(cfg.Config, deps.Dial)
	if err != nil {
		return nil, fmt.Errorf("vllm: %w", err)
	}
	if deps.Log == nil || deps.Entropy == nil {
		return nil, errors.New("vllm: Log or Entropy is missing")
	}
	e := &Engine{cfg: cfg, deps: deps, client: client}
	e.generate.Store(cfg.API == APIGenerate)
	e.pinned.Store(-1)
	if cfg.Rank != nil {
		e.pinned.Store(int64(*cfg.Rank))
	}
	return e, nil
}

// Capabilities implements [engine.Engine].
func (e *Engine) Capabilities() engine.Capabilities {
	return engine.Capabilities{
		Kind:          Kind,
		Sharing:       engine.SharingFromDispatch,
		ConfirmsAbort: false,
		LingerBound:   e.cfg.LingerBound,
		Logprobs:      true,
		MinTokens:     true,
		LogitBias:     true,
		KVEvents:      e.cfg.Events != EventsOff,
		KVCopies:      prefix.Counted,
		Chat:          true,
	}
}

// Close implements [engine.Engine].
func (e *Engine) Close() error {
	e.client.Close()
	return nil
}

// Generate implements [engine.Engine].
func (e *Engine) Generate(ctx context.Context, req engine.Request, emit func(engine.Event) error) error {
	e.calls.Add(1)
	defer e.calls.Add(-1)
	generate := req.ChatBody == nil && e.generate.Load()
	call, err := encode(req, e.cfg.Model, generate)
	if err != nil {
		return err
	}
	call.Header = e.header(req)
	d := &decoder{maxTokens: req.MaxTokens, topLogprobs: req.TopLogprobs, chat: req.ChatBody != nil}
	var refused error
	err = e.client.Stream(ctx, call, d, func(ev engine.Event) error {
		refused = emit(ev)
		return refused
	})
	if refused != nil {
		return err // it is the caller's own
	}
	if generate && e.cfg.API == APIAuto && isOff(err) {
		e.generate.Store(false)
	}
	return e.explain(err)
}

// header names the attempt in the server's log, and the rank.
func (e *Engine) header(req engine.Request) http.Header {
	h := http.Header{}
	if req.ID != "" {
		h.Set("X-Request-Id", req.ID)
	}
	if rank := e.pinned.Load(); rank >= 0 {
		h.Set("X-Data-Parallel-Rank", strconv.FormatInt(rank, 10))
	}
	return h
}

// explain turns what the server complains of into the client's terms, or into the operator's where it is his.
func (e *Engine) explain(err error) error {
	var f *engine.Failure
	if !errors.As(err, &f) || f.Kind != engine.Client || !f.FromEngine {
		return err
	}
	said := *f
	if strings.HasPrefix(said.Message, "data_parallel_rank") { // no client of ours can name one
		return &engine.Failure{Kind: engine.Operator, FromEngine: true, Status: said.Status, Err: errors.New(said.Message)}
	}
	said.Param, _, _ = strings.Cut(strings.TrimPrefix(said.Param, "body."), ".")
	if said.Param == "token_ids" {
		said.Param = "prompt"
	}
	return &said
}

// isOff tells a route that is not there, is disabled, or is too old to stream.
func isOff(err error) bool {
	var f *engine.Failure
	var plain *wire.NotAStreamError
	return errors.As(err, &plain) ||
		errors.As(err, &f) && f.FromEngine && f.Param == "" && (f.Status == http.StatusForbidden || f.Status == http.StatusNotFound)
}
