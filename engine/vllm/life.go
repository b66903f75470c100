package vllm

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"

	"plimsoll/engine"
)

// life is what is known of the serving process.
type life struct {
	counters []float64 // at the last probe
	read     *scrape   // what the last probe read that could read the metrics; nil: none has
	blind    bool      // the last probe could not
	number   int       // of lives that were told apart without a start time
	gone     bool      // nobody listened since the last probe, and no call of ours was running

	incarnation string // of which version is the version
	version     string
}

// lost notes a probe that found nobody.
func (e *Engine) lost(err error) {
	var f *engine.Failure
	if !errors.As(err, &f) || f.Kind != engine.Refused || e.calls.Load() > 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.life.gone = true
}

// blind takes a probe whose metrics were an answer that cannot be read: they are for watching, and a server that serves is not
// given up for them. What the life it is in has told of itself holds on, but its load is not known. A life that has told
// nothing yet, or may have ended, has to be seen first.
func (e *Engine) blind(err error) (scrape, error) {
	var f *engine.Failure
	if !errors.As(err, &f) || f.Kind != engine.Broken {
		return scrape{}, err // of the connection, or the operator's
	}
	before := e.before()
	if before == nil {
		return scrape{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.life.blind {
		e.life.blind = true
		e.deps.Log.Warn("the engine's metrics cannot be read, its load is not known", slog.String("url", e.cfg.URL), slog.Any("reason", err))
	}
	return *before, nil
}

// before is what the present life has told of itself, without its load; nil: nothing yet, or it may have ended.
func (e *Engine) before() *scrape {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life.read == nil || e.life.gone {
		return nil
	}
	c := *e.life.read
	c.load, c.unread = engine.Load{}, true
	return &c
}

// identify returns the evidence of the process, and its version, which is asked for once a life.
func (e *Engine) identify(ctx context.Context, c scrape) (incarnation, version string, err error) {
	e.mu.Lock()
	incarnation = e.life.observe(c)
	known := e.life.incarnation == incarnation
	version = e.life.version
	e.mu.Unlock()
	if known {
		return incarnation, version, nil
	}
	if version, err = e.askVersion(ctx); err != nil {
		return "", "", err
	}
	if err := e.askGenerate(ctx); err != nil {
		return "", "", err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.life.incarnation, e.life.version = incarnation, version
	return incarnation, version, nil
}

// observe takes a probe that was answered and returns the evidence.
func (l *life) observe(c scrape) string {
	back := false
	for i := range min(len(c.counters), len(l.counters)) {
		back = back || c.counters[i] < l.counters[i]
	}
	if back || l.gone {
		l.number++
	}
	l.counters, l.gone = c.counters, false
	if !c.unread {
		l.read, l.blind = &c, false
	}
	if c.started != nil {
		return "start:" + strconv.FormatFloat(*c.started, 'f', -1, 64)
	}
	return "life:" + strconv.Itoa(l.number)
}

// askVersion returns "" where the server does not tell.
func (e *Engine) askVersion(ctx context.Context) (string, error) {
	_, body, err := e.client.Get(ctx, "version")
	if err != nil {
		return "", tolerated(err)
	}
	var said struct {
		Version string `json:"version"`
	}
	_ = json.Unmarshal(body, &said) // another form tells none
	return said.Version, nil
}

// askGenerate finds out whether the generate route is on, by a body that it must refuse.
func (e *Engine) askGenerate(ctx context.Context) error {
	if e.cfg.API != APIAuto {
		return nil
	}
	_, err := e.client.Post(ctx, "inference/v1/generate", []byte("{}"))
	var f *engine.Failure
	on := errors.As(err, &f) && (f.Status == http.StatusBadRequest || f.Status == http.StatusUnprocessableEntity)
	e.generate.Store(on)
	return tolerated(err)
}

// tolerated passes on only errors of the connection: any answer shows a server that lives.
func tolerated(err error) error {
	var f *engine.Failure
	if errors.As(err, &f) && f.FromEngine {
		return nil
	}
	return err
}
