package actors

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/ingress"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/engine/sim"
)

// edge serves a fleet's API without a network.
func (f *rig) edge(t *testing.T) http.Handler {
	t.Helper()
	var ids int
	var mu sync.Mutex
	s, err := ingress.New(ingress.DefaultConfig(), ingress.Deps{
		Front: f.System, Log: slog.New(slog.DiscardHandler), Metrics: f.meter.Handler(), Now: time.Now,
		NewID: func() string { mu.Lock(); defer mu.Unlock(); ids++; return fmt.Sprintf("id%d", ids) },
	})
	require.NoError(t, err)
	return s
}

// heard is what a client of the API made of an answer.
type heard struct {
	status   int
	texts    map[int]string
	finishes map[int]string
	logprobs map[int][]string // each entry as JSON
	prompt   int              // usage
	output   int
	heads    map[string]bool // id, created, model and fingerprint of the chunks
	dones    int
	errors   []string
}

type choice struct {
	Index        int             `json:"index"`
	Text         string          `json:"text"`
	Delta        message         `json:"delta"`
	Message      message         `json:"message"`
	FinishReason *string         `json:"finish_reason"`
	Logprobs     json.RawMessage `json:"logprobs"`
}

type message struct {
	Content *string `json:"content"`
}

type chunk struct {
	ID      string `json:"id"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Print   string `json:"system_fingerprint"`
	Choices []choice
	Usage   *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	}
	Error *struct{ Message, Type, Code string }
}

// ask posts a body and takes the answer to its end.
func ask(ctx context.Context, edge http.Handler, path, body string, header ...string) heard {
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	edge.ServeHTTP(rec, req)
	h := heard{
		status: rec.Code, texts: map[int]string{}, finishes: map[int]string{}, logprobs: map[int][]string{}, heads: map[string]bool{},
	}
	if !strings.HasPrefix(rec.Header().Get("Content-Type"), "text/event-stream") {
		h.take(rec.Body.Bytes())
		return h
	}
	lines := bufio.NewScanner(rec.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok:
		case data == "[DONE]":
			h.dones++
		default:
			h.take([]byte(data))
		}
	}
	return h
}

func (h *heard) take(data []byte) {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		h.errors = append(h.errors, err.Error())
		return
	}
	if c.Error != nil {
		h.errors = append(h.errors, c.Error.Message)
		return
	}
	h.heads[fmt.Sprintf("%s %d %s %s", c.ID, c.Created, c.Model, c.Print)] = true
	for _, ch := range c.Choices {
		h.texts[ch.Index] += ch.Text
		for _, m := range []message{ch.Delta, ch.Message} {
			if m.Content != nil {
				h.texts[ch.Index] += *m.Content
			}
		}
		if ch.FinishReason != nil {
			h.finishes[ch.Index] += *ch.FinishReason
		}
		var l struct{ Content []json.RawMessage }
		if json.Unmarshal(ch.Logprobs, &l) == nil {
			for _, entry := range l.Content {
				h.logprobs[ch.Index] = append(h.logprobs[ch.Index], string(entry))
			}
		}
	}
	if c.Usage != nil {
		h.prompt, h.output = c.Usage.Prompt, c.Usage.Completion
	}
}

// same fails unless two answers are equal but for their heads.
func same(t *testing.T, want, got heard, what string) {
	t.Helper()
	require.Empty(t, got.errors, what)
	require.Len(t, got.heads, 1, "%s: its head changed", what)
	want.heads, got.heads = nil, nil
	require.Equal(t, want, got, what)
}

// question is one request of the test: greedy, so that its answer is known.
func question(i int) (path, body string) {
	path = "/v1/chat/completions"
	form := []string{
		`"stream":true,"stream_options":{"include_usage":true}`,
		`"stream":true,"stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":2`,
		`"stream":true,"stream_options":{"include_usage":true},"n":2,"stop":["harbour","the l"]`,
		`"logprobs":true`,
		`"stop":[". The"],"min_tokens":40,"n":2`,
	}[i%5]
	return path, fmt.Sprintf(
		`{"model":%q,"messages":[{"role":"user","content":"tell me about harbour number %d"}],"temperature":0,"max_tokens":%d,"ignore_eos":true,%s}`,
		"plimsoll-sim", i, 60+i%7*40, form)
}

// TestFailuresGoUnnoticed lets the replicas of a fleet die, hang and come back while clients read greedy answers: each gets
// what it would have got from a fleet that nothing befell.
func TestFailuresGoUnnoticed(t *testing.T) {
	const questions = 60
	want := make([]heard, questions)
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{replicas: 2, profile: sim.DefaultConfig(), speed: 1})
		edge := f.edge(t)
		var all sync.WaitGroup
		for i := range questions {
			all.Go(func() {
				path, body := question(i)
				want[i] = ask(t.Context(), edge, path, body)
			})
		}
		all.Wait()
		f.quiet(t)
	})
	for i := range want {
		same(t, want[i], want[i], fmt.Sprintf("question %d on a calm fleet", i))
		require.Equal(t, http.StatusOK, want[i].status)
		require.NotEmpty(t, want[i].texts[0])
	}
	for _, harm := range []string{"kill", "hang", "both"} {
		t.Run(harm, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := startFleet(t, fleetConfig{replicas: 4, profile: sim.DefaultConfig(), speed: 1})
				edge := f.edge(t)
				ended := make(chan struct{})
				struck := 0
				go func() {
					var all sync.WaitGroup
					for i := range 8 * questions {
						all.Go(func() {
							path, body := question(i % questions)
							same(t, want[i%questions], ask(t.Context(), edge, path, body), fmt.Sprintf("question %d", i))
						})
						time.Sleep(75 * time.Millisecond) // virtual
					}
					all.Wait()
					close(ended)
				}()
				for over := false; !over; struck++ {
					e := f.engines[struck%len(f.engines)]
					kill := harm == "kill" || harm == "both" && struck%2 == 0
					if kill {
						e.Kill()
					} else {
						e.Pause()
					}
					select {
					case <-ended:
						over = true
					case <-time.After(3 * time.Second): // virtual, enough for the one before to serve again
					}
					if kill {
						e.Start()
					} else {
						e.Resume()
					}
				}
				f.quiet(t)
				resumed := f.metric(t, "plimsoll_stream_breaks_total{", `outcome="resumed"`)
				soon := f.metric(t, "plimsoll_stream_gap_seconds_bucket{", `le="1"`)
				t.Logf("%d faults, %d answers went on elsewhere, %d of them within a second", struck, resumed, soon)
				if harm == "kill" {
					require.Equal(t, resumed, soon)
				}
				require.Greater(t, resumed, 40, "too few for the test to mean anything")
				require.GreaterOrEqual(t, f.metric(t, "plimsoll_replica_failures_total{", ""), resumed, "each follows a failure")
				for _, outcome := range []string{"restarted", "declined", "given_up", "left"} {
					require.Zero(t, f.metric(t, "plimsoll_stream_breaks_total{", fmt.Sprintf("outcome=%q", outcome)), outcome)
				}
			})
		})
	}
}

func (f *rig) metrics(t *testing.T) string {
	t.Helper()
	rec := httptest.NewRecorder()
	f.meter.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	return rec.Body.String()
}

// metric sums up the series of a counter whose labels contain a text.
func (f *rig) metric(t *testing.T, name, label string) int {
	t.Helper()
	sum := 0
	for line := range strings.Lines(f.metrics(t)) {
		if !strings.HasPrefix(line, name) || !strings.Contains(line, label) {
			continue
		}
		var n int
		_, err := fmt.Sscan(line[strings.LastIndexByte(strings.TrimSpace(line), ' '):], &n)
		require.NoError(t, err)
		sum += n
	}
	return sum
}

// refusing is an engine that answers every request with a failure, though its probes say that all is well.
type refusing struct {
	engine.Engine

	kind  engine.FailKind
	calls atomic.Int32
}

func (r *refusing) Generate(context.Context, engine.Request, func(engine.Event) error) error {
	r.calls.Add(1)
	time.Sleep(20 * time.Millisecond) // virtual: others come before it has said so
	return &engine.Failure{Kind: r.kind, FromEngine: true, Status: 503}
}

// TestABurstThatAReplicaRefuses goes to the other, whole: what is shed waits for the retry budget rather than fail.
func TestABurstThatAReplicaRefuses(t *testing.T) {
	for _, kind := range []engine.FailKind{engine.Shed, engine.Broken, engine.Refused, engine.Operator} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bad := &refusing{kind: kind}
				f := startFleet(t, fleetConfig{replicas: 2, profile: sim.DefaultConfig(), speed: 1, adjust: func(c *Config) {
					bad.Engine = c.Models[0].Replicas[0].Engine
					c.Models[0].Replicas[0].Engine = bad
				}})
				var all sync.WaitGroup
				rng := newRand(5)
				const burst = 50
				for range burst {
					r := f.Submit(tokensRequest(randomPrompt(rng, 300), 20))
					all.Go(func() {
						a := readAll(t.Context(), r, 1)
						require.NoError(t, a.err)
						require.Equal(t, 20, a.usage.CompletionTokens)
					})
				}
				all.Wait()
				require.Greater(t, bad.calls.Load(), int32(burst/5), "more than the retry budget")
				require.LessOrEqual(t, bad.calls.Load(), int32(burst), "no request went there twice")
				t.Logf("%d of %d went to the bad one first", bad.calls.Load(), burst)
				f.quiet(t)
			})
		})
	}
}

// TestWhatAllShed is answered with 429 and a time to come back.
func TestWhatAllShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bad []*refusing
		f := startFleet(t, fleetConfig{replicas: 3, profile: sim.DefaultConfig(), speed: 1, adjust: func(c *Config) {
			for i := range c.Models[0].Replicas {
				r := &refusing{Engine: c.Models[0].Replicas[i].Engine, kind: engine.Shed}
				c.Models[0].Replicas[i].Engine = r
				bad = append(bad, r)
			}
		}})
		flt := fault.Of(readAll(t.Context(), f.Submit(tokensRequest(randomPrompt(newRand(1), 300), 20)), 1).err)
		require.Equal(t, fault.Contended, flt.Kind)
		require.Positive(t, flt.RetryAfter)
		for _, r := range bad {
			require.Equal(t, int32(1), r.calls.Load(), "each once")
		}
		f.quiet(t)
	})
}

// TestTheOnlyReplicaComesBack: answers wait for the new life of their engine and go on there.
func TestTheOnlyReplicaComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{replicas: 1, profile: sim.DefaultConfig(), speed: 1})
		edge := f.edge(t)
		path, body := question(1)
		want := ask(t.Context(), edge, path, body)
		got := make(chan heard)
		go func() { got <- ask(t.Context(), edge, path, body) }()
		time.Sleep(300 * time.Millisecond) // virtual: in the middle of it
		f.engines[0].Kill()
		time.Sleep(12 * time.Second)
		f.engines[0].Start()
		same(t, want, <-got, "the only replica came back")
		require.Equal(t, 1, f.metric(t, "plimsoll_stream_breaks_total{", `class="exact",model="plimsoll-sim",outcome="resumed"`))
		f.quiet(t)
	})
}

// TestNobodyComesBack: answers are given up after their time, with an error event and no clean end.
func TestNobodyComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{replicas: 1, profile: sim.DefaultConfig(), speed: 1})
		edge := f.edge(t)
		path, body := question(1)
		got := make(chan heard)
		go func() { got <- ask(t.Context(), edge, path, body) }()
		time.Sleep(300 * time.Millisecond) // virtual: in the middle of it
		f.engines[0].Kill()
		broke := time.Now()
		h := <-got
		require.InDelta(t, 30, time.Since(broke).Seconds(), 1)
		require.Zero(t, h.dones)
		require.Len(t, h.errors, 1)
		require.Empty(t, h.finishes)
		require.NotEmpty(t, h.texts[0])
		require.Equal(t, 1, f.metric(t, "plimsoll_stream_breaks_total{", `outcome="given_up"`))
	})
}

// TestClientsLeaveBrokenAnswers: at once, though nobody serves.
func TestClientsLeaveBrokenAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, fleetConfig{replicas: 2, profile: sim.DefaultConfig(), speed: 1})
		var responses []*stream.Response
		rng := newRand(3)
		for range 60 {
			responses = append(responses, f.Submit(tokensRequest(randomPrompt(rng, 200), 2000)))
		}
		for _, r := range responses {
			_, err := r.Next(t.Context())
			require.NoError(t, err)
		}
		for _, e := range f.engines {
			e.Kill()
		}
		time.Sleep(time.Second) // virtual
		require.Equal(t, 60, f.Live())
		require.Equal(t, 60, f.Queue().QueuedRequests)
		for _, r := range responses {
			r.Cancel()
		}
		before := time.Now()
		synctest.Wait()
		require.Equal(t, before, time.Now())
		require.Zero(t, f.Live())
		require.Zero(t, f.Queue().QueuedRequests)
		for _, s := range f.Snapshots() {
			require.Zero(t, s.Load.BookedBlocks)
		}
		require.Equal(t, 60, f.metric(t, "plimsoll_stream_breaks_total{", `outcome="left"`))
	})
}

// TestWhatClientsWantOfABrokenAnswer, by the header.
func TestWhatClientsWantOfABrokenAnswer(t *testing.T) {
	for _, c := range []struct {
		sampling, wanted string
		whole            bool
		error            string // "": the answer is whole
	}{
		{`"temperature":0`, "off", false, "wants no continuation"},
		{`"temperature":0`, "off", true, ""},
		{`"temperature":0`, "exact", false, ""},
		{`"temperature":0.8,"seed":4`, "exact", false, "would not be exact"},
		{`"temperature":0.8,"seed":4`, "exact", true, ""},
		{`"temperature":0.8,"seed":4`, "best", false, ""},
		{`"temperature":0.8`, "exact", false, ""},
		{`"temperature":0,"presence_penalty":0.5`, "exact", false, "would not be exact"},
	} {
		t.Run(fmt.Sprintf("%s %s %v", c.sampling, c.wanted, c.whole), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := startFleet(t, fleetConfig{replicas: 2, profile: sim.DefaultConfig(), speed: 1})
				edge := f.edge(t)
				body := fmt.Sprintf(`{"model":"plimsoll-sim","messages":[{"role":"user","content":"tell me"}],"max_tokens":100,"ignore_eos":true,"stream":%v,%s}`,
					!c.whole, c.sampling)
				const path = "/v1/chat/completions"
				want := ask(t.Context(), edge, path, body)
				got := make(chan heard)
				go func() { got <- ask(t.Context(), edge, path, body, "X-Plimsoll-Resume", c.wanted) }()
				time.Sleep(300 * time.Millisecond) // virtual: in the middle of it
				for i, s := range f.Snapshots() {
					if s.Load.Running > 0 {
						f.engines[i].Kill()
						defer f.engines[i].Start()
					}
				}
				h := <-got
				if c.error != "" {
					require.Zero(t, h.dones, "no clean end")
					require.Empty(t, h.finishes)
					require.Len(t, h.errors, 1)
					require.Contains(t, h.errors[0], c.error)
					return
				}
				require.Empty(t, h.errors)
				require.Equal(t, want.finishes, h.finishes)
				require.Equal(t, 1, f.metric(t, "plimsoll_stream_breaks_total{", `model="plimsoll-sim"`))
				if c.sampling == `"temperature":0` || c.whole { // begun anew, a seed says the same
					same(t, want, h, "")
				}
			})
		})
	}
}
