package fakeengine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"plimsoll/engine"
	"plimsoll/testbench/kvpub"
)

// Words for [Faults].Core.
const (
	CoreRuns  = "runs"
	CoreHangs = "hangs" // nothing is computed; the API server answers as if nothing were
	CoreDead  = "dead"  // streams end with an error frame, /health says 503, the API server lives on
)

// Faults is all that is wrong with a server. What is absent is not wrong.
type Faults struct {
	Status            *int      `json:"status,omitempty"`              // requests to generate get this status
	Times             *int      `json:"times,omitempty"`               // but no more than so many of them; absent: all
	Refuses           *Refusal  `json:"refuses,omitempty"`             // so do some requests, whatever is said of the others
	RetryAfterSeconds *int      `json:"retry_after_seconds,omitempty"` // with that header
	HangAfterTokens   *int      `json:"hang_after_tokens,omitempty"`   // an answer gives no more than these
	Slow              *float64  `json:"slow,omitempty"`                // passes take so many times as long
	Core              *string   `json:"core,omitempty"`
	ClockSeconds      *float64  `json:"clock_seconds,omitempty"` // the wall clock is ahead by these
	KV                *KVFaults `json:"kv,omitempty"`
	// BreakStreams ends the answers under way with an error, once.
	BreakStreams *bool `json:"break_streams,omitempty"`
	// EndAfterTokens ends a stream in good order, and without a finish, once it has given so many.
	EndAfterTokens *int `json:"end_after_tokens,omitempty"`
	// Trailing streams tell of more after their finish: another choice, a call of a tool, what is no chunk.
	Trailing *bool `json:"trailing,omitempty"`
}

// Refusal is a status that some requests get: as from a filter in front of the server, or for want of what they name.
type Refusal struct {
	Status int     `json:"status"`
	Text   *string `json:"text,omitempty"`  // those with this in a prompt
	Model  *string `json:"model,omitempty"` // those for the model or adapter of this name, as if there were none
}

// KVFaults are the probabilities, 0 to 1, of what goes wrong with a batch of cache events and with a replay.
type KVFaults struct {
	Seed uint64 `json:"seed"`
	// Of a batch; see [kvpub.BatchFault].
	Drop    float64 `json:"drop"`
	Lose    float64 `json:"lose"`
	Double  float64 `json:"double"`
	Reorder float64 `json:"reorder"`
	Delay   float64 `json:"delay"`
	Garble  float64 `json:"garble"`
	Sever   float64 `json:"sever"`
	// Of a replay; see [kvpub.ReplayFault].
	Silent  float64 `json:"silent"`
	Partial float64 `json:"partial"`
	Broken  float64 `json:"broken"`
	Late    float64 `json:"late"`
}

// plan returns the dice for the publisher.
func (f KVFaults) plan() kvpub.Plan {
	d := &kvpub.Dice{Rand: rand.New(rand.NewPCG(f.Seed, 0))}
	for fault, p := range map[kvpub.BatchFault]float64{
		kvpub.Drop: f.Drop, kvpub.Lose: f.Lose, kvpub.Double: f.Double, kvpub.Reorder: f.Reorder, kvpub.Delay: f.Delay,
		kvpub.Garble: f.Garble, kvpub.Sever: f.Sever,
	} {
		d.Batches[fault] = p
	}
	for fault, p := range map[kvpub.ReplayFault]float64{
		kvpub.Silent: f.Silent, kvpub.Partial: f.Partial, kvpub.Broken: f.Broken, kvpub.Late: f.Late,
	} {
		d.Replays[fault] = p
	}
	return d
}

// Validate says what cannot be.
func (f Faults) Validate() error {
	switch {
	case f.Status != nil && (*f.Status < 300 || *f.Status > 599):
		return fmt.Errorf("status %d is no error", *f.Status)
	case f.Times != nil && (*f.Times < 1 || f.Status == nil):
		return errors.New("times is below 1, or without a status")
	case f.Refuses != nil && (f.Refuses.Status < 300 || f.Refuses.Status > 599):
		return fmt.Errorf("status %d of a refusal is no error", f.Refuses.Status)
	case f.RetryAfterSeconds != nil && *f.RetryAfterSeconds < 0:
		return errors.New("retry_after_seconds is below 0")
	case f.HangAfterTokens != nil && *f.HangAfterTokens < 0:
		return errors.New("hang_after_tokens is below 0")
	case f.EndAfterTokens != nil && *f.EndAfterTokens < 0:
		return errors.New("end_after_tokens is below 0")
	case f.Slow != nil && !(*f.Slow > 0 && *f.Slow <= 1e6):
		return errors.New("slow must be above 0 and at most a million")
	case f.Core != nil && *f.Core != CoreRuns && *f.Core != CoreHangs && *f.Core != CoreDead:
		return fmt.Errorf("core %q is none of %s, %s and %s", *f.Core, CoreRuns, CoreHangs, CoreDead)
	}
	return nil
}

// errBroke ends the answers under way with an error.
var errBroke = errors.New("the answer was broken off")

// injector holds what is wrong with a server.
type injector struct {
	now func() time.Time

	mu      sync.Mutex
	faults  Faults        // guarded by mu
	times   int           // how many have had Faults.Status, guarded by mu
	changed chan struct{} // guarded by mu; closed when faults are others
}

func newInjector(now func() time.Time) *injector {
	return &injector{now: now, changed: make(chan struct{})}
}

// wrong returns what is wrong, and what is closed when that changes.
func (x *injector) wrong() (Faults, <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.faults, x.changed
}

// clock is the server's wall clock.
func (x *injector) clock() time.Time {
	f, _ := x.wrong()
	return x.now().Add(time.Duration(orElse(f.ClockSeconds, 0) * float64(time.Second)))
}

// hold returns when an answer may give as many tokens as it has: at once, unless it is to hang. The error is the context's.
func (x *injector) hold(ctx context.Context, tokens int) error {
	for {
		f, changed := x.wrong()
		if f.HangAfterTokens == nil || tokens <= *f.HangAfterTokens {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// SetFaults replaces what is wrong with the server by f.
func (s *Server) SetFaults(f Faults) error {
	if err := f.Validate(); err != nil {
		return fmt.Errorf("fakeengine: %w", err)
	}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	close(s.faults.changed)
	s.faults.faults, s.faults.times, s.faults.changed = f, 0, make(chan struct{})
	s.engine.Slow(orElse(f.Slow, 1))
	switch orElse(f.Core, CoreRuns) {
	case CoreHangs:
		s.engine.Pause()
	case CoreDead:
		s.engine.Kill()
	case CoreRuns:
		s.engine.Start()
		s.engine.Resume()
	}
	if s.kv != nil {
		var plan kvpub.Plan = kvpub.Calm{}
		if f.KV != nil {
			plan = f.KV.plan()
		}
		s.kv.publisher.SetPlan(plan)
	}
	if orElse(f.BreakStreams, false) {
		s.running.end(errBroke)
	}
	return nil
}

// setFaults answers PUT /faults, which no real engine has.
func (s *Server) setFaults(w http.ResponseWriter, r *http.Request) {
	var f Faults
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
	dec.DisallowUnknownFields()
	err := dec.Decode(&f)
	if err == nil {
		err = s.SetFaults(f)
	}
	if err != nil {
		s.fail(w, schemaFault("body", err.Error()))
		return
	}
	s.write(w, http.StatusOK, f)
}

// faulty guards the routes that generate.
func (s *Server) faulty(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f, _ := s.faults.wrong()
		if f.Status == nil || !s.faults.due() {
			h(w, r)
			return
		}
		if f.RetryAfterSeconds != nil {
			w.Header().Set("Retry-After", strconv.Itoa(*f.RetryAfterSeconds))
		}
		s.fail(w, injected(*f.Status))
	}
}

// due says whether one more request gets the status that is injected.
func (x *injector) due() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if times := x.faults.Times; times != nil && x.times >= *times {
		return false
	}
	x.times++
	return true
}

func injected(status int) *fault {
	return &fault{Message: "a fault was injected", Type: http.StatusText(status), Code: status}
}

// refusal is what a request gets that is to be refused for what it is; nil: it is not.
func (s *Server) refusal(a *ask) *fault {
	f, _ := s.faults.wrong()
	r := f.Refuses
	switch {
	case r == nil:
		return nil
	case r.Model != nil && *r.Model == a.model:
		refused := unknownModel(a.model, s.cfg.Engine.Sim.Model)
		refused.Code = r.Status
		return refused
	case r.Text != nil:
		for _, prompt := range a.prompts {
			if text, err := s.deps.Model.Decode(prompt, true); err == nil && strings.Contains(text, *r.Text) {
				return injected(r.Status)
			}
		}
	}
	return nil
}

// trailing are frames that follow a finish and that nobody has asked for.
func trailing() []any {
	return []any{
		json.RawMessage(`{"object":"text_completion","choices":[{"index":1,"text":"more","token_ids":[70],"finish_reason":null}]}`),
		json.RawMessage(`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":0}]},"token_ids":[71],"finish_reason":"tool_calls"}]}`),
		json.RawMessage(`{"type":"ping"}`), json.RawMessage(`[]`),
	}
}

// broke is what ends an answer that was broken off.
func broke() error { return &engine.Failure{Kind: engine.Broken, Err: errBroke} }
