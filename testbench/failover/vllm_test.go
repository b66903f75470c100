package failover_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fleet"
	"plimsoll/actors/ingress"
	"plimsoll/actors/router"
	"plimsoll/engine/vllm"
	"plimsoll/testbench/fakeengine"
	"plimsoll/testbench/kvpub"
)

// questions is how many are asked at a time, so that every server gets some.
const questions = 2 * servers

// all asks all questions at once.
func (f *rig) all(t *testing.T) [questions]answer {
	t.Helper()
	var answers [questions]answer
	var running sync.WaitGroup
	for i := range answers {
		running.Go(func() { answers[i] = f.ask(t.Context(), question(i)) })
	}
	running.Wait()
	return answers
}

func (f *rig) state(i int) fleet.State { return f.Snapshots()[i].State }

// asked asks until something is so, and requires each answer to be the right one.
func (f *rig) asked(t *testing.T, want [questions]answer, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); {
		require.Equal(t, want, f.all(t))
		require.True(t, time.Now().Before(deadline), "it does not become so")
	}
	require.Equal(t, want, f.all(t))
}

// known is a server whose pace is known: it has answered enough. -1: there is none yet.
func (f *rig) known() int {
	return slices.IndexFunc(f.Snapshots(), func(s *fleet.Snapshot) bool { return s.StepP99 != nil })
}

// during lets a harm silence one stream, and has something done meanwhile.
func (f *rig) during(t *testing.T, want answer, frames int, struck func()) {
	t.Helper()
	before := f.plan.count()
	f.plan.set(silence, frames)
	got := make(chan answer, 1)
	go func() { got <- f.ask(t.Context(), question(0)) }()
	require.Eventually(t, func() bool { return f.plan.count() == before+1 }, time.Minute, time.Millisecond)
	struck()
	require.Equal(t, want, <-got)
}

// TestWhatVLLMDoes: what was seen of a real one (wire contract, A.2.5), one by one, before the adapter for it.
func TestWhatVLLMDoes(t *testing.T) {
	begin := func(t *testing.T, adjust ...func(*fakeengine.Config, *router.Config)) (*rig, [questions]answer) {
		t.Helper()
		f := startFleet(t, vllm.APICompletions, adjust...)
		want := f.all(t)
		for _, a := range want {
			require.NoError(t, a.err)
		}
		return f, want
	}
	t.Run("SIGTERM leaves open streams hanging, and refuses new ones", func(t *testing.T) {
		f, want := begin(t)
		f.during(t, want[0], 5, func() { // whichever it runs on, two still serve
			require.NoError(t, f.web[0].Listener.Close())
			f.web[0].CloseClientConnections()
		})
		f.asked(t, want, func() bool { return f.state(0) == fleet.Down })
	})
	t.Run("a draining one is healthy, takes a request and never answers it", func(t *testing.T) {
		f, want := begin(t)
		f.during(t, want[0], 0, func() {
			for _, web := range f.web {
				require.Equal(t, http.StatusOK, status(t, web.URL+"/health"))
			}
		})
	})
	t.Run("a hung core answers 200 everywhere", func(t *testing.T) {
		f, want := begin(t, func(_ *fakeengine.Config, c *router.Config) {
			c.Policy.Name = "round-robin" // what the others have in their caches, or were seen to do faster, is sent there, too
		})
		f.asked(t, want, func() bool { return f.known() >= 0 })
		victim := f.known()
		core := fakeengine.CoreHangs
		require.NoError(t, f.vllm[victim].SetFaults(fakeengine.Faults{Core: &core}))
		f.asked(t, want, func() bool { return f.state(victim) == fleet.Down })
		for _, path := range []string{"/health", "/v1/models", "/metrics"} {
			require.Equal(t, http.StatusOK, status(t, f.web[victim].URL+path), path)
		}
		require.NoError(t, f.vllm[victim].SetFaults(fakeengine.Faults{}))
		f.settled(t)
	})
	t.Run("a dead core answers 503 on /health alone", func(t *testing.T) {
		f, want := begin(t)
		core := fakeengine.CoreDead
		require.NoError(t, f.vllm[0].SetFaults(fakeengine.Faults{Core: &core}))
		f.asked(t, want, func() bool { return f.state(0) == fleet.Down })
		require.Equal(t, http.StatusServiceUnavailable, status(t, f.web[0].URL+"/health"))
		require.Equal(t, http.StatusOK, status(t, f.web[0].URL+"/metrics"))
	})
	t.Run("an orphan keeps the event port alive and answers replays", func(t *testing.T) {
		f, want := begin(t, func(c *fakeengine.Config, _ *router.Config) {
			events := kvpub.DefaultConfig()
			c.KVEvents = &events
		})
		orphan := f.vllm[0].KVEvents()
		require.NoError(t, orphan.AwaitSubscribers(t.Context(), 1))
		f.web[0].CloseClientConnections()
		require.NoError(t, f.web[0].Listener.Close())
		f.asked(t, want, func() bool { return f.state(0) == fleet.Down })
		requests := int(orphan.Stats().Requests) //nolint:gosec // few
		orphan.Skip(2)                           // a hole in what it publishes, for which it is asked
		orphan.PublishPayload([]byte{0x92, 0, 0x90})
		require.NoError(t, orphan.AwaitRequests(t.Context(), requests+1))
		f.asked(t, want, func() bool { return true })
		require.Equal(t, fleet.Down, f.state(0), "what its events say is no sign of life")
	})
}

func status(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close() //nolint:errcheck // only read from
	return resp.StatusCode
}

// TestAnErrorUnderStatus200: the client hears the status that the engine meant, streamed or not, and nobody else is asked.
func TestAnErrorUnderStatus200(t *testing.T) {
	f := startFleet(t, vllm.APICompletions)
	edge, err := ingress.New(ingress.DefaultConfig(), ingress.Deps{
		Front: f.System, Log: slog.New(slog.DiscardHandler), Metrics: f.meter.Handler(), Now: time.Now, NewID: func() string { return "id" },
	})
	require.NoError(t, err)
	for _, streamed := range []bool{true, false} {
		before := f.plan.count()
		f.plan.set(onlyError, 0)
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/completions",
			strings.NewReader(`{"prompt":[1,2,3],"max_tokens":5,"stream":`+strconv.FormatBool(streamed)+`}`))
		rec := httptest.NewRecorder()
		edge.ServeHTTP(rec, req)
		require.Equal(t, before+1, f.plan.count())
		require.Equal(t, http.StatusBadRequest, rec.Code, rec.Body)
		require.Equal(t, "application/json", rec.Header().Get("Content-Type"))
		var body struct{ Error struct{ Message string } }
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &body), rec.Body)
		require.Contains(t, body.Error.Message, "out of vocabulary")
	}
	for _, s := range f.Snapshots() {
		require.Zero(t, s.Strikes)
		require.Equal(t, fleet.Ready, s.State)
	}
}
