package actors

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"plimsoll/actors/meter"
	"plimsoll/actors/replica"
	"plimsoll/actors/router"
	"plimsoll/actors/stream"
	"plimsoll/actors/supervise"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/live"
	"plimsoll/scoring"
	"plimsoll/tokenizer"
	"plimsoll/tokenizer/chat"
	"plimsoll/tokenizer/simmodel"
)

// rig is a running system over simulated engines, for tests.
type rig struct {
	*System

	engines []*live.Engine
	meter   *meter.Meter
}

type fleetConfig struct {
	replicas   int
	profile    sim.Config
	speed      float64
	adjust     func(*Config)
	log        *slog.Logger // nil: nothing is logged
	middleware func(kind string) actor.ReceiverMiddleware
	cold       bool // the replicas are not waited for
}

// startFleet starts a system and ends it with the test.
func startFleet(t *testing.T, fc fleetConfig) *rig {
	t.Helper()
	model, err := tokenizer.Load(simmodel.FS(), "embedded", time.Now)
	require.NoError(t, err)
	source, err := simmodel.NewSource(model.Tokenizer)
	require.NoError(t, err)
	m, err := meter.New(meter.DefaultConfig())
	require.NoError(t, err)

	f := &rig{meter: m}
	parts := Model{Tokenizer: model, Router: router.DefaultConfig(simmodel.Name)}
	for i := range fc.replicas {
		cfg := live.DefaultConfig()
		cfg.Sim, cfg.Speed = fc.profile, fc.speed
		cfg.Sim.HashSeed = uint64(i) + 1 //nolint:gosec // a count
		e, err := live.New(cfg, live.Deps{Source: source, Entropy: rand.Uint64})
		require.NoError(t, err)
		f.engines = append(f.engines, e)
		rc := replica.DefaultConfig(scoring.ReplicaID("sim-"+strconv.Itoa(i)), simmodel.Name)
		parts.Replicas = append(parts.Replicas, Replica{Config: rc, Engine: e})
	}
	cfg := Config{
		Models: []Model{parts}, Stream: stream.DefaultConfig(), Supervise: supervise.DefaultConfig(), TokenizeMax: 2,
		DrainWait: time.Minute,
	}
	if fc.adjust != nil {
		fc.adjust(&cfg)
	}
	log := fc.log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	f.System, err = Start(cfg, Deps{Log: log, Meter: m, Seed: 1, Boot: 1, Middleware: fc.middleware})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, f.Stop())
		require.NoError(t, model.Close())
		time.Sleep(2 * supervise.DeadLetterInterval) // in a bubble a goroutine of the library must not outlive the test
	})
	require.Eventually(t, func() bool {
		for _, s := range f.Snapshots() {
			if !fc.cold && !s.State.Routable() {
				return false
			}
		}
		return true
	}, time.Minute, time.Millisecond)
	return f
}

func chatRequest(text string, maxTokens int) *stream.Request {
	messages := `[{"role":"user","content":` + strconv.Quote(text) + `}]`
	return &stream.Request{
		ID: "test", Model: simmodel.Name, Arrival: time.Now(), N: 1, MaxTokens: &maxTokens, SkipSpecialTokens: true,
		Input: stream.Input{Chat: &chat.Request{Messages: []byte(messages)}},
	}
}

// answer is what a client made of a response.
type answer struct {
	text     []string
	finishes []*stream.Finish
	usage    stream.Usage
	err      error
}

// readAll takes a response to its end.
func readAll(ctx context.Context, r *stream.Response, legs int) answer {
	a := answer{text: make([]string, legs), finishes: make([]*stream.Finish, legs)}
	for {
		d, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			a.usage = r.Usage()
			return a
		}
		if err != nil {
			a.err = err
			return a
		}
		for _, e := range d.Entries {
			a.text[d.Leg] += e.Text
		}
		if d.Finish != nil {
			a.text[d.Leg] += d.Finish.Text
			a.finishes[d.Leg] = d.Finish
		}
	}
}

// quiet fails unless the system holds nothing of any request any more.
func (f *rig) quiet(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		if f.Live() != 0 || f.Queue() != (Queue{}) {
			return false
		}
		for _, s := range f.Snapshots() {
			l := s.Load
			if l.BookedBlocks != 0 || l.SeatsBooked != 0 || l.Reserved+l.Running+l.Lingering != 0 {
				return false
			}
		}
		return true
	}, time.Minute, 5*time.Millisecond, "live %d, queue %+v", f.Live(), f.Queue())
	for i, e := range f.engines {
		require.Eventually(t, func() bool { // what an engine publishes of itself may lag by a pass
			status, err := e.Probe(t.Context())
			return err == nil && *status.Load.UsedBlocks == 0
		}, time.Minute, time.Millisecond, "engine %d", i)
	}
}

func TestChatIsAnswered(t *testing.T) {
	f := startFleet(t, fleetConfig{replicas: 2, profile: sim.TinyConfig(), speed: 1})
	a := readAll(t.Context(), f.Submit(chatRequest("hello", 24)), 1)
	require.NoError(t, a.err)
	require.NotEmpty(t, strings.TrimSpace(a.text[0]))
	require.NotNil(t, a.finishes[0])
	require.Positive(t, a.usage.PromptTokens)
	require.LessOrEqual(t, a.usage.CompletionTokens, 24)
	f.quiet(t)
}
