package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/actors/fault"
	"plimsoll/actors/stream"
	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/testbench/printed"
	"plimsoll/tokenizer"
	"plimsoll/tokenizer/chat"
	"plimsoll/tokenizer/simmodel"
)

// renderer is an engine that renders chats by itself: the answer to one is the test's.
type renderer struct {
	engine.Engine

	chat func(req engine.Request, emit func(engine.Event) error) error

	mu   sync.Mutex
	seen []engine.Request
}

func (r *renderer) Capabilities() engine.Capabilities {
	c := r.Engine.Capabilities()
	c.Chat = true
	return c
}

func (r *renderer) Generate(ctx context.Context, req engine.Request, emit func(engine.Event) error) error {
	r.mu.Lock()
	r.seen = append(r.seen, req)
	r.mu.Unlock()
	if req.ChatBody == nil {
		return r.Engine.Generate(ctx, req, emit)
	}
	return r.chat(req, emit)
}

func (r *renderer) requests() []engine.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]engine.Request(nil), r.seen...)
}

// looksAt is an answer with reasoning, text and a call of a tool.
func looksAt(_ engine.Request, emit func(engine.Event) error) error {
	token := func(text string) []engine.Token { return []engine.Token{{ID: engine.NoTokenID, Text: &text}} }
	cached, prompt := 16, 777
	for _, ev := range []engine.Event{
		{Tokens: token(""), ChatDelta: json.RawMessage(`{"reasoning":"a cat?"}`)},
		{Tokens: token("A cat.")},
		{Tokens: token(""), ChatDelta: json.RawMessage(`{"tool_calls":[{"index":0}]}`), CachedTokens: &cached, PromptTokens: &prompt, Finish: &engine.Finish{Reason: engine.FinishToolCalls}},
	} {
		if err := emit(ev); err != nil {
			return err
		}
	}
	return nil
}

// linesWith counts the lines of a log that have a word.
func linesWith(log *printed.Text, word string) int {
	n := 0
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, word) {
			n++
		}
	}
	return n
}

// startRenderers starts two replicas of which the second one renders chats by itself.
func startRenderers(t *testing.T, adjust func(*Config)) (*rig, *renderer, *printed.Text) {
	t.Helper()
	r, log := &renderer{chat: looksAt}, &printed.Text{}
	f := startFleet(t, fleetConfig{
		replicas: 2, profile: sim.TinyConfig(), speed: 1, log: slog.New(slog.NewTextHandler(log, nil)),
		adjust: func(c *Config) {
			second := &c.Models[0].Replicas[1]
			r.Engine = second.Engine
			second.Engine = r
			if adjust != nil {
				adjust(c)
			}
		},
	})
	return f, r, log
}

// withTemplate is the embedded model with another chat template; "" leaves none.
func withTemplate(t *testing.T, template string) *tokenizer.Model {
	t.Helper()
	files := fstest.MapFS{}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
		data, err := fs.ReadFile(simmodel.FS(), name)
		require.NoError(t, err)
		files[name] = &fstest.MapFile{Data: data}
	}
	if template != "" {
		files["chat_template.jinja"] = &fstest.MapFile{Data: []byte(template)}
	}
	m, err := tokenizer.Load(files, "other", time.Now)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

const picture = `{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}`

// rawRequest is a chat with its body.
func rawRequest(messages string) *stream.Request {
	req := chatRequest("", 24)
	req.Input = stream.Input{
		Chat: &chat.Request{Messages: json.RawMessage(messages)}, ChatBody: json.RawMessage(`{"messages":` + messages + `}`),
	}
	return req
}

func metricOf(t *testing.T, f *rig, reason string) string {
	t.Helper()
	for line := range strings.Lines(f.metrics(t)) {
		if strings.HasPrefix(line, "plimsoll_tokenizer_passed_on_total") && strings.Contains(line, fmt.Sprintf("reason=%q", reason)) {
			return strings.TrimSpace(line[strings.LastIndexByte(line, ' '):])
		}
	}
	return "0"
}

// TestWhatCannotBeRenderedGoesToAnEngineThatRenders: whatever the reason, to the engine's own endpoint as it came, and its
// answer comes back whole.
func TestWhatCannotBeRenderedGoesToAnEngineThatRenders(t *testing.T) {
	hello := `[{"role":"user","content":"hello"}]`
	for _, c := range []struct {
		name, messages, reason string
		adjust                 func(*testing.T, *Config)
	}{
		{"a picture", `[{"role":"user","content":[{"type":"text","text":"What is this?"},` + picture + `]}]`, "media", nil},
		{"a template that breaks", hello, "template", func(t *testing.T, c *Config) {
			t.Helper()
			c.Models[0].Tokenizer = withTemplate(t, `{{ nobody.name }}`)
		}},
		{"a template without end", hello, "limit", func(t *testing.T, c *Config) {
			t.Helper()
			c.Models[0].Tokenizer = withTemplate(t, `{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}`)
		}},
		{"no template", hello, "no_template", func(t *testing.T, c *Config) {
			t.Helper()
			c.Models[0].Tokenizer = withTemplate(t, "")
		}},
		{"the operator's wish", hello, "setting", func(_ *testing.T, c *Config) { c.Models[0].Render = RenderEngine }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, r, log := startRenderers(t, func(cfg *Config) {
				if c.adjust != nil {
					c.adjust(t, cfg)
				}
			})
			for range 3 {
				resp := f.Submit(rawRequest(c.messages))
				var entries []stream.Entry
				var finish *stream.Finish
				for finish == nil {
					d, err := resp.Next(t.Context())
					require.NoError(t, err)
					entries, finish = append(entries, d.Entries...), d.Finish
				}
				require.Len(t, entries, 3)
				require.JSONEq(t, `{"reasoning":"a cat?"}`, string(entries[0].ChatDelta))
				require.Equal(t, "A cat.", entries[1].Text)
				require.JSONEq(t, `{"tool_calls":[{"index":0}]}`, string(entries[2].ChatDelta))
				require.Equal(t, stream.StopToolCalls, finish.Reason)
				require.Equal(t, []string{"sim-1"}, resp.Replicas())
				require.Equal(t, stream.Usage{PromptTokens: 777, CompletionTokens: 3, CachedTokens: 16, CachedKnown: true}, resp.Usage())
			}
			f.quiet(t)
			for _, req := range r.requests() {
				require.JSONEq(t, `{"messages":`+c.messages+`}`, string(req.ChatBody))
				require.Nil(t, req.PromptTokens)
				require.Equal(t, 24, req.MaxTokens)
			}
			require.Equal(t, "3", metricOf(t, f, c.reason))
			require.Equal(t, 1, linesWith(log, "chats go to the engine as they came"), "said once")
		})
	}
}

// TestWhatTheClientMustChangeReachesNoEngine, nor does what no engine can render, nor a tokenization.
func TestWhatTheClientMustChangeReachesNoEngine(t *testing.T) {
	image := `[{"role":"user","content":[` + picture + `]}]`
	refusing := func(t *testing.T, c *Config) {
		t.Helper()
		c.Models[0].Tokenizer = withTemplate(t, `{{ raise_exception("roles must alternate") }}`)
	}
	for _, c := range []struct {
		name, messages string
		adjust         func(*testing.T, *Config)
		says           string
	}{
		{"what the template refuses", `[{"role":"user","content":"x"}]`, refusing, "roles must alternate"},
		{"messages of no kind", `[1]`, nil, "messages[0]"},
		{"a picture where no engine renders", image, func(_ *testing.T, c *Config) { c.Models[0].Replicas = c.Models[0].Replicas[:1] }, "text only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, r, _ := startRenderers(t, func(cfg *Config) {
				if c.adjust != nil {
					c.adjust(t, cfg)
				}
			})
			if len(f.Replicas()) == 1 {
				t.Cleanup(func() { require.NoError(t, r.Close()) })
			}
			a := readAll(t.Context(), f.Submit(rawRequest(c.messages)), 1)
			require.Error(t, a.err)
			require.Equal(t, fault.BadInput, fault.Of(a.err).Kind)
			require.Contains(t, a.err.Error(), c.says)
			require.Empty(t, r.requests())
		})
	}
	f, r, _ := startRenderers(t, nil)
	_, err := f.Tokenize(t.Context(), simmodel.Name, "default", stream.Input{Chat: &chat.Request{Messages: json.RawMessage(image)}})
	require.Equal(t, fault.BadInput, fault.Of(err).Kind)
	require.Empty(t, r.requests())
	f, _, _ = startRenderers(t, func(c *Config) { c.Models[0].Render = RenderEngine })
	_, err = f.Tokenize(t.Context(), simmodel.Name, "default", stream.Input{Chat: &chat.Request{Messages: json.RawMessage(`[{"role":"user","content":"x"}]`)}})
	require.Equal(t, fault.BadInput, fault.Of(err).Kind, "a guessed prompt is worse than none")
	require.True(t, f.Models()[0].EngineRenders)
}

// TestTextIsRenderedHere though an engine could do it: routing lives on knowing the prompt.
func TestTextIsRenderedHere(t *testing.T) {
	f, r, log := startRenderers(t, nil)
	for range 6 {
		require.NoError(t, readAll(t.Context(), f.Submit(rawRequest(`[{"role":"user","content":"hello"}]`)), 1).err)
	}
	f.quiet(t)
	for _, req := range r.requests() {
		require.Nil(t, req.ChatBody)
		require.NotEmpty(t, req.PromptTokens)
	}
	require.Zero(t, linesWith(log, "chats go to the engine"))
	require.False(t, f.Models()[0].EngineRenders)
}

// TestALongRawPromptIsTheEnginesToRefuse: an estimate is no reason to refuse anything.
func TestALongRawPromptIsTheEnginesToRefuse(t *testing.T) {
	f, r, _ := startRenderers(t, nil)
	images := strings.Repeat(picture+",", 500) + picture
	r.chat = func(engine.Request, func(engine.Event) error) error {
		return &engine.Failure{Kind: engine.Client, FromEngine: true, Status: 400, Message: "too many images"}
	}
	a := readAll(t.Context(), f.Submit(rawRequest(`[{"role":"user","content":[`+images+`]}]`)), 1)
	require.Equal(t, fault.EngineRefused, fault.Of(a.err).Kind)
	require.Contains(t, a.err.Error(), "too many images")
	require.Len(t, r.requests(), 1)
	f.quiet(t)
}

func TestRenderEngineNeedsAnEngineThatRenders(t *testing.T) {
	f := startFleet(t, fleetConfig{replicas: 1, profile: sim.TinyConfig(), speed: 1})
	cfg := f.cfg
	cfg.Models = append([]Model(nil), cfg.Models...)
	cfg.Models[0].Render = RenderEngine
	require.ErrorContains(t, cfg.Validate(), "renders chats by itself")
}

func TestRenderingsHaveWords(t *testing.T) {
	for r := range NumRenderings {
		got, err := ParseRendering(r.String())
		require.NoError(t, err)
		require.Equal(t, r, got)
	}
	_, err := ParseRendering("nobody")
	require.Error(t, err)
}
