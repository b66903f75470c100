package ingress

import (
	"context"
	"errors"
	"net/http"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
	"plimsoll/engine/openai"
	"plimsoll/engine/sse"
)

// streaming writes an answer as server-sent events. Its buffers are reused: a token costs no allocation here.
type streaming struct {
	*answering
	chunks *openai.Chunks
	frames []byte // what the next write sends
	chunk  []byte // the chunk being built

	headers bool // status and headers are out
	wrote   bool // something was sent in the present window

	delivered, finished int // tokens and choices; kept where the usage so far is told
}

func newStreaming(a *answering) *streaming {
	return &streaming{answering: a, chunks: openai.NewChunks(openai.ChunkHead{
		Chat: a.q.req.Input.Chat != nil, ID: a.id, Model: a.q.model.Name,
		SystemFingerprint: a.x.s.cfg.SystemFingerprint, Created: a.created, Usage: a.q.usage, UsageSoFar: a.q.usageSoFar,
	})}
}

// progress is how far a stream has come.
type progress uint8

const (
	running progress = iota
	ended            // the response ended by itself
	left             // the client is gone; the response is to be cancelled
)

// run writes until the answer's end. It says whether the response ended by itself; if not, the caller cancels it.
//
// Waiting goes in windows: the first lasts until headers are due, the others Config.KeepAlive. A window in which nothing
// was sent ends with a comment. So a token needs no timer of its own.
func (s *streaming) run() bool {
	for window := s.x.s.cfg.EarlyHeaders; ; window = s.x.s.cfg.KeepAlive {
		if p := s.during(window); p != running {
			return p == ended
		}
		s.pulse()
	}
}

// during writes what comes in a window of time.
func (s *streaming) during(window time.Duration) progress {
	ctx := s.x.r.Context()
	waiting, cancel := context.WithTimeout(ctx, window)
	defer cancel()
	for {
		if s.x.writeErr != nil {
			s.x.entry.fault = s.x.unwritten()
			return left
		}
		d, err := s.resp.Next(waiting)
		var f *fault.Fault
		switch {
		case err == nil:
			if !s.deliver(d) {
				return ended
			}
		case isEnd(err):
			s.end()
			return ended
		case errors.As(err, &f):
			s.broke(f)
			return ended
		case ctx.Err() != nil:
			s.x.entry.fault = gone(ctx.Err())
			return left
		default:
			return running
		}
	}
}

// open sends status and headers, once.
func (s *streaming) open() {
	if s.headers {
		return
	}
	s.headers, s.x.streams = true, true
	s.x.answerHeaders(s.resp)
	h := s.x.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	s.x.WriteHeader(http.StatusOK)
}

// deliver sends what a delta adds to its choice; false: it cannot be read, and the answer has ended with an error.
func (s *streaming) deliver(d stream.Delta) bool {
	s.open()
	s.countSoFar(d)
	l := &s.legs[d.Leg]
	if !l.opened {
		l.opened = true
		s.add(s.chunks.AppendRole(s.chunk[:0], d.Leg))
	}
	text, pieces, err := s.take(d)
	if err != nil {
		s.resp.Cancel()
		s.broke(unreadable(err))
		return false
	}
	switch {
	case !l.more.Empty():
		s.add(s.chunks.AppendDelta(s.chunk[:0], d.Leg, text, &l.more, s.logprobs(l, pieces)))
		l.more = openai.Delta{}
	case text != "" || len(pieces) > 0:
		s.add(s.chunks.AppendText(s.chunk[:0], d.Leg, text, s.logprobs(l, pieces)))
	}
	if d.Finish != nil {
		s.add(s.chunks.AppendFinish(s.chunk[:0], d.Leg, l.reason, l.stop))
	}
	s.send()
	return true
}

// countSoFar has the chunks of a delta tell what they and those before them hold: the response may be ahead of its client.
func (s *streaming) countSoFar(d stream.Delta) {
	if !s.q.usageSoFar {
		return
	}
	s.account()
	u := s.x.entry.usage
	s.delivered += len(d.Entries)
	if d.Finish != nil {
		s.finished++
	}
	if s.finished < len(s.legs) {
		u.CompletionTokens = min(u.CompletionTokens, s.delivered)
		u.TotalTokens = u.PromptTokens + u.CompletionTokens
	}
	s.chunks.SetUsage(u)
}

// logprobs encodes the tokens of one chunk, nil for none.
func (s *streaming) logprobs(l *leg, pieces []piece) []byte {
	if len(pieces) == 0 {
		return nil
	}
	var v any
	if s.q.req.Input.Chat != nil {
		v = s.names.chat(pieces)
	} else {
		v = s.names.completion(pieces, &l.told)
	}
	b, err := openai.Marshal(v)
	if err != nil {
		panic(err) // the types hold finite numbers and strings only
	}
	return b
}

// add puts a chunk, if there is one, behind what is to be sent. It keeps chunk's memory for the next one.
func (s *streaming) add(chunk []byte) {
	s.chunk = chunk
	if len(chunk) == 0 {
		return
	}
	frames, err := sse.AppendEvent(s.frames, "", chunk)
	if err != nil {
		panic(err) // a chunk is JSON without a line break
	}
	s.frames = frames
}

// send writes and flushes what was added.
func (s *streaming) send() {
	if len(s.frames) > 0 {
		_, _ = s.x.Write(s.frames)
		s.frames = s.frames[:0]
	}
	if s.x.writeErr == nil {
		_ = s.x.flush()
	}
	s.wrote = true
}

// pulse shows that the connection lives if nothing was sent in the window that ends.
func (s *streaming) pulse() {
	if s.wrote {
		s.wrote = false
		return
	}
	s.open()
	s.frames, _ = sse.AppendComment(s.frames, "waiting") // no line break in it
	s.send()
	s.wrote = false
}

// end closes an answer that is whole.
func (s *streaming) end() {
	s.open()
	s.account()
	if s.q.usage {
		s.add(s.chunks.AppendUsage(s.chunk[:0], s.x.entry.usage))
	}
	s.add(append(s.chunk[:0], "[DONE]"...))
	s.send()
}

// broke tells the client that its answer will not be whole: by status while there is none, else by an error event and an
// end without [DONE].
func (s *streaming) broke(f *fault.Fault) {
	if !s.headers {
		s.x.fail(f)
		return
	}
	s.x.entry.fault = f
	if f.Kind == fault.ClientGone {
		return
	}
	s.add(append(s.chunk[:0], encodedFault(f)...))
	s.send()
}

// encodedFault is the data of an error event.
func encodedFault(f *fault.Fault) []byte {
	body, err := openai.Marshal(answerOf(f).body(f))
	if err != nil {
		panic(err) // strings only
	}
	return body
}
