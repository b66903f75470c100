package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"plimsoll/engine/openai"
	"plimsoll/tokenizer/simmodel"
)

// modelWith is a folder with the embedded model and another chat template.
func modelWith(t *testing.T, template string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, fs.WalkDir(simmodel.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(simmodel.FS(), name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, filepath.Base(name)), data, 0o600)
	}))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(template), 0o600))
	return dir
}

// ready waits until the server's replicas serve.
func (s *server) ready(t *testing.T) *server {
	t.Helper()
	require.Eventually(t, func() bool {
		status, _ := s.status(t, "GET", "/ready", "")
		return status == 200
	}, time.Minute, 10*time.Millisecond)
	return s
}

const askedOfBoth = `{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Where is the harbour?"}],` +
	`"temperature":0,"max_tokens":24,"seed":3`

func (s *server) answer(t *testing.T, body string) openai.ChatCompletion {
	t.Helper()
	status, text := s.status(t, "POST", "/v1/chat/completions", body)
	require.Equal(t, 200, status, text)
	var answer openai.ChatCompletion
	require.NoError(t, json.Unmarshal([]byte(text), &answer))
	return answer
}

// TestEngineRendersWhatWeRender: an engine that renders by itself gives the answer that our own rendering gets of it, also where
// our template is of no use.
func TestEngineRendersWhatWeRender(t *testing.T) {
	engine := launch(t, "sim", "--profile", "tiny", "--speed", "10")
	embedded, err := fs.ReadFile(simmodel.FS(), "chat_template.jinja")
	require.NoError(t, err)
	serving := func(template string, args ...string) *server {
		return start(t, append([]string{"--replica", "vllm=" + engine.url, "--tokenizer", modelWith(t, template)}, args...)...).ready(t)
	}
	local := serving(string(embedded))
	want := local.answer(t, askedOfBoth+"}")
	require.NotEmpty(t, *want.Choices[0].Message.Content)
	for name, s := range map[string]*server{
		"by setting":                  serving(string(embedded), "--render", "engine"),
		"a template without an end":   serving("{% if x %}", "--render", "engine"),
		"a template that breaks here": serving("{{ nobody.name }}"),
	} {
		t.Run(name, func(t *testing.T) {
			got := s.answer(t, askedOfBoth+"}")
			require.Equal(t, want.Choices, got.Choices)
			require.Equal(t, want.Usage.PromptTokens, got.Usage.PromptTokens, "the engine says how long its prompt is")
			require.Equal(t, want.Usage.CompletionTokens, got.Usage.CompletionTokens)

			stopped := askedOfBoth + `,"stop":["` + (*want.Choices[0].Message.Content)[3:6] + `"]}`
			cut, whole := s.answer(t, stopped), local.answer(t, stopped)
			require.Equal(t, whole.Choices[0].Message, cut.Choices[0].Message)
			require.Equal(t, openai.FinishStop, cut.Choices[0].FinishReason)

			logged := s.answer(t, askedOfBoth+`,"logprobs":true,"top_logprobs":2}`)
			require.Equal(t, local.answer(t, askedOfBoth+`,"logprobs":true,"top_logprobs":2}`).Choices[0].Logprobs, logged.Choices[0].Logprobs)

			status, body := s.status(t, "POST", "/v1/chat/completions", askedOfBoth+`,"stream":true}`)
			require.Equal(t, 200, status)
			require.Contains(t, body, "data: [DONE]")
			_, metrics := s.status(t, "GET", "/metrics", "")
			require.Regexp(t, `plimsoll_tokenizer_passed_on_total\{model="[^"]+",reason="(setting|template)"\} 4`, metrics)
		})
	}
}

// TestImagesAreTheEnginesToTake: ours to refuse where no engine could, else the engine's own words.
func TestImagesAreTheEnginesToTake(t *testing.T) {
	const image = `{"messages":[{"role":"user","content":[{"type":"text","text":"What is this?"},` +
		`{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}],"max_tokens":4}`
	alone := start(t).ready(t)
	status, body := alone.status(t, "POST", "/v1/chat/completions", image)
	require.Equal(t, 400, status)
	require.Contains(t, body, "messages[0].content[1]")
	_, metrics := alone.status(t, "GET", "/metrics", "")
	require.NotContains(t, metrics, "plimsoll_tokenizer_passed_on_total{")

	engine := launch(t, "sim", "--profile", "tiny", "--speed", "10")
	front := start(t, "--replica", "vllm="+engine.url, "--tokenizer", modelWith(t, "{{ messages }}")).ready(t)
	direct, said := engine.status(t, "POST", "/v1/chat/completions", image)
	require.Equal(t, 400, direct)
	status, body = front.status(t, "POST", "/v1/chat/completions", image)
	require.Equal(t, 400, status)
	var theirs, ours struct{ Error struct{ Message string } }
	require.NoError(t, json.Unmarshal([]byte(said), &theirs))
	require.NoError(t, json.Unmarshal([]byte(body), &ours))
	require.Equal(t, theirs.Error.Message, ours.Error.Message)
	_, metrics = front.status(t, "GET", "/metrics", "")
	require.Regexp(t, `plimsoll_tokenizer_passed_on_total\{model="[^"]+",reason="media"\} 1`, metrics)
}

// TestRenderNeedsSomebodyWhoCan: the server says at the start what would fail later.
func TestRenderNeedsSomebodyWhoCan(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--render", "engine"}, "renders chats by itself"},
		{[]string{"--render", "nobody"}, "write one of local, engine"},
		{[]string{"--tokenizer", modelWith(t, "{% if x %}")}, "--render engine"},
	} {
		code, _, stderr := plimsoll(t, "", append([]string{"serve", "--listen", "127.0.0.1:0"}, c.args...)...)
		require.NotZero(t, code)
		require.Contains(t, stderr, c.says)
	}
}
