package sim_test

import (
	"reflect"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/sim"
)

// world drives a machine with random events and keeps what it must answer.
type world struct {
	*driver
	cfg    sim.Config
	source sim.HashSource
	index  *naiveIndex
	asked  map[string]sim.Submit
	last   []uint32 // prompt and answer of a request, for follow-ups
	hit    map[string]int
}

// smallConfig is so small that a few requests compete for everything.
func smallConfig() sim.Config {
	cfg := sim.TinyConfig()
	cfg.BlockTokens = 4
	cfg.KVBlocks = 24
	cfg.Seats = 4
	cfg.BatchTokens = 16
	cfg.ContextTokens = 80
	cfg.WaitingMax = 6
	cfg.Adapters = []string{"lora"}
	return cfg
}

func (w *world) submission(t *rapid.T) sim.Submit {
	n := rapid.SampledFrom([]int{1, 3, 4, 5, 8, 16, 17, 33, 40, 64, 79, 80, 90}).Draw(t, "prompt tokens")
	fresh := prompt(n, rapid.Uint32Range(1, 6).Draw(t, "prompt"), 3)
	for i := range fresh {
		fresh[i] += 3
	}
	if rapid.Bool().Draw(t, "follow-up") && len(w.last) < 50 {
		fresh = append(append([]uint32{}, w.last...), fresh...)
	}
	s := sim.Submit{
		ID: strconv.Itoa(len(w.asked)), PromptTokens: fresh,
		MaxTokens: rapid.IntRange(1, 60).Draw(t, "max"),
		Salt:      rapid.SampledFrom([]string{"", "", "", "salt"}).Draw(t, "salt"),
		LoRA:      rapid.SampledFrom([]string{"", "", "", "lora"}).Draw(t, "lora"),
		Entropy:   rapid.Uint64().Draw(t, "entropy"),
		IgnoreEOS: rapid.Bool().Draw(t, "ignore eos"),
	}
	s.MinTokens = rapid.IntRange(0, s.MaxTokens).Draw(t, "min")
	if rapid.Bool().Draw(t, "greedy") {
		zero := 0.0
		s.Sampling.Temperature = &zero
	}
	if rapid.Bool().Draw(t, "logprobs") {
		n := rapid.IntRange(0, 3).Draw(t, "n")
		s.TopLogprobs = &n
	}
	return s
}

func (w *world) submit(t *rapid.T) {
	for range rapid.IntRange(1, 5).Draw(t, "requests") {
		s := w.submission(t)
		w.asked[s.ID] = s
		w.step(s)
	}
}

// alone submits to an idle engine; a naive reader of the cache events knows what is hit.
func (w *world) alone(t *rapid.T) {
	w.drain()
	w.step(sim.Flush{})
	w.index.apply(w.kv)
	w.kv = nil
	s := w.submission(t)
	w.index.compare(t, w.m.Snapshot())
	want, loaded := w.index.predict(s.PromptTokens, s.LoRA, s.Salt)
	w.asked[s.ID] = s
	w.step(s)
	w.drain()
	if o := w.of(s.ID); o.failure == nil {
		require.Equal(t, want, *o.cached, "cached tokens")
		w.last = append(append([]uint32{}, s.PromptTokens...), o.ids...)
		w.hit["alone"]++
		if want > 0 {
			w.hit["alone with a hit"]++
		}
		if loaded > 0 {
			w.hit["loaded from the host"]++
		}
	}
}

func (w *world) abort(t *rapid.T) {
	if len(w.asked) > 0 {
		w.step(sim.Abort{ID: strconv.Itoa(rapid.IntRange(0, len(w.asked)-1).Draw(t, "whom"))})
	}
}

func (w *world) restart(*rapid.T) {
	w.step(sim.Kill{})
	w.kv, w.index, w.last = nil, newNaiveIndex(w.cfg.BlockTokens), nil
	w.step(sim.Start{})
}

func (w *world) check(t *rapid.T) {
	require.NoError(t, w.m.Audit())
	w.index.apply(w.kv)
	w.kv = nil
	require.False(t, w.index.negative(), "removed more often than stored")
	require.LessOrEqual(t, w.index.onHost(), w.cfg.HostBlocks)
	status := w.m.Status()
	require.LessOrEqual(t, status.Running, w.cfg.Seats)
	held := 0
	for id, s := range w.asked {
		if n, ok := w.m.HeldBlocks(id); ok {
			held += n
			most := min(len(s.PromptTokens)+s.MaxTokens, w.cfg.SequenceTokens()) + w.cfg.BlockTokens - 1
			require.LessOrEqual(t, n, most/w.cfg.BlockTokens, "blocks beyond what was asked for")
		}
	}
	require.LessOrEqual(t, status.UsedBlocks, held)
}

// settle ends all requests and compares every answer with the oracle's.
func (w *world) settle(t *rapid.T) {
	w.hit["preempted"] += int(w.m.Status().Preemptions)
	w.drain()
	require.Zero(t, w.m.Status().UsedBlocks)
	for id, s := range w.asked {
		o := w.of(id)
		if o.failure != nil {
			require.Contains(t, []engine.FailKind{engine.Client, engine.Shed}, o.failure.Kind)
			require.Empty(t, o.ids)
			w.hit[o.failure.Kind.String()]++
			continue
		}
		want, reason := sim.Answer(w.cfg, w.source, s)
		if o.finish == nil {
			require.True(t, o.aborted != o.lost, "an unfinished request was aborted or lost")
			require.Equal(t, want[:len(o.ids)], append([]uint32{}, o.ids...))
			w.hit["unfinished"]++
			continue
		}
		require.Equal(t, want, o.ids)
		require.Equal(t, reason, *o.finish)
		for _, l := range o.logprobs {
			require.Equal(t, s.TopLogprobs != nil, l != nil, "one logprob entry a token if asked for")
		}
		w.hit["finished"]++
	}
}

// Whatever happens, blocks add up, every answer is the oracle's, and cache events tell what is hit.
func TestMachineAgainstOracles(t *testing.T) {
	hit := map[string]int{}
	for range 3 {
		rapid.Check(t, func(t *rapid.T) { runEngine(t, hit) })
	}
	t.Log(hit)
	for _, what := range []string{"finished", "unfinished", "preempted", "alone", "alone with a hit", "client", "shed", "loaded from the host"} {
		require.Positive(t, hit[what], "%s never happened", what)
	}
}

// runEngine drives an engine beside its oracles.
func runEngine(t *rapid.T, hit map[string]int) {
	w := &world{cfg: smallConfig(), source: sim.HashSource{Vocab: 6, EOSID: 0, EndPerMille: 50}, hit: hit}
	w.cfg.HostBlocks = rapid.SampledFrom([]int{0, 3, 12, 40}).Draw(t, "host blocks")
	m, err := sim.New(w.cfg, sim.Deps{Source: w.source})
	require.NoError(t, err)
	w.driver = &driver{m: m, seen: map[string]*outcome{}}
	w.index, w.asked = newNaiveIndex(w.cfg.BlockTokens), map[string]sim.Submit{}
	passes := func(t *rapid.T) {
		for range rapid.IntRange(1, 12).Draw(t, "passes") {
			w.pass()
		}
	}
	t.Repeat(map[string]func(*rapid.T){
		"":           w.check,
		"submit":     w.submit,
		"submit too": w.submit,
		"alone":      w.alone,
		"abort":      w.abort,
		"pass":       passes,
		"pass too":   passes,
		"reset": func(t *rapid.T) {
			if rapid.IntRange(0, 4).Draw(t, "sometimes") == 0 {
				w.step(sim.ResetPrefixCache{Force: rapid.Bool().Draw(t, "force")})
			}
		},
		"restart": func(t *rapid.T) {
			if rapid.IntRange(0, 9).Draw(t, "rarely") == 0 {
				w.restart(t)
			}
		},
	})
	w.settle(t)
}

// The same events give the same effects: nothing depends on the order of a map or on the process.
func TestMachineIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{cfg: smallConfig(), source: sim.HashSource{Vocab: 6, EOSID: 0, EndPerMille: 50}, asked: map[string]sim.Submit{}}
		one, err := sim.New(w.cfg, sim.Deps{Source: w.source})
		require.NoError(t, err)
		two, err := sim.New(w.cfg, sim.Deps{Source: w.source})
		require.NoError(t, err)
		for step := range uint64(60) {
			var event sim.Event = sim.StepDone{Step: step / 2}
			if rapid.Bool().Draw(t, "submit") {
				s := w.submission(t)
				s.Sampling.LogitBias = map[uint32]float64{1: 3, 2: -100, 3: 5}
				w.asked[s.ID] = s
				event = s
			}
			require.True(t, reflect.DeepEqual(one.Step(0, event), two.Step(0, event)))
			require.Equal(t, one.Status(), two.Status())
		}
		require.Equal(t, one.Snapshot(), two.Snapshot())
	})
}
