package vllm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/kvevents"
)

// EventsMode says how the publisher of the cache's events is found.
type EventsMode string

const (
	EventsAsk EventsMode = "auto" // the server is asked at each subscription: ports may change at a restart
	EventsSet EventsMode = "set"  // Config.Publisher says where it is
	EventsOff EventsMode = "off"  // its events are not listened to
)

// Subscribe implements [engine.KVSource]. Where the server is asked for its publisher and names none, the error is
// [engine.ErrNoKVEvents].
func (e *Engine) Subscribe(ctx context.Context, sink func(engine.KVBatch)) error {
	call, done := e.client.Begin(ctx)
	defer done()
	publisher, err := e.publisher(call)
	if err != nil {
		return e.client.Verdict(ctx, err)
	}
	source, err := kvevents.New(*publisher, kvevents.Deps{Log: e.deps.Log, Entropy: e.deps.Entropy})
	if err != nil {
		return fmt.Errorf("vllm: what the server says of its publisher cannot be used: %w", err)
	}
	err = source.Subscribe(call, sink)
	if ctx.Err() == nil && call.Err() != nil { // the engine was closed
		return e.client.Verdict(ctx, err)
	}
	return err
}

// publisher is where the rank's events are to be had.
func (e *Engine) publisher(ctx context.Context) (*kvevents.Config, error) {
	switch e.cfg.Events {
	case EventsSet:
		return e.cfg.Publisher, nil
	case EventsOff:
		return nil, engine.ErrNoKVEvents
	case EventsAsk:
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.ProbeTimeout)
	defer cancel()
	server, err := url.Parse(e.cfg.URL)
	if err != nil {
		return nil, errors.New("vllm: URL cannot be parsed")
	}
	found, err := kvevents.Discover(ctx, e.ask, server.Hostname(), int(max(0, e.pinned.Load())))
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, engine.ErrNoKVEvents
	}
	return found, nil
}

// ask tells status and body of a GET, whatever the status.
func (e *Engine) ask(ctx context.Context, path string) (status int, body []byte, err error) {
	_, body, err = e.client.Get(ctx, strings.TrimPrefix(path, "/"))
	var f *engine.Failure
	if errors.As(err, &f) && f.FromEngine && f.Status != 0 {
		return f.Status, nil, nil
	}
	return http.StatusOK, body, err
}
