package llamacpp

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sse"
)

// Generate implements [engine.Engine].
func (e *Engine) Generate(ctx context.Context, req engine.Request, emit func(engine.Event) error) error {
	body, err := encode(req)
	if err != nil {
		return err
	}
	call, done := e.begin(ctx)
	defer done() // closes the connection unless its body was read to the end: that is the abort
	resp, err := e.do(call, "completion", body)
	if err != nil {
		return e.verdict(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := e.accept(resp); err != nil {
		return e.verdict(ctx, err)
	}
	refused, err := e.stream(resp.Body, req, emit)
	if refused != nil {
		return refused
	}
	if err != nil {
		return e.verdict(ctx, err)
	}
	drain(resp.Body, done)
	return nil
}

// accept refuses an answer that is not the stream we asked for.
func (e *Engine) accept(resp *http.Response) error {
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(resp.Body, int64(e.cfg.AnswerBytes)))
		if err != nil && len(body) == 0 {
			return err
		}
		return statusFailure(resp, body)
	}
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return broken("answer with content encoding %q", coding)
	}
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || media != "text/event-stream" {
		return broken("answer with content type %q where a stream was asked for", resp.Header.Get("Content-Type"))
	}
	return nil
}

// stream emits the events of a body up to its finish. refused is emit's own error, err any other.
func (e *Engine) stream(body io.Reader, req engine.Request, emit func(engine.Event) error) (refused, err error) {
	frames := sse.NewReader(body, sse.Limits{LineBytes: e.cfg.FrameBytes, EventBytes: e.cfg.FrameBytes})
	d := decoder{maxTokens: req.MaxTokens, topLogprobs: req.TopLogprobs}
	for !d.finished {
		raw, err := frames.Next()
		if errors.Is(err, io.EOF) {
			return nil, broken("the stream ended without a finish")
		}
		if err != nil {
			return nil, err
		}
		ev, tell, err := d.decode(raw.Data)
		if err != nil {
			return nil, err
		}
		if !tell {
			continue
		}
		if err := emit(ev); err != nil {
			return err, nil
		}
	}
	return nil, nil
}

const (
	drainBytes   = 4096
	drainTimeout = 100 * time.Millisecond
)

// drain reads the end of a finished stream so that its connection can be used again. A server that does not end it soon
// loses the connection.
func drain(body io.Reader, abort func()) {
	timer := time.AfterFunc(drainTimeout, abort)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, body, drainBytes)
}
