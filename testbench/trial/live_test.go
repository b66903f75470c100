package trial_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/trace"
	"plimsoll/testbench/trial"
)

// asked is what a server was asked for.
type asked struct {
	Prompt    []uint32 `json:"prompt"`
	MaxTokens int      `json:"max_tokens"`
	IgnoreEOS bool     `json:"ignore_eos"`
	Model     string   `json:"model"`
	Session   string   `json:"prompt_cache_key"`
	key       string
}

// server answers at once, but for each fourth request, which it turns away.
type server struct {
	mu   sync.Mutex
	seen []asked
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var a asked
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a.key = r.Header.Get("Authorization")
	s.mu.Lock()
	s.seen = append(s.seen, a)
	n := len(s.seen)
	s.mu.Unlock()
	if n%4 == 0 {
		http.Error(w, "busy", http.StatusTooManyRequests)
		return
	}
	w.Header().Set("X-Plimsoll-Replica", fmt.Sprintf("r%d", n%2))
	for range a.MaxTokens {
		_, _ = fmt.Fprint(w, `data: {"choices":[{"text":"a"}]}`+"\n\n")
	}
	_, _ = fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", fmt.Sprintf(
		`{"choices":[{"text":"","finish_reason":"length"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":16}}}`,
		len(a.Prompt), a.MaxTokens))
}

func TestLiveMeasuresWhatClientsSee(t *testing.T) {
	s := &server{}
	web := httptest.NewServer(s)
	defer web.Close()
	target := trial.DefaultTarget(web.URL, trace.AgentsName)
	target.Traffic.Requests, target.Traffic.Squeeze, target.Speed = 40, 16, 50
	target.Model, target.Key, target.Keep = "m", "secret", true
	target.SLO.TTFT, target.SLO.TPOT = time.Hour, time.Hour // all that is answered is good, on a busy machine too
	told := 0
	r, err := trial.Live(t.Context(), target, web.Client(), func(trial.Progress) { told++ })
	require.NoError(t, err)
	require.Equal(t, 40, told)
	sum := r.Runs[0].Summary
	require.Equal(t, 40, sum.Requests)
	require.Equal(t, 10, sum.Refused)
	require.InDelta(t, 0.75, sum.Good, 1e-9)
	require.Contains(t, r.Head(), web.URL)
	require.Contains(t, r.Table(), "live")
	require.NotNil(t, r.Runs[0].LateP99)
	page, err := trial.Page(r, time.Unix(0, 0))
	require.NoError(t, err)
	require.Contains(t, string(page), "Time to first token")

	source, err := trace.Generate(trace.AgentsName, 1)
	require.NoError(t, err)
	list, err := trace.Take(source, 40)
	require.NoError(t, err)
	list, err = trace.Squeeze(list, 16)
	require.NoError(t, err)
	lengths := map[int]int{}
	for _, x := range list {
		lengths[x.PromptTokens]++
	}
	for _, a := range s.seen {
		require.Equal(t, "m", a.Model)
		require.Equal(t, "Bearer secret", a.key)
		require.True(t, a.IgnoreEOS)
		require.NotEmpty(t, a.Session)
		lengths[len(a.Prompt)]--
		for _, id := range a.Prompt {
			require.Less(t, id, target.VocabSize)
		}
	}
	for n, left := range lengths {
		require.Zero(t, left, "prompts of %d tokens", n)
	}
}

func TestLiveEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // before that a server does not see that its client has left
		cancel()
		<-r.Context().Done()
	}))
	defer web.Close()
	r, err := trial.Live(ctx, trial.DefaultTarget(web.URL, trace.HeavyMixName), web.Client(), func(trial.Progress) {})
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, r, "nothing had ended")
	require.ErrorContains(t, err, "when 0 of ")
}

// TestLiveTellsWhatHadEnded before it was interrupted, and nothing of what was cut by that.
func TestLiveTellsWhatHadEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &server{}
	var mu sync.Mutex
	ended := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		hangs := ended >= 7
		mu.Unlock()
		if !hangs {
			s.ServeHTTP(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
	}))
	defer web.Close()
	target := trial.DefaultTarget(web.URL, trace.AgentsName)
	target.Traffic.Requests, target.Traffic.Squeeze, target.Speed, target.InFlightMax, target.Keep = 40, 16, 50, 1, true
	told := 0
	r, err := trial.Live(ctx, target, web.Client(), func(p trial.Progress) {
		mu.Lock()
		defer mu.Unlock()
		ended, told = p.Arrived, told+1
	})
	var cut *trial.InterruptedError
	require.ErrorAs(t, err, &cut)
	require.Equal(t, 7, cut.Ended)
	require.Equal(t, 40, cut.Requests)
	require.ErrorContains(t, err, "when 7 of 40 requests had ended")
	require.Equal(t, 7, told)
	sum := r.Runs[0].Summary
	require.Equal(t, 7, sum.Requests)
	require.Equal(t, 1, sum.Refused)
	require.Zero(t, sum.Failed)
	require.Len(t, r.Runs[0].Result.Samples, 7)
}

// TestLiveSaysWhyNothingWasMeasured: where all failed there are no figures, but a mistake.
func TestLiveSaysWhyNothingWasMeasured(t *testing.T) {
	target := trial.DefaultTarget("", trace.AgentsName)
	target.Traffic.Requests, target.Traffic.Squeeze, target.Speed = 5, 16, 50
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such key", http.StatusUnauthorized) }))
	target.URL = web.URL
	_, err := trial.Live(t.Context(), target, web.Client(), func(trial.Progress) {})
	require.ErrorContains(t, err, "failed all 5 requests; the first: status 401: no such key")
	web.Close()
	_, err = trial.Live(t.Context(), target, web.Client(), func(trial.Progress) {})
	require.ErrorContains(t, err, "connection refused")
}

func TestTargetsThatMakeNoSense(t *testing.T) {
	for want, change := range map[string]func(*trial.Target){
		"is no address":    func(x *trial.Target) { x.URL = "localhost:8080" },
		"must be above 0":  func(x *trial.Target) { x.Speed = 0 },
		"of an SLO":        func(x *trial.Target) { x.SLO.TPOT = 0 },
		"at least one req": func(x *trial.Target) { x.Traffic.Requests = 0 },
	} {
		x := trial.DefaultTarget("http://127.0.0.1:1", trace.AgentsName)
		change(&x)
		_, err := trial.Live(t.Context(), x, http.DefaultClient, nil)
		require.ErrorContains(t, err, want)
	}
}
