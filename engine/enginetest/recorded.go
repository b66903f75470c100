package enginetest

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/wire"
)

// Recorded are exchanges with real servers, and what an adapter must conclude from them.
type Recorded struct {
	Dir    string                         // our copies, below the package: folder/NAME.json and folder/NAME.sse
	Shared func(tb testing.TB) string     // another folder of them, whose files may be newer; skips the test where absent
	Path   string                         // the request path whose recordings must all be concluded from; others may be
	Ask    func(Recording) engine.Request // the recorded request in the contract's words, as far as the answer depends on it
	// Open returns the adapter for a recording, as Wire.Open does; nil where Wire.Open serves for all.
	Open func(tb testing.TB, cfg wire.Config, dial wire.Dial, rec Recording) engine.Engine

	Conclusions map[string]Conclusion // by name
}

// Conclusion is what a recorded answer must make an adapter say.
type Conclusion struct {
	IDs    []uint32
	Lost   map[int]int // place in IDs: IDs lost before it
	Text   string      // that came with tokens
	Cached []int
	Finish engine.FinishReason // if Fail is nil
	Fail   *engine.FailKind
	Status int    // of the failure
	Words  string // part of the failure's text
}

// Fails is the conclusion of a failure, after the tokens given.
func Fails(kind engine.FailKind, status int, words string, ids ...uint32) Conclusion {
	return Conclusion{Fail: &kind, Status: status, Words: words, IDs: ids}
}

// Recording is a recorded exchange with a real server.
type Recording struct {
	Name    string // folder/file
	Note    string `json:"note"`
	Request struct {
		Method string          `json:"method"`
		Path   string          `json:"path"`
		Body   json.RawMessage `json:"body"`
	} `json:"request"`
	Response struct {
		Status   int             `json:"status"`
		Headers  [][2]string     `json:"headers"`
		Body     json.RawMessage `json:"body"`
		BodyText string          `json:"body_text"`
		BodyFile string          `json:"body_file"`
	} `json:"response"`
	ConnectionEnd string `json:"connection_end"`
	ClientSaw     string `json:"client_saw"` // of a fault: complete, eof, timeout
	Body          []byte // of the response
}

// Streams says whether the answer was a stream.
func (rec *Recording) Streams() bool { return strings.HasSuffix(rec.Response.BodyFile, ".sse") }

// Recordings reads every exchange below dir. Files that hold no answer are left out.
func Recordings(tb testing.TB, dir string) []Recording {
	tb.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*", "*.json"))
	require.NoError(tb, err)
	require.NotEmpty(tb, names, "no recording in %s", dir)
	out := make([]Recording, 0, len(names))
	for _, name := range names {
		if rec, ok := read(tb, name); ok {
			out = append(out, rec)
		}
	}
	return out
}

// read reads one file; ok is false if it holds no answer.
func read(tb testing.TB, name string) (rec Recording, ok bool) {
	tb.Helper()
	text, err := os.ReadFile(name)
	require.NoError(tb, err)
	base := strings.TrimSuffix(name, ".json")
	rec.Name = filepath.Base(filepath.Dir(name)) + "/" + filepath.Base(base)
	require.NoError(tb, json.Unmarshal(text, &rec), name)
	if rec.ClientSaw != "" { // a fault: the stream beside it, without its request
		rec.Response.Status, rec.Response.BodyFile = http.StatusOK, filepath.Base(base)+".sse"
		rec.Response.Headers = [][2]string{{"Content-Type", "text/event-stream"}}
	}
	switch {
	case rec.Response.Status == 0:
		return rec, false
	case rec.Response.BodyFile != "":
		rec.Body, err = os.ReadFile(filepath.Join(filepath.Dir(name), rec.Response.BodyFile))
		require.NoError(tb, err)
	case rec.Response.BodyText != "":
		rec.Body = []byte(rec.Response.BodyText)
	default:
		rec.Body = rec.Response.Body
	}
	return rec, true
}

// Named returns one of the recordings below dir.
func Named(tb testing.TB, dir, name string) Recording {
	tb.Helper()
	rec, ok := read(tb, filepath.Join(dir, name+".json"))
	require.True(tb, ok, "%s in %s holds no answer", name, dir)
	return rec
}

// Answer is the recorded answer as one that does not stream.
func (rec *Recording) Answer() Answer {
	return Answer{rec.Response.Status, rec.Response.Headers, string(rec.Body)}
}

// cut says whether the connection ended before the stream did.
func (rec *Recording) cut() bool {
	return rec.ConnectionEnd != "" || rec.ClientSaw == "eof" || rec.ClientSaw == "timeout"
}

// stream is the recorded answer on the wire, with the body in the chunks that split makes.
func (rec *Recording) stream(split func(string) []string) []string {
	parts := []string{"HTTP/1.1 200 OK\r\n" + headerLines(rec.Response.Headers) + "Transfer-Encoding: chunked\r\n\r\n"}
	for _, piece := range split(string(rec.Body)) {
		parts = append(parts, Chunk(piece))
	}
	if rec.cut() {
		return parts
	}
	return append(parts, LastChunk)
}

// Replay answers as the server did. A stream that hung is cut: how long it may hang is not the adapter's business.
func (rec *Recording) Replay(s *Session) {
	if rec.Streams() {
		_ = s.Say(rec.stream(func(body string) []string { return []string{body} })...)
		return
	}
	s.Answer(rec.Answer())
}

// hear runs the recorded request against a script.
func (w *Wire) hear(tb testing.TB, rec Recording, script func(*Session)) *Heard {
	tb.Helper()
	cfg, dial := wire.DefaultConfig(), pipe(tb, script)
	cfg.URL = "http://127.0.0.1:1"
	var e engine.Engine
	if w.Recorded.Open == nil {
		e = w.Open(tb, cfg, dial)
	} else {
		e = w.Recorded.Open(tb, cfg, dial, rec)
	}
	h := Generate(tb, e, w.Recorded.Ask(rec))
	require.NoError(tb, e.Close())
	return h
}

func (w *Wire) recorded(t *testing.T) {
	t.Run("every body of ours leads to its conclusion", func(t *testing.T) {
		seen := 0
		for _, rec := range Recordings(t, w.Recorded.Dir) {
			want, listed := w.Recorded.Conclusions[rec.Name]
			if listed {
				seen++
			}
			t.Run(rec.Name, func(t *testing.T) {
				require.True(t, listed || rec.Request.Path != w.Recorded.Path, "a recording of %s without a conclusion", w.Recorded.Path)
				h := w.hear(t, rec, rec.Replay)
				if listed {
					want.check(t, h)
				}
			})
		}
		require.Len(t, w.Recorded.Conclusions, seen, "a conclusion without its recording")
	})
	t.Run("shared bodies, old or new, end in a finish or a failure", func(t *testing.T) {
		for _, rec := range Recordings(t, w.Recorded.Shared(t)) {
			t.Run(rec.Name, func(t *testing.T) {
				h := w.hear(t, rec, rec.Replay)
				if want, listed := w.Recorded.Conclusions[rec.Name]; listed {
					want.check(t, h)
				}
			})
		}
	})
	t.Run("streams conclude the same however they are cut", w.recordedCuts)
}

// check compares what was heard with the conclusion.
func (want Conclusion) check(t *testing.T, h *Heard) {
	t.Helper()
	require.Equal(t, want.IDs, h.IDs())
	for i, token := range h.Tokens {
		require.Equal(t, want.Lost[i], token.LostIDs, "token %d", i)
	}
	if len(want.Lost) == 0 {
		require.Equal(t, want.Text, h.Text())
	}
	require.Equal(t, want.Cached, h.Cached)
	if want.Fail == nil {
		require.NoError(t, h.Err)
		require.Equal(t, want.Finish, h.Finish.Reason)
		return
	}
	failure := FailureIn(t, h.Err, *want.Fail)
	require.Equal(t, want.Status, failure.Status)
	require.Equal(t, want.Status != 0, failure.FromEngine)
	require.Contains(t, h.Err.Error(), want.Words)
}
