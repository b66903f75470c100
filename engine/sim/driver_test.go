package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/scoring/prefix"
)

// outcome is what a driver saw of one request.
type outcome struct {
	ids      []uint32
	logprobs []*engine.Logprob
	cached   *int
	finish   *engine.FinishReason
	failure  *engine.Failure
	aborted  bool
	lost     bool
	// preemptions counts how often it was told to have lost its blocks.
	preemptions uint64
}

// driver runs a machine on a virtual clock and keeps all that it says.
type driver struct {
	m       *sim.Machine
	now     time.Duration
	running *sim.StartStep
	seen    map[string]*outcome
	kv      []prefix.Event
	resets  []bool
	// onEmit, if set, looks at every token and may answer with an event, which follows the step.
	onEmit func(id string, e engine.Event) sim.Event
}

func newDriver(tb testing.TB, cfg sim.Config, source sim.TokenSource) *driver {
	tb.Helper()
	m, err := sim.New(cfg, sim.Deps{Source: source})
	require.NoError(tb, err)
	return &driver{m: m, seen: map[string]*outcome{}}
}

func (d *driver) of(id string) *outcome {
	if d.seen[id] == nil {
		d.seen[id] = &outcome{}
	}
	return d.seen[id]
}

func (d *driver) step(event sim.Event) {
	var then []sim.Event
	for _, effect := range d.m.Step(d.now, event) {
		switch e := effect.(type) {
		case sim.StartStep:
			d.running = &e
		case sim.Emit:
			o := d.of(e.ID)
			for _, token := range e.Event.Tokens {
				o.ids = append(o.ids, token.ID)
				o.logprobs = append(o.logprobs, token.Logprob)
			}
			if e.Event.CachedTokens != nil {
				o.cached = e.Event.CachedTokens
			}
			if e.Event.Finish != nil {
				o.finish = &e.Event.Finish.Reason
			}
			if d.onEmit != nil {
				if answer := d.onEmit(e.ID, e.Event); answer != nil {
					then = append(then, answer)
				}
			}
		case sim.KV:
			d.kv = append(d.kv, e.Events...)
		case sim.Rejected:
			d.of(e.ID).failure = e.Failure
		case sim.Preempted:
			d.of(e.ID).preemptions++
		case sim.Aborted:
			d.of(e.ID).aborted = true
		case sim.Lost:
			d.of(e.ID).lost = true
			d.running = nil
		case sim.ResetDone:
			d.resets = append(d.resets, e.OK)
		}
	}
	for _, event := range then {
		d.step(event)
	}
}

// pass ends the running pass; it reports false if none runs.
func (d *driver) pass() bool {
	if d.running == nil {
		return false
	}
	pass := *d.running
	d.running = nil
	d.now = pass.Due
	d.step(sim.StepDone{Step: pass.Step})
	return true
}

// drain runs passes until the engine is idle.
func (d *driver) drain() {
	for d.pass() {
		continue
	}
}

func ask(id string, prompt []uint32, maxTokens int) sim.Submit {
	zero := 0.0
	return sim.Submit{
		ID: id, PromptTokens: prompt, MaxTokens: maxTokens, IgnoreEOS: true,
		Sampling: engine.Sampling{Temperature: &zero},
	}
}

// prompt is n IDs below vocab that depend on the seed; a shorter one is the start of a longer one.
func prompt(n int, seed, vocab uint32) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = (seed*2_654_435_761 + uint32(i)*2_246_822_519) >> 9 % vocab
	}
	return ids
}
