//go:build e2e

package llamacpp

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/llamacpp"
	"plimsoll/testbench/e2e/rig"
)

const model = "gemma-3-270m"

// fleet is what all parts of the test share.
type fleet struct {
	url  string
	a, b *engineServer
}

func (f *fleet) named(t *testing.T, name string) *engineServer {
	t.Helper()
	for _, e := range []*engineServer{f.a, f.b} {
		if e.name == name {
			return e
		}
	}
	t.Fatalf("no replica is called %q", name)
	return nil
}

// TestRealServers runs its parts in order; the last one kills a server.
func TestRealServers(t *testing.T) {
	tokenizer := tokenizerDir(t.Context(), t)
	f := &fleet{a: startEngine(t, "a"), b: startEngine(t, "b")}
	f.url = startPlimsoll(t, tokenizer, f.a, f.b)
	t.Run("the prompt's IDs are the engine's own", f.promptIDs)
	t.Run("turns go back to the replica that holds the turn before", f.turns)
	t.Run("chats at once use both replicas", f.spread)
	t.Run("a client that leaves frees its slot", f.abort)
	t.Run("the adapter alone", f.adapter)
	t.Run("a killed server", f.killed)
}

func (f *fleet) promptIDs(t *testing.T) {
	for name, messages := range map[string][]rig.Message{
		"one question":   {rig.User("Hi")},
		"system":         {{Role: "system", Content: "Be brief."}, rig.User("2+2?")},
		"several turns":  {rig.User("Hi"), rig.Assistant("Hello!"), rig.User("What is 2+2?"), rig.Assistant("4"), rig.User("And 3+3?")},
		"space to trim":  {rig.User("  \n two  spaces \t inside \n\n")},
		"scripts":        {rig.User("naïve 你好 Привет مرحبا שלום ไทย 한국어 🙂👩‍👩‍👧 ﷽")},
		"code":           {rig.User("func main() {\n\tfmt.Println(\"x\\n\")\n}\n\n\n# end")},
		"numbers":        {rig.User("1234567890 3.14159 1e-9 0xFF")},
		"special tokens": {rig.User("what is <start_of_turn> or <bos>?")},
		"long":           {rig.User(strings.Repeat("All work and no play makes Jack a dull boy. ", 40))},
	} {
		t.Run(name, func(t *testing.T) {
			var rendered struct{ Prompt string }
			require.NoError(t, json.Unmarshal(rig.Exchange(t, http.MethodPost, f.a.url+"/apply-template", map[string]any{"messages": messages}), &rendered))
			var engines, ours struct{ Tokens []uint32 }
			require.NoError(t, json.Unmarshal(rig.Exchange(t, http.MethodPost, f.a.url+"/tokenize",
				map[string]any{"content": rendered.Prompt, "add_special": true}), &engines))
			require.NoError(t, json.Unmarshal(rig.Exchange(t, http.MethodPost, f.url+"/tokenize",
				map[string]any{"model": model, "messages": messages}), &ours))
			require.NotEmpty(t, engines.Tokens)
			require.Equal(t, engines.Tokens, ours.Tokens, "%q", rendered.Prompt)
		})
	}
}

// themes begin conversations that share nothing.
func themes() []string {
	return []string{
		"The harbour at dawn is busy. Cranes lift containers from the decks of tall ships while small boats carry pilots out to sea. ",
		"Bread needs four things: flour, water, salt and time. A baker mixes them in the evening and lets the dough rest all night. ",
		"Rain fell on the old town for nine days. On the tenth the river stood at the second step of the church and went no higher. ",
		"A violin has about seventy parts. The top is made of spruce, the back of maple, and the bow of wood from far away. ",
	}
}

// turns begins with short chats and long answers, when nothing is known yet of either server: there the prefix saves least
// beside what a wrong guess of their speeds would cost.
func (f *fleet) turns(t *testing.T) {
	for i, theme := range themes() {
		repeats, maxTokens := 3, 48
		if i >= 2 {
			repeats, maxTokens = 12, 24
		}
		first := rig.User(strings.Repeat(theme, repeats) + "What is this about?")
		one, err := rig.Chat(t.Context(), f.url, rig.ChatOf(model, maxTokens, first), nil)
		require.NoError(t, err)
		two, err := rig.Chat(t.Context(), f.url, rig.ChatOf(model, maxTokens, first, rig.Assistant(one.Text), rig.User("Tell me more.")), nil)
		require.NoError(t, err)
		for turn, a := range []rig.Answer{one, two} {
			t.Logf("chat %d turn %d: replica %s, %d prompt tokens, %d cached, first token after %v",
				i+1, turn+1, a.Replica, a.PromptTokens, a.CachedTokens, a.FirstTokenAfter.Round(time.Millisecond))
			require.NotEmpty(t, a.Finish)
			require.Positive(t, a.CompletionTokens)
		}
		require.Equal(t, one.Replica, two.Replica, "chat %d", i+1)
		require.Greater(t, two.CachedTokens, one.PromptTokens/2, "the second turn's prompt repeats the first")
	}
}

func (f *fleet) spread(t *testing.T) {
	var mu sync.Mutex
	served := map[string]int{}
	var running sync.WaitGroup
	for i := range 6 {
		running.Go(func() {
			a, err := rig.Chat(t.Context(), f.url, rig.ChatOf(model, 16, rig.User(fmt.Sprintf("%d is a number. Which one comes after it?", i))), nil)
			if err != nil {
				t.Errorf("chat %d: %v", i, err)
			}
			mu.Lock()
			defer mu.Unlock()
			served[a.Replica]++
		})
	}
	running.Wait()
	t.Logf("chats a replica: %v", served)
	require.Positive(t, served["a"])
	require.Positive(t, served["b"])
}

const (
	requestsProcessing = "llamacpp:requests_processing"
	tokensPredicted    = "llamacpp:tokens_predicted_total"
)

func (f *fleet) abort(t *testing.T) {
	const wanted = 700
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	body := rig.ChatOf(model, wanted, rig.User("Count as far as you can."))
	body.IgnoreEOS = true
	var served *engineServer
	var before float64
	_, err := rig.Chat(ctx, f.url, body, func(replica string) {
		if served != nil {
			return
		}
		served = f.named(t, replica)
		before = rig.Metric(t, served.url, tokensPredicted)
		require.InDelta(t, 1, rig.Metric(t, served.url, requestsProcessing), 0, "it runs before the client leaves")
		leave()
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NotNil(t, served)
	rig.Eventually(t, rig.Patience, "the slot is free", func() bool { return rig.Metric(t, served.url, requestsProcessing) == 0 })
	require.Less(t, rig.Metric(t, served.url, tokensPredicted)-before, wanted/2.0, "the answer was cut, not generated to its end")
	rig.Eventually(t, rig.Patience, "nothing is booked", func() bool { return rig.Metric(t, f.url, "plimsoll_replica_booked_blocks") == 0 })
}

// openAdapter returns the adapter for a server, closed with the test.
func openAdapter(t *testing.T, e *engineServer) *llamacpp.Engine {
	t.Helper()
	cfg := llamacpp.DefaultConfig()
	cfg.URL = e.url
	adapter, err := llamacpp.New(cfg, llamacpp.Deps{Dial: (&net.Dialer{}).DialContext, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, adapter.Close()) })
	return adapter
}

func (f *fleet) adapter(t *testing.T) {
	adapter := openAdapter(t, f.a)
	st, err := adapter.Probe(t.Context())
	require.NoError(t, err)
	require.Equal(t, model, st.Model)
	require.Equal(t, 4, *st.Seats)
	require.Equal(t, 1024, *st.SequenceTokens)
	require.NotEmpty(t, st.Incarnation)
	require.Zero(t, *st.Load.RunningSequences)
	require.Positive(t, *st.Load.Steps)
	other, err := openAdapter(t, f.b).Probe(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, st.Incarnation, other.Incarnation, "two processes")

	zero, top := 0.0, 3
	req := engine.Request{
		ID: "e2e", PromptTokens: []uint32{2, 818, 5279, 529, 7001, 563}, MaxTokens: 12, TopLogprobs: &top,
		Sampling: engine.Sampling{Temperature: &zero, LogitBias: map[uint32]float64{236743: -100}},
	}
	for round := range 2 {
		var tokens []engine.Token
		var cached int
		var finish *engine.Finish
		require.NoError(t, adapter.Generate(t.Context(), req, func(ev engine.Event) error {
			tokens = append(tokens, ev.Tokens...)
			if ev.CachedTokens != nil {
				cached = *ev.CachedTokens
			}
			finish = ev.Finish
			return nil
		}))
		require.Len(t, tokens, 12)
		require.Equal(t, engine.FinishLength, finish.Reason)
		require.Equal(t, []uint32{506, 5279, 529}, []uint32{tokens[0].ID, tokens[1].ID, tokens[2].ID}, "as recorded from this model")
		for _, token := range tokens {
			require.Len(t, token.Logprob.Top, top)
			require.Equal(t, token.ID, token.Logprob.Top[0].ID, "greedy")
		}
		if round == 1 {
			require.Positive(t, cached)
		}
	}

	req.PromptTokens = make([]uint32, 1024)
	for i := range req.PromptTokens {
		req.PromptTokens[i] = 818
	}
	err = adapter.Generate(t.Context(), req, func(engine.Event) error { return nil })
	require.Equal(t, engine.Client, engine.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "exceeds the available context size")
}

func (f *fleet) killed(t *testing.T) {
	body := rig.ChatOf(model, 200, rig.User("Tell a very long story about a lighthouse."))
	body.IgnoreEOS = true
	ctx, cancel := context.WithTimeout(t.Context(), 4*rig.Patience)
	defer cancel()
	var victim *engineServer
	cut, err := rig.Chat(ctx, f.url, body, func(replica string) {
		if victim == nil {
			victim = f.named(t, replica)
			victim.Kill()
		}
	})
	require.NotNil(t, victim)
	require.NoError(t, ctx.Err(), "the stream of a killed server hangs")
	t.Logf("the stream on the killed server %s: finish %q, %d tokens, error %v", victim.name, cut.Finish, cut.CompletionTokens, err)
	require.NoError(t, err, "the other server goes on with it")
	require.Equal(t, "length", cut.Finish)
	require.Equal(t, 200, cut.CompletionTokens)
	require.InDelta(t, 1, rig.Metric(t, f.url, "plimsoll_stream_breaks_total"), 0)
	for i := range 4 {
		a, err := rig.Chat(ctx, f.url, rig.ChatOf(model, 8, rig.User(fmt.Sprintf("Say the word number %d.", i))), nil)
		require.NoError(t, err, "request %d after the kill", i)
		require.NotEqual(t, victim.name, a.Replica)
		require.Equal(t, http.StatusOK, rig.Status(t, f.url+"/ready"), "the other replica serves")
	}
	failure := openAdapter(t, victim).Generate(t.Context(), engine.Request{PromptTokens: []uint32{2}, MaxTokens: 1}, func(engine.Event) error { return nil })
	require.Equal(t, engine.Refused, engine.KindOf(failure), "%v", failure)
}
