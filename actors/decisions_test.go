package actors

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/explain"
	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
	"plimsoll/engine/sim"
	"plimsoll/scoring/policy"
	"plimsoll/tokenizer/simmodel"
)

// remembering is a fleet whose decisions are remembered, with shadows.
func remembering(t *testing.T, replicas int, shadows ...string) *rig {
	t.Helper()
	return startFleet(t, fleetConfig{replicas: replicas, profile: sim.DefaultConfig(), speed: 1, adjust: func(c *Config) {
		decisions := explain.DefaultConfig()
		c.Decisions = &decisions
		for _, name := range shadows {
			cfg := policy.DefaultConfig()
			cfg.Name = name
			c.Models[0].Shadows = append(c.Models[0].Shadows, cfg)
		}
	}})
}

// TestDecisionsOfRealActors: every request of a burst is remembered with what was decided, predicted and came, held ones with
// their holds; the shadows were asked each time. In a bubble, on a virtual clock.
func TestDecisionsOfRealActors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := remembering(t, 3, "round-robin", "lmetric")
		f.taught(t)
		rng := newRand(5)
		prompts := make([][]uint32, 3)
		for i := range prompts {
			prompts[i] = randomPrompt(rng, 16000)
		}
		const requests = 30
		all := make([]*stream.Response, requests)
		for i := range all {
			if i == len(prompts) {
				time.Sleep(time.Millisecond) // virtual: each prompt is computed somewhere, for long enough that those that follow wait for it
			}
			req := tokensRequest(prompts[i%3], 20)
			req.ID = fmt.Sprint("burst-", i)
			all[i] = f.Submit(req)
		}
		for _, r := range all {
			require.NoError(t, readAll(t.Context(), r, 1).err)
		}
		f.quiet(t)
		synctest.Wait()
		held, judged, looks, off := 0, 0, 0, 0.0
		for i, r := range all {
			found := f.DecisionsOf(fmt.Sprint("burst-", i))
			require.Len(t, found, 1)
			d := found[0]
			require.Equal(t, explain.Done, d.State, d.Summary)
			require.Equal(t, r.Replicas(), []string{d.Replica})
			require.Equal(t, 16000, d.PromptTokens)
			require.Len(t, d.Shadows, 2*len(d.Looks))
			require.InDelta(t, *d.Came.FirstTokenSeconds, *d.Came.StartSeconds+*d.Came.PrefillSeconds, 1e-6)
			require.InDelta(t, *d.Predicted.FirstTokenSeconds, *d.Predicted.StartSeconds+*d.Predicted.PrefillSeconds, 1e-6)
			off = max(off, math.Abs(*d.Came.FirstTokenSeconds-*d.Predicted.FirstTokenSeconds))
			require.Positive(t, *d.Came.StepSeconds)
			require.Equal(t, 20, *d.Came.OutputTokens)
			looks += len(d.Looks)
			for _, look := range d.Looks {
				require.Len(t, look.Candidates, 3)
			}
			if len(d.Holds) > 0 {
				held++
				require.InDelta(t, *d.WaitedSeconds, d.Holds[len(d.Holds)-1].AfterSeconds+d.Holds[len(d.Holds)-1].Seconds, 0.01)
			}
			if d.SavedSeconds != nil {
				judged++
				require.NotEmpty(t, d.Holds, "what saves or loses time is a wait for somebody better")
			}
		}
		t.Logf("%d of %d held, and of %d of them is known what that saved or lost; first tokens off by %.3f s at most", held, requests, judged, off)
		require.Positive(t, held)
		require.Positive(t, judged)
		require.Len(t, f.Decisions(7), 7)
		require.Equal(t, "burst-", f.Decisions(1)[0].Request[:6])
		for _, name := range []string{"round-robin", "lmetric"} {
			asked := 0
			for _, outcome := range []string{"agree", "differ", "dispatch", "hold", "refuse"} {
				asked += f.metric(t, "plimsoll_router_shadow_decisions_total{", fmt.Sprintf("outcome=%q,policy=%q", outcome, name))
			}
			require.GreaterOrEqual(t, asked, looks)
			require.Zero(t, f.metric(t, "plimsoll_router_shadow_decisions_total{", fmt.Sprintf("outcome=%q,policy=%q", "dropped", name)))
		}
	})
}

// TestSupposeOnRealActors: a text, a chat and tokens; nothing is booked on their account, and mistakes are said.
func TestSupposeOnRealActors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := remembering(t, 2)
		for _, in := range []stream.Input{
			{Texts: []string{"once upon a time"}}, {Tokens: [][]uint32{{1, 2, 3}}}, chatRequest("hello", 5).Input,
		} {
			r, err := f.Suppose(t.Context(), &stream.Request{Model: simmodel.Name, Arrival: time.Now(), N: 1, Input: in})
			require.NoError(t, err)
			require.Contains(t, r.Summary, "would go to sim-")
			require.Equal(t, "hypothetical", r.Kind)
			require.Positive(t, r.PromptTokens)
		}
		r, err := f.Suppose(t.Context(), &stream.Request{Arrival: time.Now(), N: 1, Input: stream.Input{Tokens: [][]uint32{make([]uint32, 1<<20)}}})
		require.NoError(t, err, "the only model needs no name")
		require.Contains(t, r.Summary, "would be refused (too large)")
		_, err = f.Suppose(t.Context(), &stream.Request{Model: "none", N: 1, Input: stream.Input{Tokens: [][]uint32{{1}}}})
		require.Equal(t, fault.ModelNotFound, fault.Of(err).Kind)
		_, err = f.Suppose(t.Context(), &stream.Request{N: 1, Input: stream.Input{Tokens: [][]uint32{{}}}})
		require.Equal(t, fault.BadInput, fault.Of(err).Kind)
		_, err = f.Suppose(t.Context(), &stream.Request{N: 1, Input: stream.Input{Tokens: [][]uint32{{1, 1 << 31, 2}}}})
		require.Equal(t, fault.BadInput, fault.Of(err).Kind)
		require.ErrorContains(t, err, "the vocabulary ends at")
		require.Empty(t, f.Decisions(10))
		f.quiet(t)
	})
}

// lockedText is a log that is read while it is written.
type lockedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestNothingIsRememberedUnlessAsked, and what only the log wants goes there.
func TestNothingIsRememberedUnlessAsked(t *testing.T) {
	f := startFleet(t, fleetConfig{replicas: 1, profile: sim.TinyConfig(), speed: 1})
	require.NoError(t, readAll(t.Context(), f.Submit(chatRequest("hello", 2)), 1).err)
	require.Empty(t, f.Decisions(10))
	require.Nil(t, f.models[0].watch)

	synctest.Test(t, func(t *testing.T) {
		var text lockedText
		f := startFleet(t, fleetConfig{
			replicas: 1, profile: sim.TinyConfig(), speed: 1,
			log: slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		require.NoError(t, readAll(t.Context(), f.Submit(chatRequest("hello", 2)), 1).err)
		synctest.Wait()
		require.Contains(t, text.String(), "msg=decision request=test leg=0 table=\"dispatch")
		require.Empty(t, f.Decisions(10))
		require.NotContains(t, strings.ToLower(text.String()), "hello", "prompts are not logged")
	})
}
