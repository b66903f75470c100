package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"plimsoll/engine/wire"
	"plimsoll/testbench/fleet"
	"plimsoll/testbench/load"
	"plimsoll/testbench/report"
	"plimsoll/testbench/trace"
)

// Target says what is sent to a live endpoint.
type Target struct {
	Traffic Traffic
	URL     string // of the server; /v1/completions is asked
	Model   string // "": requests name none
	Key     string // "": none is sent
	// VocabSize bounds the token IDs of prompts, which are the trace's contents and no text.
	VocabSize   uint32
	Speed       float64 // times the trace's own pace
	Seed        uint64
	SLO         SLO
	InFlightMax int
	Timeout     time.Duration // of one request
	Keep        bool          // the report keeps all samples
}

// DefaultTarget sends a trace at its own pace.
func DefaultTarget(url, name string) Target {
	return Target{
		Traffic: DefaultTraffic(name), URL: url, VocabSize: 4096, Speed: 1, Seed: 1, SLO: DefaultSLO(), InFlightMax: 4096, Timeout: 10 * time.Minute,
	}
}

// Validate reports what makes no sense.
func (t Target) Validate() error {
	errs := []error{t.Traffic.Validate(), t.SLO.Validate()}
	if u, err := url.Parse(t.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		errs = append(errs, fmt.Errorf("%q is no address: write http://HOST:PORT", t.URL))
	}
	if t.VocabSize < 1 || !(t.Speed > 0 && t.Speed <= 1e6) || t.InFlightMax < 1 || t.Timeout <= 0 {
		errs = append(errs, errors.New("vocabulary, speed, requests under way and time-out must be above 0"))
	}
	return errors.Join(errs...)
}

// live is the name of the only run of a live endpoint: what it routes by is its own.
const live = "live"

// InterruptedError is the error of a trial whose context ended before its requests did.
type InterruptedError struct {
	Ended, Requests int // of the trial
	After           time.Duration
	Err             error // the context's
}

func (i *InterruptedError) Error() string {
	return fmt.Sprintf("interrupted after %s, when %d of %d requests had ended", i.After.Round(time.Second/10), i.Ended, i.Requests)
}

// Unwrap returns the context's error.
func (i *InterruptedError) Unwrap() error { return i.Err }

// Live sends the traffic to an endpoint at its times by the wall clock. Every answer is as long as the recorded one. If ctx ends
// first, the error is an [*InterruptedError], and the report is of the requests that had ended; there is none if none had.
func Live(ctx context.Context, t Target, client *http.Client, tell func(Progress)) (*Report, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	m, err := t.Traffic.measure(t.Seed)
	if err != nil {
		return nil, err
	}
	calls, requests, err := t.calls()
	if err != nil {
		return nil, err
	}
	cfg := load.Config{URL: t.URL + "/v1/completions", InFlightMax: t.InFlightMax, Timeout: t.Timeout, Header: http.Header{}}
	if t.Key != "" {
		cfg.Header.Set("Authorization", "Bearer "+t.Key)
	}
	var mu sync.Mutex
	ended, began := 0, time.Now()
	cfg.Ended = func(s *load.Sample) {
		if s.Cut {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		ended++
		tell(Progress{What: t.URL, Run: 1, Runs: 1, Arrived: ended, Total: len(calls), Virtual: time.Since(began)})
	}
	sent, err := load.Run(ctx, cfg, client, calls)
	if err != nil {
		return nil, err
	}
	sent, requests = uncut(sent, requests)
	var cut error
	if len(sent) < len(calls) {
		cut = &InterruptedError{Ended: len(sent), Requests: len(calls), After: time.Since(began), Err: ctx.Err()}
	}
	if cut != nil && len(sent) == 0 {
		return nil, cut
	}
	samples, replicas, late := samplesOf(sent, requests)
	if !slices.ContainsFunc(samples, func(x fleet.Sample) bool { return x.Outcome != fleet.Failed }) {
		// A key or a model's name may be wrong, or nobody listen.
		return nil, errors.Join(cut, fmt.Errorf("%s failed all %d requests; the first: %w", t.URL, len(sent), sent[0].Err))
	}
	run := Run{
		Policy: live, Seed: t.Seed, Speed: t.Speed, PerSecond: m.rate() * t.Speed, Summary: Summarize(samples, t.SLO, max(1, len(replicas))), LateP99: &late,
	}
	if t.Keep {
		run.Result = &fleet.Result{Samples: samples}
	}
	return &Report{Traffic: t.Traffic, Target: t.URL, SLO: t.SLO, Policies: []string{live}, Seeds: []uint64{t.Seed}, Runs: []Run{run}}, cut
}

// uncut are the requests that had their end, whatever it was.
func uncut(sent []load.Sample, requests []trace.Request) ([]load.Sample, []trace.Request) {
	var ended []load.Sample
	var of []trace.Request
	for i := range sent {
		if !sent[i].Cut {
			ended, of = append(ended, sent[i]), append(of, requests[i])
		}
	}
	return ended, of
}

// calls are the requests as they are sent.
func (t Target) calls() ([]load.Call, []trace.Request, error) {
	source, done, err := t.Traffic.open(t.Seed)
	if err != nil {
		return nil, nil, err
	}
	defer done() //nolint:errcheck // it is only read from
	if source, err = trace.Scaled(source, t.Speed); err != nil {
		return nil, nil, err
	}
	requests, err := trace.Take(source, t.Traffic.Requests)
	calls := make([]load.Call, len(requests))
	for i := range requests {
		calls[i] = load.Call{At: requests[i].At, Body: func() []byte { return t.body(&requests[i]) }}
	}
	return calls, requests, err
}

// body is a streaming completion of exactly the recorded length.
func (t Target) body(r *trace.Request) []byte {
	more := map[string]any{
		"max_tokens": r.OutputTokens, "ignore_eos": true, "stream": true, "stream_options": map[string]any{"include_usage": true},
	}
	if t.Model != "" {
		more["model"] = t.Model
	}
	if r.Session != "" {
		more["prompt_cache_key"] = r.Session
	}
	if r.Class != "" {
		more["service_tier"] = r.Class
	}
	rest, err := json.Marshal(more)
	if err != nil {
		panic(err) // words and numbers
	}
	body := wire.AppendIDs([]byte(`{"prompt":`), trace.Text{VocabSize: t.VocabSize}.Prompt(nil, *r))
	return append(append(body, ','), rest[1:]...)
}

// samplesOf lays out what a client saw. late is how late the 99th of 100 was sent: where it is not small the generator, or the
// machine, was too slow to measure.
func samplesOf(sent []load.Sample, requests []trace.Request) (samples []fleet.Sample, replicas []string, late Seconds) {
	samples = make([]fleet.Sample, len(sent))
	lags := make([]time.Duration, 0, len(sent))
	for i := range sent {
		s, r := &sent[i], &requests[i]
		x := &samples[i]
		*x = fleet.Sample{
			Number: r.Number, At: s.At, Dispatched: s.At, First: s.First, Last: s.Last, Replica: -1, Attempts: 1, PromptTokens: r.PromptTokens,
			CachedTokens: s.CachedTokens, OutputTokens: r.OutputTokens, Produced: s.CompletionTokens, Session: r.Session,
		}
		lags = append(lags, s.Sent-s.At)
		switch {
		case s.Err == nil:
			x.Outcome = fleet.Finished
		case s.Status == http.StatusTooManyRequests || s.Status == http.StatusServiceUnavailable:
			x.Outcome, x.Why = fleet.Refused, s.Err.Error()
		default:
			x.Outcome, x.Why = fleet.Failed, s.Err.Error()
		}
		if s.Replica == "" {
			continue
		}
		if x.Replica = slices.Index(replicas, s.Replica); x.Replica < 0 {
			x.Replica = len(replicas)
			replicas = append(replicas, s.Replica)
		}
	}
	if lag, ok := report.Quantile(lags, 0.99); ok {
		late = Seconds(lag.Seconds())
	}
	return samples, replicas, late
}
