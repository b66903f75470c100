package record

import (
	"errors"
	"io"
	"sync"
	"time"

	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
	"plimsoll/scoring/prefix"
	"plimsoll/scoring/queue"
	"plimsoll/testbench/trace"
)

// Config bounds a recorder.
type Config struct {
	BlockTokens int // of the blocks that are named
	RequestsMax int // that run, or wait to be written
	// TokensMax is how many tokens of ended requests may wait to be written.
	TokensMax int
}

// DefaultConfig holds up to 64 MiB of token IDs back.
func DefaultConfig() Config {
	return Config{BlockTokens: 16, RequestsMax: 1 << 16, TokensMax: 16 << 20}
}

// Validate reports what makes no sense.
func (c Config) Validate() error {
	if c.BlockTokens < 1 || c.RequestsMax < 1 || c.TokensMax < 1 {
		return errors.New("record: every bound must be at least 1")
	}
	return nil
}

// Since is the moment from which the times of all recordings count.
func Since() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// Deps are what a recorder needs.
type Deps struct {
	To  io.Writer // takes a line at a time
	Now func() time.Time
	// Written and Dropped hear how many requests were. They are called from any goroutine and must not block; nil: nobody is told.
	Written, Dropped func(requests int)
	// Failed hears of the first write that fails. The recorder goes on.
	Failed func(error)
}

// item is a request that was not written yet.
type item struct {
	request *stream.Request
	at      time.Duration
	ended   bool
	givenUp bool
	tokens  int
	summary stream.Summary
}

// Recorder records. Its methods are safe for concurrent use.
type Recorder struct {
	cfg   Config
	deps  Deps
	began time.Time

	mu     sync.Mutex
	items  []*item // in order of arrival, those given up left out
	open   map[*stream.Request]*item
	tokens int // of those that ended
	closed bool

	failed bool // the writer's own

	wake chan struct{}
	done chan struct{}
}

// New starts a recorder. Close ends it.
func New(cfg Config, deps Deps) (*Recorder, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Written == nil {
		deps.Written = func(int) {}
	}
	if deps.Dropped == nil {
		deps.Dropped = func(int) {}
	}
	r := &Recorder{
		cfg: cfg, deps: deps, began: deps.Now(), open: map[*stream.Request]*item{},
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	go r.run()
	return r, nil
}

// Arrived notes that a request has come.
func (r *Recorder) Arrived(req *stream.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.open) >= r.cfg.RequestsMax || len(r.items) >= r.cfg.RequestsMax && !r.giveUp() {
		r.deps.Dropped(1)
		return
	}
	now := r.deps.Now() // under the lock: times are in the order of the list
	x := &item{request: req, at: r.began.Sub(Since()) + now.Sub(r.began)}
	r.items = append(r.items, x)
	r.open[req] = x
}

// Ended notes that a request has ended. What its legs hold is not changed from then on.
func (r *Recorder) Ended(s stream.Summary) {
	r.mu.Lock()
	x := r.open[s.Request]
	delete(r.open, s.Request)
	if x == nil || x.givenUp || r.closed {
		r.mu.Unlock()
		return // it was counted
	}
	x.ended, x.summary = true, s
	for _, l := range s.Legs {
		x.tokens += len(l.Prompt) + len(l.Answer)
	}
	r.tokens += x.tokens
	for r.tokens > r.cfg.TokensMax {
		if !r.giveUp() {
			break
		}
	}
	if r.tokens > r.cfg.TokensMax { // the writer is behind
		r.drop(x)
	}
	ready := len(r.items) > 0 && r.items[0].ended
	r.mu.Unlock()
	if ready {
		r.signal()
	}
}

// giveUp drops the first request if it runs on and holds others up; false: none does.
func (r *Recorder) giveUp() bool {
	if len(r.items) == 0 || r.items[0].ended {
		return false
	}
	r.items[0].givenUp = true
	r.items = r.items[1:]
	r.deps.Dropped(1)
	r.signal()
	return true
}

// drop takes an ended request out.
func (r *Recorder) drop(x *item) {
	r.tokens -= x.tokens
	x.tokens, x.summary = 0, stream.Summary{}
	for i := len(r.items) - 1; i >= 0; i-- { // it came of late, as a rule
		if r.items[i] == x {
			r.items = append(r.items[:i], r.items[i+1:]...)
			r.deps.Dropped(1)
			return
		}
	}
}

func (r *Recorder) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Close writes what has ended, and returns when it is written. Requests that run on are dropped.
func (r *Recorder) Close() {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.wake)
	}
	r.mu.Unlock()
	<-r.done
}

// run writes until the recorder is closed.
func (r *Recorder) run() {
	defer close(r.done)
	for open := true; open; {
		_, open = <-r.wake
		for x := r.next(!open); x != nil; x = r.next(!open) {
			r.write(x)
		}
	}
}

// next takes the first request if it has ended; with last those that run on are dropped before it.
func (r *Recorder) next(last bool) *item {
	r.mu.Lock()
	defer r.mu.Unlock()
	for last {
		if !r.giveUp() {
			break
		}
	}
	if len(r.items) == 0 || !r.items[0].ended {
		return nil
	}
	x := r.items[0]
	r.items[0], r.items = nil, r.items[1:]
	r.tokens -= x.tokens
	return x
}

// write writes a request's lines.
func (r *Recorder) write(x *item) {
	wrote := false
	for i := range x.summary.Legs {
		line, ok := r.line(x, &x.summary.Legs[i])
		if !ok {
			continue
		}
		if err := trace.Write(r.deps.To, line); err != nil {
			if !r.failed {
				r.failed = true
				r.deps.Failed(err)
			}
			continue
		}
		wrote = true
	}
	if wrote {
		r.deps.Written(1)
	} else {
		r.deps.Dropped(1)
	}
}

// line is a leg as a trace has it; false: its prompt never became known.
func (r *Recorder) line(x *item, l *stream.LegSummary) (trace.Request, bool) {
	if l.PromptTokens < 1 {
		return trace.Request{}, false
	}
	req := x.request
	out := trace.Request{
		At: x.at, PromptTokens: l.PromptTokens, OutputTokens: l.OutputTokens, Session: req.Session, Outcome: outcome(x.summary.Fault),
	}
	if req.MaxTokens != nil {
		out.MaxTokens = new(max(*req.MaxTokens, l.OutputTokens, 1))
	}
	if req.Tenant != "default" {
		out.Tenant = req.Tenant
	}
	if req.Class != queue.Default {
		out.Class = req.Class.String()
	}
	ns := prefix.Namespace{Model: req.Model, LoRA: req.LoRA, Salt: req.CacheSalt}
	sequence := make([]uint32, 0, len(l.Prompt)+len(l.Answer))
	sequence = append(append(sequence, l.Prompt...), l.Answer...)
	for _, key := range prefix.AppendKeys(nil, ns.Seed(), sequence, r.cfg.BlockTokens) {
		out.Parts = append(out.Parts, trace.Part{ID: uint64(key), Tokens: r.cfg.BlockTokens})
	}
	return out, true
}

// outcome is what became of a request, in a word.
func outcome(f *fault.Fault) string {
	if f == nil {
		return trace.Finished
	}
	switch f.Kind {
	case fault.ClientGone, fault.SlowReader:
		return trace.Cancelled
	case fault.EngineFailed, fault.Internal, fault.Deadline:
		return trace.Failed
	case fault.BadInput, fault.ContextLength, fault.Unauthorized, fault.Forbidden, fault.ModelNotFound, fault.NotFound, fault.MethodNotAllowed,
		fault.BodyTooLarge, fault.MediaType, fault.EngineRefused, fault.Contended, fault.OverQuota, fault.NoReplica, fault.ShuttingDown,
		fault.NumKinds:
	}
	return trace.Refused
}
