package load_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/load"
)

// server answers under the bubble's clock. One request at a time: the next one waits.
type server struct {
	turn   chan struct{}
	answer func(n int) (status int, frames []string)
	served int
	open   chan struct{} // holds one for each call under way

	mu     sync.Mutex
	most   int // guarded by mu: calls under way at once
	writes sync.WaitGroup
}

func newServer(answer func(n int) (int, []string)) *server {
	return &server{turn: make(chan struct{}, 1), answer: answer, open: make(chan struct{}, 1000)}
}

// wait is what a frame's reader waits before it comes.
const wait = 100 * time.Millisecond

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.open <- struct{}{}
	s.mu.Lock()
	s.most = max(s.most, len(s.open))
	s.mu.Unlock()
	select {
	case s.turn <- struct{}{}:
	case <-r.Context().Done():
		<-s.open
		return nil, r.Context().Err()
	}
	s.served++
	status, frames := s.answer(s.served)
	out, in := io.Pipe()
	context.AfterFunc(r.Context(), func() { _ = out.CloseWithError(r.Context().Err()) })
	s.writes.Go(func() {
		for _, f := range frames {
			time.Sleep(wait) // virtual
			_, _ = fmt.Fprintf(in, "data: %s\n\n", f)
		}
		<-s.turn
		<-s.open
		_ = in.Close()
	})
	return &http.Response{StatusCode: status, Header: http.Header{"X-Plimsoll-Replica": {"a"}}, Body: out, Request: r}, nil
}

func whole(int) (int, []string) {
	return 200, []string{
		`{"choices":[{"text":"a","finish_reason":null}]}`, `{"choices":[{"text":"b","finish_reason":null}]}`,
		`{"choices":[{"text":"c","finish_reason":"length"}]}`,
		`{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}`, `[DONE]`,
	}
}

func calls(n int, every time.Duration) []load.Call {
	list := make([]load.Call, n)
	for i := range list {
		list[i] = load.Call{At: time.Duration(i) * every, Body: func() []byte { return []byte("{}") }}
	}
	return list
}

func run(t *testing.T, s *server, inFlight int, list []load.Call) []load.Sample {
	t.Helper()
	cfg := load.Config{URL: "http://sim/v1/completions", InFlightMax: inFlight, Timeout: time.Minute}
	samples, err := load.Run(t.Context(), cfg, &http.Client{Transport: s}, list)
	require.NoError(t, err)
	require.Len(t, samples, len(list))
	s.writes.Wait()
	return samples
}

// TestTimesCountFromWhenACallWasDue: a server that takes 500 ms for a call, one at a time, and gets one every 100 ms falls
// behind by 400 ms with each; the calls are sent all the same and show it, whether they wait there or for a place here.
func TestTimesCountFromWhenACallWasDue(t *testing.T) {
	for _, inFlight := range []int{100, 2} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(whole)
			samples := run(t, s, inFlight, calls(10, wait))
			for i := range samples {
				got := &samples[i]
				require.NoError(t, got.Err)
				require.Equal(t, wait+time.Duration(i)*4*wait, got.TTFT(), "call %d", i)
				tpot, ok := got.TPOT()
				require.True(t, ok)
				require.Equal(t, wait, tpot)
				require.Equal(t, [3]int{7, 4, 3}, [3]int{got.PromptTokens, got.CachedTokens, got.CompletionTokens})
				require.Equal(t, "a", got.Replica)
				if inFlight == 100 {
					require.Equal(t, got.At, got.Sent)
				}
			}
			require.LessOrEqual(t, s.most, inFlight)
		})
	}
}

func TestWhatIsNoWholeAnswer(t *testing.T) {
	for want, frames := range map[string][]string{
		"without a finish": {`{"choices":[{"text":"a","finish_reason":null}]}`, `[DONE]`},
		"its usage":        {`{"choices":[{"text":"a","finish_reason":"stop"}]}`, `[DONE]`},
		"error frame":      {`{"choices":[{"text":"a","finish_reason":null}]}`, `{"error":{"code":500}}`, `[DONE]`},
		"is no JSON":       {`{"choices`},
	} {
		synctest.Test(t, func(t *testing.T) {
			got := run(t, newServer(func(int) (int, []string) { return 200, frames }), 1, calls(1, 0))
			require.ErrorContains(t, got[0].Err, want)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		got := run(t, newServer(func(int) (int, []string) { return 429, []string{"full"} }), 1, calls(1, 0))
		require.ErrorContains(t, got[0].Err, "status 429: data: full")
		_, ok := got[0].TPOT()
		require.False(t, ok)
	})
}

func TestTheEndOfTheContextEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 250*time.Millisecond, errors.New("enough"))
		defer cancel()
		cfg := load.Config{URL: "http://sim/", InFlightMax: 9, Timeout: time.Minute}
		s := newServer(whole)
		samples, err := load.Run(ctx, cfg, &http.Client{Transport: s}, calls(5, wait))
		require.NoError(t, err)
		s.writes.Wait()
		for i := range samples {
			require.Error(t, samples[i].Err)
			require.True(t, samples[i].Cut)
		}
		require.Zero(t, samples[4].Sent)
	})
	_, err := load.Run(t.Context(), load.Config{}, http.DefaultClient, nil)
	require.ErrorContains(t, err, "InFlightMax")
}
