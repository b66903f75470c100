package wire

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

// Decoder turns the frames of one stream into events.
type Decoder interface {
	// Frame reads the data of one frame. tell is false if the frame says nothing that an event would carry. An event may
	// come with an error: it is told before the call fails. The stream is over once an event with a Finish was told.
	Frame(data []byte) (ev engine.Event, tell bool, err error)
	// End returns the event that is told if nothing more comes, because the stream ends, or because what follows its
	// finish does not come in Config.EndTimeout. ok is false while a stream that ends is a broken one.
	End() (ev engine.Event, ok bool)
}

// Stream runs one call of Generate.
func (c *Client) Stream(ctx context.Context, r Request, d Decoder, emit func(engine.Event) error) error {
	call, done := c.Begin(ctx)
	defer done() // closes the connection unless its body was read to the end: that is the abort
	resp, err := c.do(call, r)
	if err != nil {
		return c.Verdict(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := c.accept(resp); err != nil {
		return c.Verdict(ctx, err)
	}
	s := stream{decoder: d, emit: emit, limit: c.cfg.FrameBytes, endTimeout: c.cfg.EndTimeout, abort: done, over: func() bool {
		return ctx.Err() != nil || c.closed.Load()
	}}
	err = s.read(resp.Body)
	if s.ending != nil {
		s.ending.Stop()
	}
	switch {
	case s.refused != nil:
		return s.refused
	case s.told == nil && err == nil:
		drain(resp.Body, done)
		return nil
	case s.told != nil && !s.over():
		return s.tell(*s.told)
	}
	return c.Verdict(ctx, err)
}

// accept refuses an answer that is not the stream we asked for.
func (c *Client) accept(resp *http.Response) error {
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(resp.Body, int64(c.cfg.AnswerBytes)))
		if err != nil && len(body) == 0 {
			return err
		}
		return statusFailure(resp, body)
	}
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return Broken("answer with content encoding %q", coding)
	}
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || media != "text/event-stream" {
		return &engine.Failure{Kind: engine.Broken, Err: &NotAStreamError{resp.Header.Get("Content-Type")}}
	}
	return nil
}

// NotAStreamError is an answer with status 200 and another type than an event stream.
type NotAStreamError struct{ ContentType string }

// Error implements error.
func (e *NotAStreamError) Error() string {
	return "answer with content type \"" + e.ContentType + "\" where a stream was asked for"
}

// stream is the reading of one body.
type stream struct {
	decoder    Decoder
	emit       func(engine.Event) error
	limit      int
	endTimeout time.Duration
	abort      func()
	over       func() bool // nothing is to be told any more

	ending  *time.Timer   // runs once only what follows the finish is awaited
	refused error         // what emit returned
	told    *engine.Event // the body has ended, this is its end, and err does not count
}

// tell emits and keeps emit's error apart from all others.
func (s *stream) tell(ev engine.Event) error {
	s.refused = s.emit(ev)
	return s.refused
}

// errOver is why a stream that is over is not read on.
var errOver = errors.New("the call is over")

// read emits the events of a body up to its finish.
func (s *stream) read(body io.Reader) error {
	frames := sse.NewReader(body, sse.Limits{LineBytes: s.limit, EventBytes: s.limit})
	for {
		raw, err := frames.Next()
		if s.over() {
			return errOver // though more may have been read already
		}
		if err != nil {
			if ev, ok := s.decoder.End(); ok {
				s.told = &ev
			}
			if errors.Is(err, io.EOF) {
				err = Unfinished()
			}
			return err
		}
		ev, tell, err := s.decoder.Frame(raw.Data)
		if tell {
			if s.tell(ev) != nil {
				return s.refused
			}
		}
		switch {
		case err != nil:
			return err
		case tell && ev.Finish != nil:
			return nil
		}
		if _, ok := s.decoder.End(); ok && s.ending == nil {
			s.ending = time.AfterFunc(s.endTimeout, s.abort)
		}
	}
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
