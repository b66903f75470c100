package fakeengine

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/openai"
	"plimsoll/engine/sse"
)

// shape is how a route writes an answer. Its methods return values for [openai.Marshal].
type shape interface {
	// chunks are the frames of one addition to a choice; more than one only at the choice's begin. u is not nil where
	// every frame tells the usage; last says that no other frame follows.
	chunks(c *choice, d delta, u *usage, last bool) []any
	// closing is the frame that tells the usage.
	closing(u streamUsage) any
	// whole is an answer that is not streamed; done has all that was added to each choice.
	whole(choices []*choice, done []delta, u wholeUsage) any
}

// answer runs a request and writes what comes of it.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, a *ask, sh shape) {
	if s.engine.Status().Waiting >= s.cfg.Engine.Sim.WaitingMax {
		s.fail(w, queueFull())
		return
	}
	if f := s.refusal(a); f != nil {
		if f.Code < http.StatusBadRequest {
			w.Header().Set("Location", r.URL.Path+"/elsewhere")
		}
		s.fail(w, f)
		return
	}
	if f := s.unknownID(a); f != nil {
		if a.stream {
			s.failInStream(w, f)
		} else {
			s.fail(w, f)
		}
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer s.running.enter(a.id, cancel)()
	if a.stream {
		s.stream(ctx, w, a, sh)
		return
	}
	choices := s.choices(a)
	done := make([]delta, len(choices))
	err := s.run(ctx, a, choices, func(c *choice, d delta) error {
		sum := &done[c.index]
		sum.text += d.text
		sum.tokens = append(sum.tokens, d.tokens...)
		sum.finish, sum.stop = d.finish, d.stop
		return nil
	})
	var failed *engine.Failure
	switch {
	case errors.As(err, &failed):
		s.fail(w, engineFault(failed))
	case err != nil && ctx.Err() == nil:
		s.fail(w, engineDead())
	case err == nil:
		u, cached := count(a, choices)
		whole := wholeUsage{usage: u}
		whole.PromptTokensDetails.CachedTokens = cached
		s.write(w, http.StatusOK, sh.whole(choices, done, whole))
	}
}

// unknownID finds a token ID beyond the vocabulary. The engine looks for it, after a stream's headers are out.
func (s *Server) unknownID(a *ask) *fault {
	vocab := s.deps.Source.VocabSize()
	for _, prompt := range a.prompts {
		for _, id := range prompt {
			if uint64(id) >= uint64(vocab) { //nolint:gosec // a size is not negative
				return valueFault("", "Token id %d is out of vocabulary", id)
			}
		}
	}
	return nil
}

// errUnfinished ends a stream that is to end without a finish.
var errUnfinished = errors.New("the answer has no finish")

// stream answers with events. The headers go out at once: what the engine refuses comes as an error frame.
func (s *Server) stream(ctx context.Context, w http.ResponseWriter, a *ask, sh shape) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	events, flusher := sse.NewWriter(w), http.NewResponseController(w)
	if flusher.Flush() != nil {
		return
	}
	send := func(frames ...any) error {
		for _, frame := range frames {
			data, err := openai.Marshal(frame)
			if err != nil {
				return err
			}
			if err := events.Data(data); err != nil {
				return err
			}
		}
		return flusher.Flush()
	}
	choices := s.choices(a)
	open := len(choices)
	wrong, _ := s.faults.wrong()
	err := s.run(ctx, a, choices, func(c *choice, d delta) error {
		if d.finish != "" {
			open--
		}
		if wrong.EndAfterTokens != nil && (d.finish != "" || len(c.ids) > *wrong.EndAfterTokens) {
			return errUnfinished
		}
		var u *usage
		if a.continuous {
			u = &usage{PromptTokens: len(c.prompt), CompletionTokens: len(c.ids), TotalTokens: len(c.prompt) + len(c.ids)}
		}
		frames := sh.chunks(c, d, u, open == 0 && !a.usage)
		c.begun = true
		return send(frames...)
	})
	if errors.Is(err, errUnfinished) {
		return
	}
	if err == nil && orElse(wrong.Trailing, false) {
		err = send(trailing()...)
	}
	var failed *engine.Failure
	switch {
	case errors.As(err, &failed):
		err = send(wireFault{engineFault(failed)})
	case err == nil && a.usage:
		u, cached := count(a, choices)
		last := streamUsage{usage: u}
		last.PromptTokensDetails.CachedTokens = cached
		err = send(sh.closing(last))
	}
	if err == nil && events.Data([]byte("[DONE]")) == nil {
		_ = flusher.Flush() // a client that has gone has its answer
	}
}

// abort answers POST /inference/v1/abort_requests.
func (s *Server) abort(w http.ResponseWriter, r *http.Request) {
	p := s.body(w, r)
	if p == nil {
		return
	}
	if !p.has("request_ids") {
		s.fail(w, &fault{Message: "Missing 'request_ids' in request body", Type: "Bad Request", Code: http.StatusBadRequest})
		return
	}
	ids := p.strings("request_ids")
	if p.fault != nil {
		s.fail(w, p.fault)
		return
	}
	for _, id := range ids {
		// The engine's name of a completion ends with the number of its prompt.
		if at := strings.LastIndexByte(id, '-'); strings.HasPrefix(id, "cmpl-") && at > len("cmpl-") {
			s.running.abort(id[:at])
		}
		s.running.abort(id)
	}
	w.WriteHeader(http.StatusOK)
}
