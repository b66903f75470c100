package ingress

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/stream"
)

// sink is a client that takes everything at once.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header              { return s.header }
func (s *sink) Write(p []byte) (int, error)      { return len(p), nil }
func (s *sink) WriteHeader(int)                  {}
func (s *sink) FlushError() error                { return nil }
func (s *sink) SetWriteDeadline(time.Time) error { return nil }
func (s *sink) SetReadDeadline(time.Time) error  { return nil }

// hotStream returns a streaming answer that is under way.
func hotStream(tb testing.TB) *streaming {
	tb.Helper()
	e := newEdge(tb, testConfig(), newFront(nil))
	w := &sink{header: http.Header{}}
	x := &exchange{
		s: e.Server, w: w, rc: http.NewResponseController(w), r: httptest.NewRequestWithContext(tb.Context(), http.MethodPost, pathChat, nil), start: e.deps.Now(),
	}
	req := &stream.Request{N: 1, Input: stream.Input{Texts: []string{"x"}}}
	a := &answering{
		x: x, q: &query{req: req, model: e.front.models[0], stream: true}, id: "cmpl-1", legs: make([]leg, 1),
		resp: stream.NewResponse(1, func() {}),
	}
	s := newStreaming(a)
	s.deliver(delta(" first"))
	return s
}

func delta(text string) stream.Delta {
	return stream.Delta{Entries: []stream.Entry{{ID: 'x', Text: text}}}
}

// TestATokenAllocatesNothing is the budget of the hot path: from the journal's delta to the flushed frame.
func TestATokenAllocatesNothing(t *testing.T) {
	s, d := hotStream(t), delta(" token\n\"")
	require.Zero(t, testing.AllocsPerRun(100, func() { s.deliver(d) }))
}

func BenchmarkDeliver(b *testing.B) {
	s, d := hotStream(b), delta(" token")
	b.ReportAllocs()
	for b.Loop() {
		s.deliver(d)
	}
}

func BenchmarkStreamedAnswer(b *testing.B) {
	texts := make([]string, 256)
	for i := range texts {
		texts[i] = " token"
	}
	front := newFront(nil)
	front.script = func(_ *stream.Request, resp *stream.Response) {
		for _, t := range texts {
			resp.Append(0, []stream.Entry{{ID: 'x', Text: t}}, stream.Usage{})
		}
		resp.Finish(0, stream.Finish{}, stream.Usage{})
		resp.End(nil)
	}
	e := newEdge(b, testConfig(), front)
	body := withMember(pathChat, `"stream":true`)
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, pathChat, strings.NewReader(body))
		e.ServeHTTP(&sink{header: http.Header{}}, r)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/256, "ns/token")
}

// BenchmarkChatRequest reads a request of 100 KB up to the submission's end.
func BenchmarkChatRequest(b *testing.B) {
	e := newEdge(b, testConfig(), newFront(says("x")))
	body := withMember(pathChat, `"messages":[{"role":"user","content":"`+strings.Repeat("word ", 20_000)+`"}]`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, pathChat, strings.NewReader(body))
		e.ServeHTTP(&sink{header: http.Header{}}, r)
	}
}
