package chat_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"plimsoll/testbench/shared"
	"plimsoll/tokenizer/chat"
	"plimsoll/tokenizer/jinja"
)

// folder is a model's folder.
func folder(files map[string]string) fstest.MapFS {
	dir := fstest.MapFS{}
	for name, text := range files {
		dir[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return dir
}

func TestLoadFindsTheTemplate(t *testing.T) {
	const config = `{"chat_template": "in config"}`
	for _, c := range []struct {
		name           string
		files          map[string]string
		plain, toolUse string // toolUse empty: no template of its own
	}{
		{"tokenizer_config.json", map[string]string{"tokenizer_config.json": config}, "in config", ""},
		{"chat_template.json first", map[string]string{"tokenizer_config.json": config, "chat_template.json": `{"chat_template":"json"}`}, "json", ""},
		{
			"chat_template.jinja before all",
			map[string]string{"tokenizer_config.json": config, "chat_template.json": `{"chat_template":"json"}`, "chat_template.jinja": "jinja"},
			"jinja", "",
		},
		{
			"additional templates",
			map[string]string{"chat_template.jinja": "jinja", "additional_chat_templates/tool_use.jinja": "tools", "additional_chat_templates/rag.jinja": "rag"},
			"jinja", "tools",
		},
		{
			"a list of names",
			map[string]string{"tokenizer_config.json": `{"chat_template":[{"name":"default","template":"d"},{"name":"tool_use","template":"t"},{"name":"rag","template":"{{"}]}`},
			"d", "t",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			src, err := chat.Load(folder(c.files), jinja.DefaultLimits())
			require.NoError(t, err)
			text, err := src.Template.Render(nil, clock)
			require.NoError(t, err)
			require.Equal(t, c.plain, text)
			if c.toolUse == "" {
				require.Nil(t, src.ToolUse)
				return
			}
			text, err = src.ToolUse.Render(nil, clock)
			require.NoError(t, err)
			require.Equal(t, c.toolUse, text)
		})
	}
}

func TestLoadFindsSpecialTokens(t *testing.T) {
	const config = `{"bos_token":"<s>","eos_token":{"__type":"AddedToken","content":"</s>","lstrip":false},"unk_token":null,"add_bos_token":true,
		"extra_special_tokens":{"image_token":"<i>"}`
	for _, c := range []struct {
		name  string
		files map[string]string
		want  map[string]string
	}{
		{"none", map[string]string{}, map[string]string{}},
		{"strings, objects and null", map[string]string{"tokenizer_config.json": config + `}`}, map[string]string{"bos_token": "<s>", "eos_token": "</s>", "image_token": "<i>"}},
		{
			"the older file comes first where there are no added tokens",
			map[string]string{"tokenizer_config.json": config + `}`, "special_tokens_map.json": `{"bos_token":{"content":"<B>"},"pad_token":"<p>"}`},
			map[string]string{"bos_token": "<B>", "eos_token": "</s>", "pad_token": "<p>", "image_token": "<i>"},
		},
		{
			"and does not count where there are",
			map[string]string{"tokenizer_config.json": config + `,"added_tokens_decoder":{}}`, "special_tokens_map.json": `{"bos_token":"<B>","pad_token":"<p>"}`},
			map[string]string{"bos_token": "<s>", "eos_token": "</s>", "image_token": "<i>"},
		},
		{"the older file alone", map[string]string{"special_tokens_map.json": `{"bos_token":"<B>"}`}, map[string]string{"bos_token": "<B>"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.files["chat_template.jinja"] = "x"
			src, err := chat.Load(folder(c.files), jinja.DefaultLimits())
			require.NoError(t, err)
			require.Equal(t, c.want, src.SpecialTokens)
			require.Equal(t, c.want, src.Config().SpecialTokens)
		})
	}
}

func TestLoadNamesThePlaceOfAFault(t *testing.T) {
	for _, c := range []struct {
		files map[string]string
		place string
	}{
		{map[string]string{"chat_template.jinja": "a\n{% if %}"}, "chat_template.jinja:2: "},
		{map[string]string{"chat_template.jinja": "a", "additional_chat_templates/tool_use.jinja": "{{"}, "additional_chat_templates/tool_use.jinja:1: "},
		{map[string]string{"tokenizer_config.json": "{\n\"a\": 1,\n\"b\" 2}"}, "tokenizer_config.json:3: "},
		{map[string]string{"tokenizer_config.json": "[]"}, "tokenizer_config.json:1: "},
		{map[string]string{"tokenizer_config.json": `{"chat_template":"a\n\n{{ x |nofilter }}"}`}, "tokenizer_config.json:3: "},
		{map[string]string{"tokenizer_config.json": `{"chat_template":[{"name":"default","template":"{{"}]}`}, "tokenizer_config.json#default:1: "},
		{map[string]string{"tokenizer_config.json": `{"chat_template":5}`}, "tokenizer_config.json: chat_template"},
		{map[string]string{"tokenizer_config.json": `{"chat_template":[5]}`}, "tokenizer_config.json: chat_template[0]"},
		{map[string]string{"tokenizer_config.json": `{"chat_template":[{"name":"default"}]}`}, "tokenizer_config.json: chat_template[0]"},
		{map[string]string{"tokenizer_config.json": `{"bos_token":5}`, "chat_template.jinja": "x"}, "tokenizer_config.json: bos_token"},
		{map[string]string{"special_tokens_map.json": `{"bos_token":[]}`, "chat_template.jinja": "x"}, "special_tokens_map.json: bos_token"},
		{map[string]string{"special_tokens_map.json": `{`, "chat_template.jinja": "x"}, "special_tokens_map.json:1: "},
		{map[string]string{"chat_template.json": `{"chat_template":`}, "chat_template.json:1: "},
	} {
		_, err := chat.Load(folder(c.files), jinja.DefaultLimits())
		require.Error(t, err)
		require.NotErrorIs(t, err, chat.ErrNoTemplate)
		require.Contains(t, err.Error(), c.place)
	}
}

func TestLoadWithoutTemplate(t *testing.T) {
	src, err := chat.Load(folder(map[string]string{"tokenizer_config.json": `{"eos_token":"</s>"}`}), jinja.DefaultLimits())
	require.ErrorIs(t, err, chat.ErrNoTemplate)
	require.Equal(t, map[string]string{"eos_token": "</s>"}, src.SpecialTokens, "known even then")
}

func TestLoadFile(t *testing.T) {
	dir := folder(map[string]string{"mine.jinja": "hello", "bad.jinja": "\n\n{% bogus %}"})
	tmpl, err := chat.LoadFile(dir, "mine.jinja", jinja.DefaultLimits())
	require.NoError(t, err)
	text, err := tmpl.Render(nil, clock)
	require.NoError(t, err)
	require.Equal(t, "hello", text)
	_, err = chat.LoadFile(dir, "bad.jinja", jinja.DefaultLimits())
	require.ErrorContains(t, err, "bad.jinja:3: ")
	_, err = chat.LoadFile(dir, "none.jinja", jinja.DefaultLimits())
	require.ErrorIs(t, err, os.ErrNotExist)
}

// recording is what was sent to a real engine and what it answered.
type recording struct {
	Request struct {
		Path string          `json:"path"`
		Body json.RawMessage `json:"body"`
	} `json:"request"`
	Response struct {
		Status int `json:"status"`
		Body   struct {
			Tokens         []int `json:"tokens"`
			TokenIDs       []int `json:"token_ids"`
			PromptTokenIDs []int `json:"prompt_token_ids"`
		} `json:"body"`
	} `json:"response"`
}

// body is a chat request as a client sends it.
type body struct {
	Messages             json.RawMessage `json:"messages"`
	Tools                json.RawMessage `json:"tools"`
	ToolChoice           json.RawMessage `json:"tool_choice"`
	AddGenerationPrompt  *bool           `json:"add_generation_prompt"`
	ContinueFinalMessage *bool           `json:"continue_final_message"`
}

// TestRecordedPrompts renders what was sent to a real vLLM and compares with the text of the token ids that it then used.
func TestRecordedPrompts(t *testing.T) {
	model := shared.Path(t, "testdata", "engines", "tiny-tokenizer")
	src, err := chat.Load(os.DirFS(model), jinja.DefaultLimits())
	require.NoError(t, err)
	r, err := chat.New(src.Template, src.Config())
	require.NoError(t, err)
	vocabulary := readVocabulary(t, model)
	compared := 0
	for _, folder := range []string{"tokenize", "render", "chat"} {
		for _, file := range shared.Glob(t, "testdata", "engines", "vllm", folder, "*.json") {
			rec, ok := readRecording(t, file)
			if !ok {
				continue
			}
			var b body
			require.NoError(t, json.Unmarshal(rec.Request.Body, &b))
			got, err := r.Render(chat.Request{
				Messages: b.Messages, Tools: b.Tools, ToolChoice: b.ToolChoice,
				AddGenerationPrompt: b.AddGenerationPrompt, ContinueFinalMessage: b.ContinueFinalMessage,
			}, clock)
			require.NoError(t, err, file)
			require.Equal(t, vocabulary.text(t, rec.ids()), got, file)
			compared++
		}
	}
	require.Positive(t, compared)
	t.Logf("%d recorded prompts", compared)
}

// readRecording reads a recording if it holds a prompt of chat messages.
func readRecording(tb testing.TB, file string) (recording, bool) {
	tb.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(tb, err)
	var probe struct {
		Request struct {
			Path string `json:"path"`
			Body struct {
				Messages json.RawMessage `json:"messages"`
			} `json:"body"`
		} `json:"request"`
		Response struct {
			Status int `json:"status"`
		} `json:"response"`
	}
	if json.Unmarshal(raw, &probe) != nil || probe.Response.Status != 200 || probe.Request.Body.Messages == nil ||
		probe.Request.Path == "/v1/messages/render" {
		return recording{}, false
	}
	var rec recording
	require.NoError(tb, json.Unmarshal(raw, &rec), file)
	return rec, len(rec.ids()) > 0
}

// ids returns the token ids of the prompt, whatever the route calls them.
func (r recording) ids() []int {
	for _, ids := range [][]int{r.Response.Body.Tokens, r.Response.Body.TokenIDs, r.Response.Body.PromptTokenIDs} {
		if len(ids) > 0 {
			return ids
		}
	}
	return nil
}

// vocabulary is the text of each token of a byte-level tokenizer.
type vocabulary map[int]string

func readVocabulary(tb testing.TB, model string) vocabulary {
	tb.Helper()
	raw, err := os.ReadFile(model + "/tokenizer.json")
	require.NoError(tb, err)
	var file struct {
		Model struct {
			Vocab map[string]int `json:"vocab"`
		} `json:"model"`
		AddedTokens []struct {
			ID      int    `json:"id"`
			Content string `json:"content"`
		} `json:"added_tokens"`
	}
	require.NoError(tb, json.Unmarshal(raw, &file))
	bytesOf := byteAlphabet()
	v := vocabulary{}
	for token, id := range file.Model.Vocab {
		text := make([]byte, 0, len(token))
		for _, r := range token {
			text = append(text, bytesOf[r])
		}
		v[id] = string(text)
	}
	for _, t := range file.AddedTokens {
		v[t.ID] = t.Content
	}
	return v
}

// byteAlphabet is how byte-level BPE writes each byte as a printable character: those that print stand for themselves.
func byteAlphabet() map[rune]byte {
	out := map[rune]byte{}
	next := rune(256)
	for b := range 256 {
		if b >= 33 && b <= 126 || b >= 161 && b <= 172 || b >= 174 {
			out[rune(b)] = byte(b)
			continue
		}
		out[next] = byte(b)
		next++
	}
	return out
}

func (v vocabulary) text(tb testing.TB, ids []int) string {
	tb.Helper()
	var out strings.Builder
	for _, id := range ids {
		require.Contains(tb, v, id)
		out.WriteString(v[id])
	}
	return out.String()
}
