//go:build e2e

package vllm

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/e2e/rig"
)

const (
	kvTurns = 80
	// kvQuiet is how long no event may have come before the next request: a busy publisher lags up to 750 ms behind.
	kvQuiet = 900 * time.Millisecond
)

// predicted is one server whose events are on, and Plimsoll before it.
type predicted struct {
	url    string
	engine *engineServer
}

// TestPredictsCachedTokens talks to a real server with a cache of 71 blocks that competing conversations overflow all the
// time. With its events applied, what Plimsoll predicts to be cached is what the server then says, request for request,
// also after its cache was reset and after it was restarted on the same port.
func TestPredictsCachedTokens(t *testing.T) {
	folder := modelDir(t)
	t.Setenv("BLOCKS", "72")              // the longest sequence, 2,048 tokens, has to fit
	t.Setenv("VLLM_SERVER_DEV_MODE", "1") // for POST /reset_prefix_cache
	events := `{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:0","replay_endpoint":"tcp://*:0"}`
	f := &predicted{engine: startEngine(t, "k", "--kv-events-config", events)}
	f.engine.await(t)
	f.url = rig.StartPlimsoll(t, "--tokenizer", folder, "--replica", fmt.Sprintf("vllm=%s,name=k,slots=16", f.engine.url))
	f.live(t)
	rng := rand.New(rand.NewPCG(1, 1))
	known := talk(t, rng, f, kvTurns)

	// An idle server tells of a reset with the next request only: that one is predicted from what was.
	require.Contains(t, string(rig.Exchange(t, http.MethodPost, f.engine.url+"/reset_prefix_cache", nil)), "true")
	f.ask(t, []rig.Message{rig.User("First after the reset.")}, false)
	f.quiet(t)
	rig.Eventually(t, rig.Patience, "the index has heard of the reset", func() bool { // a gauge that is set once a second
		return rig.Metric(t, f.url, "plimsoll_kvfeed_indexed_blocks") < 8
	})
	require.Zero(t, f.ask(t, known, true).CachedTokens, "what was known before is gone, and was not predicted")
	talk(t, rng, f, kvTurns/4)

	at, err := url.Parse(f.engine.url)
	require.NoError(t, err)
	orphans := f.engine.Descendants()
	t.Cleanup(func() { rig.EndAll(orphans) })
	f.engine.Kill()
	rig.EndAll(orphans)
	rig.Eventually(t, rig.Patience, "the death is noticed", func() bool { return rig.Status(t, f.url+"/ready") == http.StatusServiceUnavailable })
	f.engine = startEngineAt(t, at.Port(), "k", "--kv-events-config", events)
	f.engine.await(t)
	rig.Eventually(t, rig.Patience, "it serves again", func() bool { return rig.Status(t, f.url+"/ready") == http.StatusOK })
	f.live(t)
	require.Zero(t, f.ask(t, known, true).CachedTokens, "another life")
	talk(t, rng, f, kvTurns/4)
	require.Zero(t, rig.Metric(t, f.url, "plimsoll_kvfeed_audit_voids_total"))
}

// live waits until the index is exact.
func (f *predicted) live(t *testing.T) {
	t.Helper()
	rig.Eventually(t, rig.Patience, "the index is live", func() bool {
		return rig.Metric(t, f.url, `plimsoll_kvfeed_index_state{replica="k",state="live"}`) == 1
	})
}

// talk has random turns of conversations that compete for the cache, and returns the last of what was asked.
func talk(t *testing.T, rng *rand.Rand, f *predicted, turns int) (last []rig.Message) {
	t.Helper()
	talks := make([][]rig.Message, 8)
	hits, cached := 0, 0
	for range turns {
		i := rng.IntN(len(talks))
		if len(talks[i]) > 8 || len(talks[i]) == 0 {
			talks[i] = []rig.Message{{Role: "system", Content: strings.Repeat("Be brief and kind. ", rng.IntN(3)*6)}}
		}
		words := make([]string, 5+rng.IntN(90))
		for w := range words {
			words[w] = []string{"crane", "quay", "pilot", "grain", "lighthouse", "tide", "rope"}[rng.IntN(7)]
		}
		talks[i] = append(talks[i], rig.User(strings.Join(words, " ")))
		a := f.ask(t, talks[i], true)
		talks[i] = append(talks[i], rig.Assistant(a.Text))
		if last = talks[i]; a.CachedTokens > 0 {
			hits++
			cached += a.CachedTokens
		}
	}
	t.Logf("%d requests predicted exactly; %d of them hit the cache, %d tokens in all; %.0f removals so far",
		turns, hits, cached, rig.Metric(t, f.url, `plimsoll_kvfeed_events_total{event="removed",replica="k"}`))
	require.Greater(t, hits, turns/5)
	return last
}

// ask sends one request once all events of those before have come, and compares what was predicted with what came.
func (f *predicted) ask(t *testing.T, messages []rig.Message, exact bool) rig.Answer {
	t.Helper()
	const (
		guess   = "plimsoll_kvfeed_predicted_cached_tokens_total"
		told    = "plimsoll_kvfeed_reported_cached_tokens_total"
		audited = "plimsoll_kvfeed_overprediction_tokens_count"
	)
	f.quiet(t)
	read := func(name string) float64 { return rig.Metric(t, f.url, name) }
	before := [...]float64{read(guess), read(told), read(audited)}
	a, err := rig.Chat(t.Context(), f.url, rig.ChatOf(model, 8+len(messages)*3, messages...), nil)
	require.NoError(t, err)
	rig.Eventually(t, rig.Patience, "the request is audited", func() bool { return read(audited) == before[2]+1 })
	require.InDelta(t, float64(a.CachedTokens), read(told)-before[1], 0, "the engine's figure")
	if exact {
		require.InDelta(t, float64(a.CachedTokens), read(guess)-before[0], 0, "predicted, of %d prompt tokens", a.PromptTokens)
	}
	return a
}

// quiet waits until no events have come for a while.
func (f *predicted) quiet(t *testing.T) {
	t.Helper()
	count, since := -1.0, time.Now()
	rig.Eventually(t, rig.Patience, "the events have all come", func() bool {
		if n := rig.Metric(t, f.url, "plimsoll_kvfeed_events_total"); n != count {
			count, since = n, time.Now()
		}
		return time.Since(since) > kvQuiet
	})
}
