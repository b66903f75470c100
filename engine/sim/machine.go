package sim

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"plimsoll/engine"
	"plimsoll/scoring/prefix"
)

// Event is what a [Machine] hears: one of the types below.
type Event interface{ simEvent() }

// Submit asks for one answer. The machine keeps PromptTokens and the maps of Sampling until the request ends; nobody
// may change them.
type Submit struct {
	ID           string
	PromptTokens []uint32
	MaxTokens    int // >= 1; clamped to what the context leaves
	MinTokens    int
	Sampling     engine.Sampling
	EndTokens    []uint32
	IgnoreEOS    bool
	TopLogprobs  *int // as in [engine.Request]
	Salt         string
	LoRA         string
	// Entropy makes unseeded sampling random: the caller draws it anew for every attempt.
	Entropy uint64
	// Answer is what the engine puts out in place of what it would draw, as from recorded traffic: it ends with the last ID,
	// unless MaxTokens or the context ends it before. nil: it draws. Not written to.
	Answer []uint32
	// SkipCacheRead computes the whole prompt, as vLLM does for prompt_logprobs; its blocks are stored all the same.
	SkipCacheRead bool
}

// Abort ends a request. It is answered by Aborted, at once or when the running pass is over, unless the request has
// ended before; of an unknown request nothing is said.
type Abort struct{ ID string }

// StepDone says that the forward pass of that number is over. A pass of an earlier life or number is ignored.
type StepDone struct{ Step uint64 }

// ResetPrefixCache drops all cached blocks; answered by ResetDone when no pass runs. Without Force it fails while a
// block is held; with it running requests are preempted first and go on afterwards.
type ResetPrefixCache struct{ Force bool }

// Flush asks for the cache events that wait for the end of the pass, so that a snapshot can follow.
type Flush struct{}

// Kill ends the process: all requests are lost, the cache is gone.
type Kill struct{}

// Start begins a new life after Kill. The machine is born alive.
type Start struct{}

func (Submit) simEvent()           {}
func (Abort) simEvent()            {}
func (StepDone) simEvent()         {}
func (ResetPrefixCache) simEvent() {}
func (Flush) simEvent()            {}
func (Kill) simEvent()             {}
func (Start) simEvent()            {}

// Effect is what a [Machine] wants done: one of the types below.
type Effect interface{ simEffect() }

// StartStep says that a forward pass runs from now on; StepDone with its number is due after Duration, at Due.
type StartStep struct {
	Step     uint64
	Duration time.Duration
	Due      time.Duration // on the scale of Step's now
}

// Emit hands out what one pass gave for one request: a token, with the first one the cached tokens, with the last one
// the finish. The event belongs to the receiver.
type Emit struct {
	ID    string
	Event engine.Event
}

// KV reports what has changed in the cache. It precedes the Emits of its pass. The slices are shared and read-only.
type KV struct{ Events []prefix.Event }

// Rejected refuses a Submit.
type Rejected struct {
	ID      string
	Failure *engine.Failure
}

// Aborted confirms an Abort: the request holds no block any more.
type Aborted struct{ ID string }

// Preempted says that a request has lost its blocks to others, and waits to be computed again.
type Preempted struct{ ID string }

// Lost says that a request died with the process.
type Lost struct{ ID string }

// ResetDone answers ResetPrefixCache.
type ResetDone struct{ OK bool }

func (StartStep) simEffect() {}
func (Emit) simEffect()      {}
func (KV) simEffect()        {}
func (Rejected) simEffect()  {}
func (Aborted) simEffect()   {}
func (Lost) simEffect()      {}
func (Preempted) simEffect() {}
func (ResetDone) simEffect() {}

// Deps are what a machine is given.
type Deps struct {
	Source TokenSource
}

// Machine is one engine. One caller owns it.
type Machine struct {
	cfg    Config
	source TokenSource

	alive bool
	life  uint64
	pool  *pool
	byID  map[string]*sequence
	// waiting is in order of admission, running in order of when admitted.
	waiting []*sequence
	running []*sequence

	stepping    bool
	step        uint64 // number of the last pass begun; no two passes share one, whatever their lives
	lifeStep    uint64 // the same when this life began
	known       known
	resets      []ResetPrefixCache
	preemptions uint64
	effects     []Effect
}

// New makes an engine that is up and idle.
func New(cfg Config, deps Deps) (*Machine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Source == nil || deps.Source.VocabSize() < 2 {
		return nil, errors.New("sim: a token source of at least two IDs is needed")
	}
	m := &Machine{cfg: cfg, source: deps.Source}
	m.start()
	return m, nil
}

// Step takes an event that happens at a time, counted from any fixed moment and never falling. The effects are valid
// until the next call; what they point to stays valid.
func (m *Machine) Step(now time.Duration, event Event) []Effect {
	clear(m.effects)
	m.effects = m.effects[:0]
	switch e := event.(type) {
	case Submit:
		m.submit(e)
	case Abort:
		m.abort(e.ID)
	case StepDone:
		if !m.alive || !m.stepping || e.Step != m.step {
			return nil
		}
		m.finishPass()
	case ResetPrefixCache:
		m.resets = append(m.resets, e)
	case Flush:
		m.flush()
	case Kill:
		m.kill()
	case Start:
		if !m.alive {
			m.start()
		}
	}
	if m.alive && !m.stepping {
		m.reset()
		m.startPass(now)
	}
	return m.effects
}

func (m *Machine) submit(r Submit) {
	if f := m.refusal(&r); f != nil {
		m.effect(Rejected{ID: r.ID, Failure: f})
		return
	}
	r.MaxTokens = min(r.MaxTokens, m.cfg.SequenceTokens()-len(r.PromptTokens))
	s := newSequence(m.source, r)
	s.grow(m.pool)
	m.byID[r.ID] = s
	m.waiting = append(m.waiting, s)
}

// refusal says why the engine does not take the request, as vLLM does: 400 with the numbers, 404 for a missing
// adapter, 503 if too many wait.
func (m *Machine) refusal(r *Submit) *engine.Failure {
	bad := func(param, format string, args ...any) *engine.Failure {
		return &engine.Failure{
			Kind: engine.Client, FromEngine: true, Status: http.StatusBadRequest,
			Message: fmt.Sprintf(format, args...), Param: param,
		}
	}
	if !m.alive {
		return &engine.Failure{Kind: engine.Refused, Err: errors.New("the simulated engine is down")}
	}
	if m.byID[r.ID] != nil {
		return bad("request_id", "request ID %q is in use", r.ID)
	}
	n, limit := len(r.PromptTokens), m.cfg.SequenceTokens()
	switch {
	case n == 0:
		return bad("prompt", "the prompt is empty")
	case n >= limit:
		return bad("prompt", "the longest sequence is %d tokens: the prompt of %d leaves no room for an answer", limit, n)
	case r.MaxTokens < 1:
		return bad("max_tokens", "max_tokens is %d, at least 1 is needed", r.MaxTokens)
	case r.MinTokens < 0 || r.MinTokens > r.MaxTokens:
		return bad("min_tokens", "min_tokens is %d, max_tokens %d", r.MinTokens, r.MaxTokens)
	case r.Answer != nil && len(r.Answer) == 0:
		return bad("answer", "an answer without a token ends nothing")
	case r.TopLogprobs != nil && (*r.TopLogprobs < 0 || *r.TopLogprobs > m.cfg.TopLogprobsMax):
		return bad("logprobs", "%d alternatives were asked for, at most %d are given", *r.TopLogprobs, m.cfg.TopLogprobsMax)
	}
	vocab := uint32(m.source.VocabSize())
	for _, id := range r.PromptTokens {
		if id >= vocab {
			return bad("prompt", "token ID %d is out of the vocabulary of %d", id, vocab)
		}
	}
	if r.LoRA != "" && !m.hasAdapter(r.LoRA) {
		return &engine.Failure{
			Kind: engine.Operator, FromEngine: true, Status: http.StatusNotFound, Missing: true,
			Message: fmt.Sprintf("the adapter %q is not loaded", r.LoRA), Param: "model",
		}
	}
	if len(m.waiting) >= m.cfg.WaitingMax {
		return &engine.Failure{
			Kind: engine.Shed, FromEngine: true, Status: http.StatusServiceUnavailable,
			Message: fmt.Sprintf("%d requests wait, no more are taken", len(m.waiting)),
		}
	}
	return nil
}

func (m *Machine) hasAdapter(name string) bool {
	for _, a := range m.cfg.Adapters {
		if a == name {
			return true
		}
	}
	return false
}

// abort lets go of a request. One that the running pass computes is let go of when the pass is over, because its
// blocks are being written.
func (m *Machine) abort(id string) {
	s := m.byID[id]
	switch {
	case s == nil:
	case m.stepping && s.scheduled > 0:
		s.aborting = true
	default:
		m.forget(s)
		m.effect(Aborted{ID: id})
	}
}

func (m *Machine) kill() {
	if !m.alive {
		return
	}
	for _, s := range m.running {
		m.effect(Lost{ID: s.request.ID})
	}
	for _, s := range m.waiting {
		m.effect(Lost{ID: s.request.ID})
	}
	for range m.resets {
		m.effect(ResetDone{OK: false})
	}
	m.alive, m.stepping = false, false
	m.running, m.waiting, m.resets, m.byID = nil, nil, nil, nil
	m.pool = nil
}

func (m *Machine) start() {
	m.life++
	m.alive = true
	m.lifeStep, m.preemptions = m.step, 0
	m.pool = newPool(m.cfg, finish(m.cfg.HashSeed^m.life<<32))
	m.byID = make(map[string]*sequence)
	m.known = known{adapters: map[string]bool{}}
}

// reset performs what was asked for while a pass ran.
func (m *Machine) reset() {
	for _, r := range m.resets {
		for r.Force && len(m.running) > 0 {
			m.preempt()
		}
		m.effect(ResetDone{OK: m.pool.clear()})
	}
	m.resets = m.resets[:0]
}

func (m *Machine) flush() {
	if m.alive && len(m.pool.events) > 0 {
		m.effect(KV{Events: m.pool.events})
		m.pool.events = nil
	}
}

func (m *Machine) effect(e Effect) { m.effects = append(m.effects, e) }
