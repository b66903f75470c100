package record_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
	"plimsoll/scoring/prefix"
	"plimsoll/scoring/queue"
	"plimsoll/testbench/record"
	"plimsoll/testbench/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tape is a recorder's paper and clock.
type tape struct {
	mu               sync.Mutex
	now              time.Time
	text             bytes.Buffer
	written, dropped int
	failed           []error
	gate             chan struct{} // nil: it takes lines at once; else one a value
	full             bool
}

func (p *tape) Write(line []byte) (int, error) {
	if p.gate != nil {
		<-p.gate
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.full {
		return 0, errors.New("no space")
	}
	return p.text.Write(line)
}

func (p *tape) count(n *int) func(int) {
	return func(more int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		*n += more
	}
}

func (p *tape) start(t *testing.T, cfg record.Config) *record.Recorder {
	t.Helper()
	p.now = record.Since().Add(1000 * time.Hour)
	r, err := record.New(cfg, record.Deps{
		To: p, Now: func() time.Time { p.now = p.now.Add(250 * time.Millisecond); return p.now },
		Written: p.count(&p.written), Dropped: p.count(&p.dropped), Failed: func(err error) { p.failed = append(p.failed, err) },
	})
	require.NoError(t, err)
	return r
}

// read is what stands on the tape, through the reader of traces.
func (p *tape) read(t *testing.T) []trace.Request {
	t.Helper()
	list, err := trace.Take(trace.Own(bytes.NewReader(p.text.Bytes())), 1<<20)
	require.NoError(t, err, "%s", p.text.String())
	return list
}

func ask(session string) *stream.Request {
	return &stream.Request{Model: "m", N: 1, Tenant: "default", Session: session, Class: queue.Default}
}

func ids(from, n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(from + i)
	}
	return out
}

func ended(req *stream.Request, f *fault.Fault, prompt, answer []uint32) stream.Summary {
	return stream.Summary{Request: req, Fault: f, Legs: []stream.LegSummary{
		{Prompt: prompt, Answer: answer, PromptTokens: len(prompt), OutputTokens: len(answer)},
	}}
}

// TestLines: what is written is what a replay needs, in the order of arrival whatever the order of the ends, and no token.
func TestLines(t *testing.T) {
	var p tape
	r := p.start(t, record.DefaultConfig())
	first, second, third, fourth := ask("a"), ask(""), ask(""), ask("")
	second.Tenant, second.Class, second.MaxTokens = "acme", queue.Flex, new(64)
	for _, req := range []*stream.Request{first, second, third, fourth} {
		r.Arrived(req)
	}
	r.Ended(ended(fourth, fault.New(fault.Contended, "busy"), ids(1, 20), nil))
	r.Ended(ended(second, nil, ids(1, 32), ids(500, 17)))
	r.Ended(stream.Summary{Request: third, Fault: fault.New(fault.ClientGone, "left")}) // before its prompt was known
	r.Ended(ended(first, fault.New(fault.EngineFailed, "broke"), ids(1, 40), ids(900, 3)))
	r.Close()

	list := p.read(t)
	require.Len(t, list, 3)
	require.Equal(t, 3, p.written)
	require.Equal(t, 1, p.dropped)
	part := func(keys []prefix.Key) (parts []trace.Part) {
		for _, k := range keys {
			parts = append(parts, trace.Part{ID: uint64(k), Tokens: 16})
		}
		return parts
	}
	seed := prefix.Namespace{Model: "m"}.Seed()
	at := func(n int) time.Duration { return 1000*time.Hour + time.Duration(n+1)*250*time.Millisecond }
	require.Equal(t, trace.Request{
		At: at(1), PromptTokens: 40, OutputTokens: 3, Session: "a", Outcome: trace.Failed,
		Parts: part(prefix.AppendKeys(nil, seed, ids(1, 40), 16)),
	}, list[0])
	require.Equal(t, trace.Request{
		Number: 1, At: at(2), PromptTokens: 32, OutputTokens: 17, MaxTokens: new(64), Tenant: "acme", Class: "flex", Outcome: trace.Finished,
		Parts: part(prefix.AppendKeys(nil, seed, append(ids(1, 32), ids(500, 17)...), 16)),
	}, list[1])
	require.Equal(t, trace.Refused, list[2].Outcome)
	require.Equal(t, 1, list[2].OutputTokens, "of an answer that never was")
	require.Equal(t, list[0].Parts[0], list[2].Parts[0], "what prompts share is seen")
	require.Empty(t, p.failed)
}

// TestSeveralAnswers: each is a line.
func TestSeveralAnswers(t *testing.T) {
	var p tape
	r := p.start(t, record.DefaultConfig())
	req := ask("")
	r.Arrived(req)
	s := ended(req, nil, ids(1, 20), ids(2, 5))
	s.Legs = append(s.Legs, stream.LegSummary{PromptTokens: 9, OutputTokens: 2}) // rendered by an engine
	r.Ended(s)
	r.Close()
	list := p.read(t)
	require.Len(t, list, 2)
	require.Equal(t, list[0].At, list[1].At)
	require.Empty(t, list[1].Parts)
	require.Equal(t, 1, p.written)
}

// TestNobodyWaitsForTheDisk: while the writer stands still everything returns, what is held is bounded, and the rest is counted.
func TestNobodyWaitsForTheDisk(t *testing.T) {
	p := tape{gate: make(chan struct{})}
	cfg := record.Config{BlockTokens: 16, RequestsMax: 1000, TokensMax: 100}
	r := p.start(t, cfg)
	const requests = 50
	for range requests {
		req := ask("")
		r.Arrived(req)
		r.Ended(ended(req, nil, ids(1, 20), nil))
	}
	close(p.gate)
	r.Close()
	list := p.read(t)
	require.Len(t, list, p.written)
	require.Equal(t, requests, p.written+p.dropped)
	require.LessOrEqual(t, p.written, 1+100/20, "one under way, and what may be held")
	require.GreaterOrEqual(t, p.written, 100/20)
}

// TestLongOnesAreGivenUp: whoever runs on holds up only so much; the order stays.
func TestLongOnesAreGivenUp(t *testing.T) {
	var p tape
	r := p.start(t, record.Config{BlockTokens: 16, RequestsMax: 1000, TokensMax: 100})
	long := ask("long")
	r.Arrived(long)
	for range 20 {
		req := ask("")
		r.Arrived(req)
		r.Ended(ended(req, nil, ids(1, 20), nil))
	}
	r.Ended(ended(long, nil, ids(1, 20), nil))
	r.Close()
	list := p.read(t)
	require.Equal(t, 21, p.written+p.dropped)
	require.Len(t, list, p.written)
	for _, l := range list {
		require.NotEqual(t, "long", l.Session)
	}
	require.Positive(t, p.written)
}

// TestRequestsAreBounded: those that run too.
func TestRequestsAreBounded(t *testing.T) {
	var p tape
	r := p.start(t, record.Config{BlockTokens: 16, RequestsMax: 3, TokensMax: 100})
	reqs := make([]*stream.Request, 5)
	for i := range reqs {
		reqs[i] = ask("")
		r.Arrived(reqs[i])
	}
	for _, req := range reqs {
		r.Ended(ended(req, nil, ids(1, 5), nil))
	}
	r.Close()
	require.Equal(t, 3, p.written)
	require.Equal(t, 2, p.dropped)
	r.Arrived(ask("")) // after the end
	require.Equal(t, 3, p.dropped)
}

func TestFullDisk(t *testing.T) {
	p := tape{full: true}
	r := p.start(t, record.DefaultConfig())
	req := ask("")
	r.Arrived(req)
	r.Ended(ended(req, nil, ids(1, 5), nil))
	r.Close()
	require.Len(t, p.failed, 1)
	require.Equal(t, 1, p.dropped)
}

// TestAStartOverwritesNoRecording, however many there were.
func TestAStartOverwritesNoRecording(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "trace.jsonl")
	for _, line := range []string{"first\n", "second\n", "", "third\n", "fourth\n"} {
		f, err := record.OpenFile(name, 5)
		require.NoError(t, err)
		if line != "" { // else nothing was recorded
			_, err = f.Write([]byte("of " + line))
			require.NoError(t, err)
			_, err = f.Write([]byte(line)) // the one before is put aside
			require.NoError(t, err)
		}
		require.NoError(t, f.Close())
		if line == "third\n" {
			require.NoError(t, os.Remove(filepath.Join(dir, "trace.jsonl.run1"))) // its .1 stays
		}
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	got := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		require.NoError(t, err)
		got[f.Name()] = string(text)
	}
	require.Equal(t, map[string]string{
		"trace.jsonl.run1.1": "of first\n",
		"trace.jsonl.run2":   "second\n", "trace.jsonl.run2.1": "of second\n",
		"trace.jsonl.run3": "third\n", "trace.jsonl.run3.1": "of third\n",
		"trace.jsonl": "fourth\n", "trace.jsonl.1": "of fourth\n",
	}, got)
}

// TestFileRotates: there are at most two, of whole lines.
func TestFileRotates(t *testing.T) {
	name := filepath.Join(t.TempDir(), "trace.jsonl")
	f, err := record.OpenFile(name, 25)
	require.NoError(t, err)
	has := func(want, aside string) {
		t.Helper()
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
		text, err = os.ReadFile(name + ".1")
		if aside == "" {
			require.ErrorIs(t, err, os.ErrNotExist)
			return
		}
		require.NoError(t, err)
		require.Equal(t, aside, string(text))
	}
	has("", "")
	for i, c := range []struct{ want, aside string }{
		{"line zero\n", ""},
		{"line zero\nline 1234\n", ""},
		{"a line that alone is longer than a file\n", "line zero\nline 1234\n"},
		{"x\n", "a line that alone is longer than a file\n"},
	} {
		_, err := f.Write([]byte([]string{"line zero\n", "line 1234\n", "a line that alone is longer than a file\n", "x\n"}[i]))
		require.NoError(t, err)
		has(c.want, c.aside)
	}
	require.NoError(t, f.Close())

	_, err = record.OpenFile(t.TempDir(), 25)
	require.ErrorContains(t, err, "regular file")
	_, err = record.OpenFile(name, 0)
	require.Error(t, err)
}

// TestWhatIsRecordedStays: a file that cannot be put aside is left as it is, and one that somebody else empties or takes away goes on.
func TestWhatIsRecordedStays(t *testing.T) {
	name := filepath.Join(t.TempDir(), "trace.jsonl")
	f, err := record.OpenFile(name, 20)
	require.NoError(t, err)
	write := func(line string) error {
		_, err := f.Write([]byte(line))
		return err
	}
	has := func(name, want string) {
		t.Helper()
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
	require.NoError(t, write("line zero\n"))
	require.NoError(t, os.MkdirAll(filepath.Join(name+".1", "in the way"), 0o700))
	for range 3 {
		require.Error(t, write("line 1234567\n"))
		has(name, "line zero\n")
	}
	require.NoError(t, write("line one\n"), "there is room for it")
	require.NoError(t, os.RemoveAll(name+".1"))
	require.NoError(t, write("line 1234567\n"))
	has(name+".1", "line zero\nline one\n")

	require.NoError(t, os.Truncate(name, 0))
	require.NoError(t, write("x\n"))
	has(name, "x\n")
	require.NoError(t, os.Remove(name))
	require.NoError(t, write("line 234567\n"))
	has(name, "line 234567\n")
	require.NoError(t, f.Close())
}
