package failover_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"plimsoll/actors"
	"plimsoll/actors/meter"
	"plimsoll/actors/replica"
	"plimsoll/actors/router"
	"plimsoll/actors/stream"
	"plimsoll/actors/supervise"
	"plimsoll/engine"
	"plimsoll/engine/kvevents"
	"plimsoll/engine/vllm"
	"plimsoll/scoring"
	"plimsoll/testbench/fakeengine"
	"plimsoll/tokenizer"
	"plimsoll/tokenizer/simmodel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const servers = 3

// rig is a node before vLLM servers that are all sabotaged by one plan.
type rig struct {
	*actors.System

	plan  *plan
	meter *meter.Meter
	vllm  [servers]*fakeengine.Server
	web   [servers]*httptest.Server
}

// patience is how long nothing may come before a server is left: a first token, another one, and anything that all of its
// streams wait for.
type patience struct{ firstToken, token, hang time.Duration }

// short finds soon who says nothing more.
func short() patience { return patience{2 * time.Second, time.Second, 250 * time.Millisecond} }

// long takes nobody for silent who is slow because the machine is: on a busy one all servers would be left before an answer is
// whole.
func long() patience { return patience{10 * time.Minute, 10 * time.Minute, 10 * time.Minute} }

func startFleet(t *testing.T, api vllm.API, adjust ...func(*fakeengine.Config, *router.Config)) *rig {
	t.Helper()
	return startFleetOf(t, api, short(), adjust...)
}

func startFleetOf(t *testing.T, api vllm.API, waits patience, adjust ...func(*fakeengine.Config, *router.Config)) *rig {
	t.Helper()
	model, err := tokenizer.Load(simmodel.FS(), "embedded", time.Now)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, model.Close()) })
	source, err := simmodel.NewSource(model.Tokenizer)
	require.NoError(t, err)
	f := &rig{plan: &plan{}}
	parts := actors.Model{Tokenizer: model, Router: router.DefaultConfig(simmodel.Name)}
	for i := range servers {
		cfg := fakeengine.DefaultConfig()
		cfg.Engine.Speed = 5
		for _, change := range adjust {
			change(&cfg, &parts.Router)
		}
		s, err := fakeengine.New(cfg, fakeengine.Deps{Model: model, Source: source, Entropy: rand.Uint64, Now: time.Now})
		require.NoError(t, err)
		web := httptest.NewServer(saboteur{s, f.plan})
		f.vllm[i], f.web[i] = s, web
		t.Cleanup(func() {
			web.CloseClientConnections()
			web.Close()
			require.NoError(t, s.Close())
		})
		at := vllm.DefaultConfig()
		at.URL, at.API = web.URL, api
		if events := s.KVEvents(); events != nil { // told where they are, so that nothing need be asked of the server
			publisher := kvevents.DefaultConfig()
			publisher.Endpoint, publisher.ReplayEndpoint = events.Endpoint(), events.ReplayEndpoint()
			at.Events, at.Publisher = vllm.EventsSet, &publisher
		}
		e, err := vllm.New(at, vllm.Deps{Dial: new(net.Dialer).DialContext, Log: slog.New(slog.DiscardHandler), Entropy: rand.Uint64})
		require.NoError(t, err)
		rc := replica.DefaultConfig(scoring.ReplicaID("vllm-"+strconv.Itoa(i)), simmodel.Name)
		rc.HangLeast, rc.HangBlind = waits.hang, max(waits.hang, rc.HangBlind)
		parts.Replicas = append(parts.Replicas, actors.Replica{Config: rc, Engine: e})
	}
	m, err := meter.New(meter.DefaultConfig())
	require.NoError(t, err)
	f.meter = m
	cfg := actors.Config{Models: []actors.Model{parts}, Stream: stream.DefaultConfig(), Supervise: supervise.DefaultConfig(), TokenizeMax: 2}
	cfg.Stream.FirstTokenTimeout, cfg.Stream.TokenTimeout = waits.firstToken, waits.token
	f.System, err = actors.Start(cfg, actors.Deps{Log: slog.New(slog.DiscardHandler), Meter: m, Seed: 1, Boot: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Stop()) })
	f.settled(t)
	return f
}

// settled waits until every replica serves.
func (f *rig) settled(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, s := range f.Snapshots() {
			if !s.State.Routable() || s.Suspect {
				return false
			}
		}
		return true
	}, time.Minute, time.Millisecond)
}

// answer is what a client got.
type answer struct {
	ids      []uint32
	logprobs int
	text     string
	finish   stream.Finish
	usage    stream.Usage
	err      error
}

func (f *rig) ask(ctx context.Context, req *stream.Request) answer {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	one := *req
	one.Arrival = time.Now()
	r := f.Submit(&one)
	defer r.Cancel()
	var a answer
	var text strings.Builder
	for {
		d, err := r.Next(ctx)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				a.err = err
			}
			a.text, a.usage = text.String(), r.Usage()
			// They depend on where it was routed, and vLLM tells them at the end: of a stream that broke off nobody knows.
			a.usage.CachedTokens, a.usage.CachedKnown = 0, false
			return a
		}
		for _, e := range d.Entries {
			a.ids = append(a.ids, e.ID)
			text.WriteString(e.Text)
			if e.Logprob != nil {
				a.logprobs++
			}
		}
		if d.Finish != nil {
			text.WriteString(d.Finish.Text)
			a.finish = *d.Finish
		}
	}
}

// question is a greedy request, so that its answer is known.
func question(number int) *stream.Request {
	zero, most, top := 0.0, 24, 1
	return &stream.Request{
		ID: "test", Model: simmodel.Name, N: 1, MaxTokens: &most, MinTokens: 20, TopLogprobs: &top, Stop: []string{"zzz"},
		Sampling: engine.Sampling{Temperature: &zero}, SkipSpecialTokens: true,
		Input: stream.Input{Texts: []string{strconv.Itoa(number) + ". Tell me about the harbour."}},
	}
}

// TestHowAServerEndsAStream: in every way, over both routes, at several tokens, the client gets the whole answer.
func TestHowAServerEndsAStream(t *testing.T) {
	req := question(0)
	for _, api := range []vllm.API{vllm.APICompletions, vllm.APIGenerate} {
		begin := func(t *testing.T, waits patience) (*rig, answer) {
			t.Helper()
			f := startFleetOf(t, api, waits)
			want := f.ask(t.Context(), req)
			require.NoError(t, want.err)
			require.GreaterOrEqual(t, len(want.ids), 20)
			require.Equal(t, len(want.ids), want.logprobs)
			return f, want
		}
		try := func(t *testing.T, f *rig, want answer, h harm, frames int) {
			t.Helper()
			f.settled(t)
			before := f.plan.count()
			f.plan.set(h, frames)
			got := f.ask(t.Context(), req)
			require.Equal(t, before+1, f.plan.count(), "no harm was done")
			require.Equal(t, want, got, fmt.Sprintf("%s after %d frames", h, frames))
		}
		t.Run(string(api), func(t *testing.T) {
			f, want := begin(t, long())
			for _, h := range inStream() {
				for _, frames := range []int{0, 1, 2, 11, 19} {
					if h != silence {
						try(t, f, want, h, frames)
					}
				}
			}
			for _, h := range refusals() {
				try(t, f, want, h, 0)
			}
		})
		t.Run(string(api)+", silence", func(t *testing.T) { // which only the time shows
			f, want := begin(t, short())
			for _, frames := range []int{0, 1, 2, 11, 19} {
				try(t, f, want, silence, frames)
			}
		})
	}
}
