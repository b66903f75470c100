package enginetest

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/wire"
)

// Subject is an engine under test.
type Subject struct {
	// Open starts an engine that answers any request of [Request], with as many tokens as it asks for; the suite closes it.
	// nil where Wire says how a server would.
	Open func(tb testing.TB) engine.Engine
	// Wire is nil for an engine inside the process.
	Wire *Wire
}

// Wire says how an adapter's protocol looks to its server. Frames are written as they stand on the wire, whole: "data:
// ...\n\n".
type Wire struct {
	// Open returns an adapter for a server, without a connection; the suite closes it.
	Open func(tb testing.TB, cfg wire.Config, dial wire.Dial) engine.Engine

	Token     func(id uint32, n int) string         // frame of the n-th token of an answer, from 1
	Finish    string                                // frame that ends an answer at its length, without a token
	Trailer   string                                // what comes after the finish, cached tokens (2) if told there
	Error     func(status int, words string) string // JSON of an error, as an answer's body and as a frame's data
	Quiet     []string                              // frames that are neither a token nor a sign of life
	Foreign   []string                              // streams that end in [DONE] or cleanly and are no answer
	MaxTokens func(body []byte) int                 // what a request asks for
	FirstID   func(body []byte) uint32              // the first token ID of a request's prompt
	Info      map[string]Answer                     // what a healthy server says to GET, by path

	Recorded *Recorded // nil for none
}

// Answer is what a server says that does not stream.
type Answer struct {
	Status int
	Header [][2]string
	Body   string
}

// Run checks what the contract promises.
func Run(t *testing.T, s Subject) {
	t.Helper()
	if s.Open == nil {
		s.Open = s.Wire.healthy
	}
	t.Run("any engine", s.anyEngine)
	if s.Wire == nil {
		return
	}
	t.Run("scripted faults", s.Wire.faults)
	t.Run("statuses", s.Wire.statuses)
	t.Run("aborts", s.Wire.aborts)
	t.Run("connections", s.Wire.connections)
	t.Run("cuts", s.Wire.cuts)
	t.Run("probes", s.Wire.probes)
	if s.Wire.Recorded != nil {
		t.Run("recorded", s.Wire.recorded)
	}
}

// start opens an engine that is closed with the test.
func (s Subject) start(tb testing.TB) engine.Engine {
	tb.Helper()
	e := s.Open(tb)
	tb.Cleanup(func() { require.NoError(tb, e.Close()) })
	return e
}

// patience ends a test that hangs; no assertion depends on it.
const patience = time.Minute

// Request asks for up to n tokens, greedily and past the engine's own end token.
func Request(n int) engine.Request {
	zero := 0.0
	return engine.Request{
		ID: "r1", PromptTokens: []uint32{2, 818, 527}, MaxTokens: n, IgnoreEOS: true,
		Sampling: engine.Sampling{Temperature: &zero},
	}
}

// At returns an adapter for a server at url, closed with the test.
func (w *Wire) At(tb testing.TB, url string, change ...func(*wire.Config)) engine.Engine {
	tb.Helper()
	e := w.open(tb, url, (&net.Dialer{}).DialContext, change...)
	tb.Cleanup(func() { require.NoError(tb, e.Close()) })
	return e
}

func (w *Wire) open(tb testing.TB, url string, dial wire.Dial, change ...func(*wire.Config)) engine.Engine {
	tb.Helper()
	cfg := wire.DefaultConfig()
	cfg.URL = url
	for _, f := range change {
		f(&cfg)
	}
	return w.Open(tb, cfg, dial)
}

// Of returns an adapter for a server that runs a script on each connection, closed with the test.
func (w *Wire) Of(tb testing.TB, script func(*Session), change ...func(*wire.Config)) engine.Engine {
	tb.Helper()
	return w.At(tb, Serve(tb, script), change...)
}

// healthy returns an adapter for a server that answers everything; the caller closes it.
func (w *Wire) healthy(tb testing.TB) engine.Engine {
	tb.Helper()
	return w.open(tb, Serve(tb, func(s *Session) {
		for more := true; more; more = s.Next() {
			if s.Request.Method == "GET" {
				s.Answer(w.Info[s.Request.URL.Path])
				continue
			}
			_ = s.Say(StreamHeader)
			id := w.FirstID([]byte(s.Body))
			for n := range w.MaxTokens([]byte(s.Body)) {
				if s.Say(Chunk(w.Token(id, n+1))) != nil {
					return
				}
			}
			_ = s.Say(Chunk(w.Finish), Chunk(w.Trailer), LastChunk)
		}
	}), (&net.Dialer{}).DialContext)
}

// deadline bounds a call that hangs.
func deadline(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	tb.Cleanup(cancel)
	return ctx
}
