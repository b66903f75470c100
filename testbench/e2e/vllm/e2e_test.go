//go:build e2e

package vllm

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine"
	"plimsoll/engine/vllm"
	"plimsoll/testbench/e2e/rig"
)

const model = "tiny"

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

// TestRealServers runs its parts in order; the last one kills the servers.
func TestRealServers(t *testing.T) {
	folder := modelDir(t)
	f := &fleet{a: startEngine(t, "a"), b: startEngine(t, "b", "--enable-scale-out")}
	f.a.await(t)
	f.b.await(t)
	f.url = startPlimsoll(t, folder, f.a, f.b)
	t.Run("capacity is what the engine says, one block less", f.capacity)
	t.Run("the prompt's IDs are the engine's own", f.promptIDs)
	t.Run("a chat's text and usage are the engine's own", f.chats)
	t.Run("a further turn goes back to the replica that holds the one before", f.turns)
	t.Run("a client that leaves frees its seat", f.abort)
	t.Run("the adapter alone", f.adapter)
	t.Run("adapters are models", f.lora)
	t.Run("a chat that the engine renders", f.rendered)
	t.Run("a killed server", f.killed)
}

func (f *fleet) capacity(t *testing.T) {
	require.InDelta(t, 2*255, rig.Metric(t, f.url, "plimsoll_replica_capacity_blocks"), 0)
	require.InDelta(t, 2*16, rig.Metric(t, f.url, "plimsoll_replica_capacity_seats"), 0)
	for _, e := range []*engineServer{f.a, f.b} {
		st, err := openAdapter(t, e, vllm.APICompletions).Probe(t.Context())
		require.NoError(t, err)
		require.Equal(t, 255, *st.KVBlocks, "of 256, one is the null block")
		require.Equal(t, 32, *st.BlockTokens)
		require.Equal(t, 2048, *st.SequenceTokens)
		require.Equal(t, []string{"lora-a", "lora-b"}, st.Adapters)
		require.True(t, strings.HasPrefix(st.Incarnation, "start:"), st.Incarnation)
	}
}

// chats compares greedy answers through Plimsoll with those that the engine gives itself, from the same cache or none.
func (f *fleet) chats(t *testing.T) {
	for i, messages := range [][]rig.Message{
		{rig.User("Which port does the ship leave from?")},
		{{Role: "system", Content: "Be brief."}, rig.User("Grain: 你好 Привет 🙂")},
		{rig.User("One"), rig.Assistant("Two"), rig.User(strings.Repeat("Three and four. ", 40))},
	} {
		t.Run(fmt.Sprintf("chat %d", i+1), func(t *testing.T) {
			body := rig.ChatOf(model, 40, messages...)
			ours, err := rig.Chat(t.Context(), f.url, body, nil)
			require.NoError(t, err)
			body.Stream, body.StreamOptions = false, nil
			own := rig.As[struct {
				Choices []struct {
					Message      rig.Message `json:"message"`
					FinishReason string      `json:"finish_reason"`
				} `json:"choices"`
				Usage struct {
					PromptTokens     int `json:"prompt_tokens"`
					CompletionTokens int `json:"completion_tokens"`
				} `json:"usage"`
			}](t, rig.Exchange(t, http.MethodPost, f.a.url+"/v1/chat/completions", body))
			t.Logf("replica %s: %d prompt tokens, %d answered, first after %v: %q",
				ours.Replica, ours.PromptTokens, ours.CompletionTokens, ours.FirstTokenAfter.Round(time.Millisecond), ours.Text)
			require.Equal(t, own.Choices[0].Message.Content, ours.Text)
			require.Equal(t, own.Choices[0].FinishReason, ours.Finish)
			require.Equal(t, own.Usage.PromptTokens, ours.PromptTokens)
			require.Equal(t, own.Usage.CompletionTokens, ours.CompletionTokens)
		})
	}
}

func (f *fleet) turns(t *testing.T) {
	first := rig.User(strings.Repeat("A harbour has a crane, a quay and a pilot. ", 30) + "What has it?")
	one, err := rig.Chat(t.Context(), f.url, rig.ChatOf(model, 24, first), nil)
	require.NoError(t, err)
	two, err := rig.Chat(t.Context(), f.url, rig.ChatOf(model, 24, first, rig.Assistant(one.Text), rig.User("Tell me more.")), nil)
	require.NoError(t, err)
	t.Logf("turn 1: replica %s, %d tokens, %d cached; turn 2: replica %s, %d tokens, %d cached",
		one.Replica, one.PromptTokens, one.CachedTokens, two.Replica, two.PromptTokens, two.CachedTokens)
	require.Equal(t, one.Replica, two.Replica)
	require.GreaterOrEqual(t, two.CachedTokens, one.PromptTokens/32*32-32)
}

const (
	running   = "vllm:num_requests_running"
	generated = "vllm:generation_tokens_total"
)

func (f *fleet) abort(t *testing.T) {
	const wanted = 1500
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
		before = rig.Metric(t, served.url, generated)
		require.InDelta(t, 1, rig.Metric(t, served.url, running), 0, "it runs before the client leaves")
		leave()
	})
	require.ErrorIs(t, err, context.Canceled)
	left := time.Now()
	require.NotNil(t, served)
	rig.Eventually(t, rig.Patience, "the seat is free", func() bool { return rig.Metric(t, served.url, running) == 0 })
	t.Logf("the running gauge fell %v after the client left", time.Since(left).Round(time.Millisecond))
	require.Less(t, rig.Metric(t, served.url, generated)-before, wanted/2.0, "the answer was cut, not generated to its end")
	rig.Eventually(t, rig.Patience, "nothing is booked", func() bool { return rig.Metric(t, f.url, "plimsoll_replica_booked_blocks") == 0 })
}

// heard is what one call of an adapter gave.
type heard struct {
	tokens []engine.Token
	cached int
	finish engine.FinishReason
}

func (h heard) ids() []uint32 {
	out := make([]uint32, len(h.tokens))
	for i, token := range h.tokens {
		out[i] = token.ID
	}
	return out
}

func (h heard) text() string {
	var text strings.Builder
	for _, token := range h.tokens {
		text.WriteString(*token.Text)
	}
	return text.String()
}

func generate(ctx context.Context, e *vllm.Engine, req engine.Request) (h heard, err error) {
	err = e.Generate(ctx, req, func(ev engine.Event) error {
		h.tokens = append(h.tokens, ev.Tokens...)
		if ev.CachedTokens != nil {
			h.cached = *ev.CachedTokens
		}
		if ev.Finish != nil {
			h.finish = ev.Finish.Reason
		}
		return nil
	})
	return h, err
}

// prompt is one of n tokens.
func prompt(n int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = uint32(300 + (i*37)%3000)
	}
	return ids
}

func (f *fleet) adapter(t *testing.T) {
	zero, top := 0.0, 3
	req := engine.Request{
		ID: "e2e", PromptTokens: prompt(70), MaxTokens: 12, TopLogprobs: &top, EndTokens: []uint32{4089},
		Sampling: engine.Sampling{Temperature: &zero, LogitBias: map[uint32]float64{2222: -100}},
	}
	answers := map[vllm.API]heard{}
	for api, e := range map[vllm.API]*engineServer{vllm.APICompletions: f.a, vllm.APIGenerate: f.b} {
		adapter := openAdapter(t, e, api)
		for round := range 2 {
			h, err := generate(t.Context(), adapter, req)
			require.NoError(t, err)
			require.Len(t, h.tokens, 12)
			require.Equal(t, engine.FinishLength, h.finish)
			for _, token := range h.tokens {
				require.Len(t, token.Logprob.Top, top)
				require.Equal(t, token.ID, token.Logprob.Top[0].ID, "greedy")
				require.Nil(t, token.Text)
			}
			if round == 1 {
				require.Equal(t, 64, h.cached, "two whole blocks of 32")
			}
			answers[api] = h
		}
		salted := req
		salted.CacheSalt = "another tenant"
		h, err := generate(t.Context(), adapter, salted)
		require.NoError(t, err)
		require.Zero(t, h.cached)

		ended := req
		ended.EndTokens = []uint32{answers[api].tokens[4].ID}
		h, err = generate(t.Context(), adapter, ended)
		require.NoError(t, err)
		require.Equal(t, engine.FinishStop, h.finish)
		require.Equal(t, ended.EndTokens[0], h.tokens[len(h.tokens)-1].ID)

		long := req
		long.PromptTokens = prompt(2100)
		_, err = generate(t.Context(), adapter, long)
		require.Equal(t, engine.Client, engine.KindOf(err), "%v", err)
		beyond := req
		beyond.PromptTokens = []uint32{5, 5000}
		_, err = generate(t.Context(), adapter, beyond)
		require.Equal(t, engine.Client, engine.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "out of vocabulary")
	}
	require.Equal(t, answers[vllm.APICompletions].ids(), answers[vllm.APIGenerate].ids(), "both routes say the same")
	_, err := generate(t.Context(), openAdapter(t, f.a, vllm.APIGenerate), req)
	require.Equal(t, engine.Operator, engine.KindOf(err), "the route is off by default: %v", err)
}

// completion is what is read of a whole answer.
type completion struct {
	Choices []struct {
		Text string `json:"text"`
	} `json:"choices"`
}

func (f *fleet) lora(t *testing.T) {
	zero := 0.0
	req := engine.Request{ID: "lora", PromptTokens: prompt(40), MaxTokens: 16, IgnoreEOS: true, Sampling: engine.Sampling{Temperature: &zero}}
	answers := map[string][]uint32{}
	for _, name := range []string{"", "lora-a", "lora-b"} {
		req.LoRA = name
		for api, e := range map[vllm.API]*engineServer{vllm.APICompletions: f.a, vllm.APIGenerate: f.b} {
			h, err := generate(t.Context(), openAdapter(t, e, api), req)
			require.NoError(t, err)
			if answers[name] != nil {
				require.Equal(t, answers[name], h.ids())
			}
			answers[name] = h.ids()
		}
	}
	require.NotEqual(t, answers[""], answers["lora-a"])
	require.NotEqual(t, answers["lora-b"], answers["lora-a"])
	for name, ids := range answers { // by the model's name, through Plimsoll
		body := map[string]any{"model": model, "prompt": req.PromptTokens, "max_tokens": 16, "ignore_eos": true, "temperature": 0}
		if name != "" {
			body["model"] = name
		}
		ours := rig.As[completion](t, rig.Exchange(t, http.MethodPost, f.url+"/v1/completions", body))
		engines := rig.As[completion](t, rig.Exchange(t, http.MethodPost, f.a.url+"/v1/completions", body))
		require.Equal(t, engines.Choices[0].Text, ours.Choices[0].Text, "%q gives %v", name, ids)
	}
	listed := string(rig.Exchange(t, http.MethodGet, f.url+"/v1/models", nil))
	for _, name := range []string{model, "lora-a", "lora-b"} {
		require.Contains(t, listed, `"`+name+`"`)
	}
	code, text := rig.Send(t, http.MethodPost, f.url+"/v1/completions", map[string]any{"model": "lora-z", "prompt": "x"})
	require.Equal(t, http.StatusNotFound, code, "%s", text)
	req.LoRA = "lora-z"
	_, err := generate(t.Context(), openAdapter(t, f.a, vllm.APICompletions), req)
	require.Equal(t, engine.Operator, engine.KindOf(err), "%v", err)
}

// rendered sends a client's chat body on: the engine renders and detokenizes.
func (f *fleet) rendered(t *testing.T) {
	body := map[string]any{"model": "whatever the client calls it", "messages": []rig.Message{rig.User("Which port does the ship leave from?")}, "temperature": 0}
	text, err := json.Marshal(body)
	require.NoError(t, err)
	h, err := generate(t.Context(), openAdapter(t, f.a, vllm.APICompletions), engine.Request{ID: "chat", ChatBody: text, MaxTokens: 12})
	require.NoError(t, err)
	require.Len(t, h.tokens, 12)
	own := maps.Clone(body)
	own["model"], own["max_tokens"] = model, 12
	answer := rig.As[struct {
		Choices []struct {
			Message rig.Message `json:"message"`
		} `json:"choices"`
	}](t, rig.Exchange(t, http.MethodPost, f.a.url+"/v1/chat/completions", own))
	require.Equal(t, answer.Choices[0].Message.Content, h.text())
}

func (f *fleet) killed(t *testing.T) {
	body := rig.ChatOf(model, 1000, rig.User("Tell a very long story about a lighthouse."))
	body.IgnoreEOS = true
	ctx, cancel := context.WithTimeout(t.Context(), 4*rig.Patience)
	defer cancel()
	var victim *engineServer
	var orphans []rig.Child
	cut, err := rig.Chat(ctx, f.url, body, func(replica string) {
		if victim == nil {
			victim = f.named(t, replica)
			orphans = victim.Descendants()
			victim.Kill()
		}
	})
	require.NotNil(t, victim)
	require.NoError(t, ctx.Err(), "the stream of a killed server hangs")
	t.Cleanup(func() { rig.EndAll(orphans) })
	t.Logf("the stream on the killed server %s: finish %q, %d tokens, error %v; %d children, alive: %v",
		victim.name, cut.Finish, cut.CompletionTokens, err, len(orphans), alive(orphans))
	require.NoError(t, err, "the other server goes on with it")
	require.Equal(t, "length", cut.Finish)
	require.Equal(t, 1000, cut.CompletionTokens)
	require.InDelta(t, 1, rig.Metric(t, f.url, "plimsoll_stream_breaks_total"), 0)
	for i := range 4 {
		a, err := rig.Chat(ctx, f.url, rig.ChatOf(model, 8, rig.User(fmt.Sprintf("Say the word number %d.", i))), nil)
		require.NoError(t, err, "request %d after the kill", i)
		require.NotEqual(t, victim.name, a.Replica)
	}
	rig.Eventually(t, rig.Patience, "the killed replica is down", func() bool { return f.states(t)[victim.name] == "down" })
	require.Equal(t, http.StatusOK, rig.Status(t, f.url+"/ready"), "the other replica serves")
	_, err = generate(t.Context(), openAdapter(t, victim, vllm.APICompletions), engine.Request{PromptTokens: []uint32{2}, MaxTokens: 1})
	require.Equal(t, engine.Refused, engine.KindOf(err), "%v", err)

	last := f.a
	if victim == f.a {
		last = f.b
	}
	more := last.Descendants()
	t.Cleanup(func() { rig.EndAll(more) })
	last.Kill()
	rig.Eventually(t, rig.Patience, "none serves", func() bool { return rig.Status(t, f.url+"/ready") == http.StatusServiceUnavailable })
	code, text := rig.Send(t, http.MethodPost, f.url+"/v1/chat/completions", rig.ChatOf(model, 8, rig.User("Anybody?")))
	require.Equal(t, http.StatusServiceUnavailable, code, "%s", text)
}

func alive(children []rig.Child) (ids []int) {
	for _, c := range children {
		if c.Alive() {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// states asks for the state of each replica.
func (f *fleet) states(t *testing.T) map[string]string {
	t.Helper()
	_, text := rig.Send(t, http.MethodGet, f.url+"/ready", nil)
	ready := rig.As[struct {
		Replicas []struct{ Name, State string }
	}](t, text)
	out := map[string]string{}
	for _, r := range ready.Replicas {
		out[r.Name] = r.State
	}
	return out
}
